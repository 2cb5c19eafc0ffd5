"""Lines on stdin and stdout to one MCP endpoint over HTTP: what `serve --stdio` does once it has found the server.

Relays messages and what HTTP carries beside them (session, protocol version, method and name headers, streams, ending a
request by closing it). Knows nothing of toolboxes, tools or what any method means.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import httpx2
import msgspec

from toolcrib import wire
from toolcrib.client.rest import certificates, is_loopback

JsonObject = dict[str, Any]
Write = Callable[[bytes], None]
_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_EVENTS = "text/event-stream"
_FINISH_S = 30.0
_REOPEN_S = 1.0


class _Reply(msgspec.Struct):
    """What the bridge itself reads of an answer."""

    jsonrpc: str = ""
    result: JsonObject | None = None


class Bridge:
    """One client on stdio. Requests run side by side; notifications and answers go out in the order they came."""

    def __init__(self, http: httpx2.AsyncClient, url: str, write: Write) -> None:
        self._http = http
        self._url = url
        self._write = write
        self._session: dict[str, str] = {}
        self._running: dict[str | int, asyncio.Task[None]] = {}
        self._listener: asyncio.Task[None] | None = None

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Relay until stdin ends, then let what is running finish."""
        async for line in lines:
            await self._take(line)
        if self._running:
            await asyncio.wait(self._running.values(), timeout=_FINISH_S)
        for task in (*self._running.values(), *([self._listener] if self._listener else [])):
            task.cancel()
        if "mcp-session-id" in self._session:
            await self._end_session()

    async def _take(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            self._write(_error(None, -32700, f"Parse error: {error}"))
            return
        if not isinstance(message, dict):  # a batch, or nothing MCP knows: the server judges
            await self._post(line, {})
            return
        await self._take_one(line, cast("JsonObject", message))

    async def _take_one(self, line: bytes, message: JsonObject) -> None:
        request, method = message.get("id"), message.get("method")
        if method == "notifications/cancelled" and self._cancel(message):
            return
        if method is None or not isinstance(request, str | int):
            await self._post(line, message)
            if method == "notifications/initialized" and self._listener is None:
                self._listener = asyncio.create_task(self._listen())
            return
        task = asyncio.create_task(self._post(line, message))
        self._running[request] = task
        task.add_done_callback(lambda _: self._running.pop(request, None))

    async def _post(self, line: bytes, message: JsonObject) -> None:
        headers = {
            "content-type": "application/json",
            "accept": f"application/json, {_EVENTS}",
            **self._beside(message),
        }
        try:
            async with self._http.stream("POST", self._url, content=line, headers=headers) as answer:
                if session := answer.headers.get("mcp-session-id"):
                    self._session["mcp-session-id"] = session
                if answer.headers.get("content-type", "").startswith(_EVENTS):
                    await self._relay_events(answer)
                else:
                    self._relay_body(await answer.aread(), message)
        except httpx2.TransportError as error:
            self._fail(message, f"The toolcrib server gave no answer: {error or type(error).__name__}.")

    def _relay_body(self, body: bytes, message: JsonObject) -> None:
        if not body.strip():
            return
        try:
            answer = msgspec.json.decode(body, type=_Reply | list[Any])
        except msgspec.DecodeError:
            self._fail(message, "The server's answer is not JSON; is this the endpoint of a toolcrib server?")
            return
        if isinstance(answer, _Reply) and not answer.jsonrpc:
            problem = msgspec.json.decode(body, type=wire.Failure).error
            self._fail(message, problem.message, {"code": problem.code})
            return
        if isinstance(answer, _Reply) and message.get("method") == "initialize":
            self._session["mcp-protocol-version"] = str((answer.result or {}).get("protocolVersion", ""))
        self._write(body)

    async def _relay_events(self, answer: httpx2.Response) -> None:
        async for event in httpx2.EventSource(answer, max_event_size=None):
            if event.data:
                self._write(event.data.encode())

    async def _listen(self) -> None:
        """What a session-era server says unasked; a server that offers no such stream is left alone."""
        headers = {"accept": _EVENTS, **self._session}
        while True:
            try:
                async with self._http.stream("GET", self._url, headers=headers) as answer:
                    if answer.status_code != 200:
                        return
                    await self._relay_events(answer)
            except httpx2.TransportError:
                pass
            await asyncio.sleep(_REOPEN_S)

    async def _end_session(self) -> None:
        try:
            await self._http.delete(self._url, headers=self._session)
        except httpx2.TransportError:
            return

    def _cancel(self, message: JsonObject) -> bool:
        """In the stateless era closing the request is the cancel signal; a session-era server is told."""
        task = self._running.get(_params(message).get("requestId", ""))
        if task is None or "mcp-session-id" in self._session:
            return False
        return task.cancel()

    def _beside(self, message: JsonObject) -> dict[str, str]:
        """The headers HTTP wants beside a message: the session's, or those of the stateless era."""
        params = _params(message)
        version = params.get("_meta", {}).get(_VERSION)
        if version is None:
            return self._session
        method = str(message.get("method", ""))
        named = params.get(_NAMED.get(method, ""))
        name = {"mcp-name": _header(str(named))} if named is not None else {}
        return {"mcp-protocol-version": str(version), "mcp-method": _header(method), **name}

    def _fail(self, message: JsonObject, said: str, data: JsonObject | None = None) -> None:
        if "id" in message and "method" in message:
            self._write(_error(message["id"], -32603, said, data))
        else:
            print(said, file=sys.stderr)


async def stdin_lines() -> AsyncIterator[bytes]:
    """The lines of stdin, read on a thread so that nothing waits for the client to speak."""
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        if line.strip():
            yield line


def write_line(message: bytes) -> None:
    """One message, one line."""
    sys.stdout.buffer.write(message.strip().replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
    sys.stdout.buffer.flush()


async def relay(url: str, token: str | None) -> None:
    """Join stdin and stdout to an MCP endpoint until stdin ends."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    timeout = httpx2.Timeout(10.0, read=None)
    trust, proxies = certificates(url), not is_loopback(url)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, verify=trust, trust_env=proxies) as http:
        await Bridge(http, url, write_line).run(stdin_lines())


def _params(message: JsonObject) -> JsonObject:
    params = message.get("params")
    return cast("JsonObject", params) if isinstance(params, dict) else {}


def _header(value: str) -> str:
    """A header value as it is, or encoded as the specification says when it would not survive."""
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def _error(id: object, code: int, message: str, data: JsonObject | None = None) -> bytes:
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error})
