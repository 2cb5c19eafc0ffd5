"""A front that gives every request the query its client dropped.

Two scenarios of the suite build their requests from the path of the address alone, so `api-version` never arrives and
they would be refused for that and nothing else. What passes here is otherwise untouched, header bytes included.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def front_of(url: str) -> Iterator[str]:
    """The address of a front on a port of its own, with the path of `url` and no query."""
    target = urlsplit(url)
    assert target.hostname is not None
    assert target.port is not None
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection(target.hostname, target.port)
        back = asyncio.ensure_future(_pour(there, writer))
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                here.write(_with_query(head, target.query.encode(), target.netloc.encode()))
                here.write(await reader.readexactly(_length(head)))
        here.close()
        await back

    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(carry, "127.0.0.1", 0), loop).result(10)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{target.path}"
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


def _with_query(head: bytes, query: bytes, host: bytes) -> bytes:
    first, _, rest = head.partition(b"\r\n")
    method, path, version = first.split(b" ")
    lines = [b"Host: " + host if line[:5].lower() == b"host:" else line for line in rest.split(b"\r\n")]
    return b" ".join((method, path if b"?" in path else path + b"?" + query, version)) + b"\r\n" + b"\r\n".join(lines)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
