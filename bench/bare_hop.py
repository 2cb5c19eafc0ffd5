"""The least a middleman can do: take a `tools/call`, ask the upstream the same over a kept connection, hand it back.

`python -m bench.bare_hop PORT UPSTREAM_PORT`. No framework, no checks, no errors, no records; every connection of it is
one httptools parser, every request one task. It is the limit for anything that stands in between.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import httptools
import msgspec
import uvloop


class _Result(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw()


_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
_read_result = msgspec.json.Decoder(_Result).decode
_idle: list[_Upstream] = []
_POST = (
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:8000\r\ncontent-type: application/json\r\n"
    b"accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
    b"mcp-method: tools/call\r\nmcp-name: echo\r\ncontent-length: %d\r\n\r\n%b"
)
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


class _Upstream(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self._transport, self._parser = transport, httptools.HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in _idle:
            _idle.remove(self)

    def ask(self, body: bytes) -> asyncio.Future[bytes]:
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._body = b""
        self._transport.write(_POST % (len(body), body))
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.since = time.monotonic()
        _idle.append(self)
        self._answer.set_result(self._body)


class _Client(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self._transport, self._parser = transport, httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        request = _decode(self._body)
        request["params"]["name"] = "echo"
        body = _encode(request)
        while _idle and time.monotonic() - _idle[-1].since > 4.0:  # about to be closed by the other side
            _idle.pop()
        upstream = _idle.pop() if _idle else await _connected()
        result = _read_result(await upstream.ask(body)).result
        answer = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(request["id"]), bytes(result))
        self._transport.write(_OK % (len(answer), answer))


async def _connected() -> _Upstream:
    return (await asyncio.get_running_loop().create_connection(_Upstream, "127.0.0.1", int(sys.argv[2])))[1]


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(_Client, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
