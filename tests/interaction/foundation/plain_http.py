"""A client that is nothing but a socket, and a server around one handler: HTTP/1.1 with nothing in between."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from tests.kit.running import Server

from toolcrib.http import Request, Response
from toolcrib.web.auth import Doorkeeper
from toolcrib.web.edge import Edge
from toolcrib.web.routes import Route
from toolcrib.web.server import HttpServer

GUARD_S = 4.0  # less than the server's grace, so that a wait for its end tells the two apart
HOST = b"Host: localhost\r\n"
BODY = b'{"tools":[{"type":"web_search"}]}'
SIZED = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
TOO_LARGE = 5 * 2**20


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """One connection, and nothing between it and the test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        async with asyncio.timeout(GUARD_S):
            for piece in pieces:
                self.writer.write(piece)
                await self.writer.drain()

    async def head(self) -> Answer:
        async with asyncio.timeout(GUARD_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        headers = dict(line.split(": ", 1) for line in lines[1:])
        assert len(headers) == len(lines) - 1, lines
        return Answer(int(lines[0].split()[1]), headers, b"")

    async def answer(self, *, bodiless: bool = False) -> Answer:
        """The next whole answer of declared length."""
        head = await self.head()
        async with asyncio.timeout(GUARD_S):
            size = 0 if bodiless else int(head.headers.get("content-length", "0"))
            return Answer(head.status, head.headers, await self.reader.readexactly(size))

    async def rest(self) -> bytes:
        """Everything up to the end, however it comes."""
        async with asyncio.timeout(GUARD_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    def leave(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def connected(port: int, tls: ssl.SSLContext | None = None, *, rcvbuf: int = 0) -> AsyncGenerator[Client]:
    sock = socket.socket()
    if rcvbuf:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except OSError:
        sock.close()
        raise
    name = "localhost" if tls else None
    reader, writer = await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=name, limit=2**18)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def serving(handler: Callable[[Any, Request], Awaitable[Response | None]]) -> AsyncGenerator[int]:
    """The port where `POST /` is answered by this handler."""
    nobody = cast("Any", None)
    doorkeeper = Doorkeeper(nobody, auth=False, loopback=True, allowed_hosts=(), allowed_origins=())
    route = Route("POST", "/", handler, None, "", needs_api_version=False)
    house = HttpServer(Edge(nobody, nobody, doorkeeper, max_body_bytes=2**20, routes=[route]))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served = asyncio.create_task(house.run(listener))
        try:
            yield listener.getsockname()[1]
        finally:
            house.stop()
            house.stop()  # what still runs is not waited for
            await served


def get(path: bytes, headers: bytes = b"", version: bytes = b"1.1") -> bytes:
    return b"GET %b HTTP/%b\r\n%b%b\r\n" % (path, version, HOST, headers)


def post(body: bytes = b"", headers: bytes = b"", version: bytes = b"1.1") -> bytes:
    return b"POST / HTTP/%b\r\n%b%b\r\n%b" % (version, HOST, headers, body)


def creation(server: Server, name: str, body: bytes = BODY, headers: bytes = SIZED) -> bytes:
    """A write that creates the toolbox `name`."""
    target = f"/api/projects/default/toolboxes/{name}/versions?api-version=v1"
    return (
        f"POST {target} HTTP/1.1\r\nAuthorization: Bearer {server.token}\r\n".encode() + HOST + headers + b"\r\n" + body
    )


def in_chunks(body: bytes, size: int = 7) -> bytes:
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
