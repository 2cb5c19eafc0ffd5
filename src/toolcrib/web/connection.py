"""HTTP/1.1 as one client speaks it to us: requests in, one after the other, and the way back for each.

llhttp (`httptools`) does the parsing and refuses what is ambiguous. This keeps order, pressure and endings: a request
is served from the moment its headers are there, its body is read no faster than its handler takes it, and what a client
may make us hold is bounded. Knows nothing of routes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Protocol, cast

import httptools

from toolcrib.errors import BadRequest, TooLarge, ToolcribError
from toolcrib.http import Header
from toolcrib.web.problems import problem

MOST_HEAD_BYTES = 64 * 1024
BODY_AHEAD_BYTES = 256 * 1024
"""How much of a body is held before its handler has asked for it."""
KEEP_ALIVE_S = 75.0
STALL_S = 30.0
"""How long a request may take to arrive, as long as nothing of it comes; its headers as a whole."""
SLOW_READER_S = 60.0
_STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_CLOSE = b"connection: close\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_HOP = frozenset({b"upgrade", b"connection", b"http2-settings"})


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class House(Protocol):
    """What all connections share."""

    date: bytes
    """The `date` header of this second, with its line end."""
    now: float
    """The time of this second."""
    is_closing: bool

    def serve(self, incoming: Incoming, /) -> Coroutine[Any, Any, None]: ...

    def enter(self, connection: Connection) -> None: ...

    def leave(self, connection: Connection) -> None: ...


class Incoming:
    """One request as it arrived, and the way back: the `Channel` of its handler."""

    __slots__ = (
        "_body", "_chunked", "_connection", "_size", "_waiter", "has_started", "is_answered", "is_complete", "is_gone",
        "keep_alive", "method", "on_gone", "raw_headers", "target", "task",
    )  # fmt: skip

    def __init__(self, connection: Connection) -> None:
        self.method = ""
        self.target = b""
        self.raw_headers: list[Header] = []
        self.keep_alive = True
        self.is_complete = False
        self.is_answered = False
        self.has_started = False
        self.is_gone = False
        self.on_gone: Callable[[], None] | None = None
        self.task: asyncio.Task[None] | None = None
        self._connection = connection
        self._body: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._chunked = True

    async def body(self, limit: int) -> bytes:
        """The whole body; `TooLarge` as soon as it is, or is announced to be."""
        if not self.is_complete and self._announced() > limit:
            raise _too_large(limit)
        if not self.is_complete and (b"expect", b"100-continue") in self.raw_headers:
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while self._size <= limit:
            if self.is_complete:
                return self._body[0] if len(self._body) == 1 else b"".join(self._body)
            if self.is_gone:
                raise ClientGone
            self._connection.resume_reading()
            self._waiter = self._connection.loop.create_future()
            await self._waiter
        raise _too_large(limit)

    def answer(self, status: int, headers: Sequence[Header], body: bytes, *, with_body: bool = True) -> None:
        """The whole answer at once. One that comes after a stream has begun can only break that stream off."""
        if self.has_started:
            return self._connection.abort()
        length = b"content-length: %d\r\n\r\n" if status != 204 else b"\r\n"
        parts = self._head(status, headers)
        parts.append(length % len(body) if status != 204 else length)
        if with_body:
            parts.append(body)
        self._connection.write(b"".join(parts))
        return self._connection.answered(self)

    # What handlers see of it (`http.Channel`):

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def start(self, headers: Sequence[Header]) -> None:
        self.has_started = True
        self._chunked = self._connection.speaks_1_1
        self.keep_alive = self.keep_alive and self._chunked
        self._connection.write(b"".join([*self._head(200, headers), _CHUNKED if self._chunked else b"\r\n"]))

    async def write(self, piece: bytes) -> None:
        if piece:
            self._connection.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)
            await self._connection.drain()

    async def end(self, piece: bytes = b"") -> None:
        await self.write(piece)
        if self._chunked:
            self._connection.write(_LAST_CHUNK)
        self._connection.answered(self)

    # What the connection tells it:

    def took(self, piece: bytes) -> bool:
        """Keep a piece of the body; true when it is time to pause."""
        if self.is_answered:
            return False  # nobody will read it
        self._body.append(piece)
        self._size += len(piece)
        self._rouse()
        return self._size > BODY_AHEAD_BYTES

    def completed(self) -> None:
        self.is_complete = True
        self._rouse()

    def lost(self) -> None:
        self.is_gone = True
        self._rouse()
        if self.on_gone is not None:
            self.on_gone()

    def _announced(self) -> int:
        return next((int(value) for name, value in self.raw_headers if name == b"content-length"), 0)

    def _rouse(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _head(self, status: int, headers: Sequence[Header]) -> list[bytes]:
        parts = [_STATUS_LINES[status], self._connection.house.date]
        parts += [b"%b: %b\r\n" % header for header in headers]
        if not self.keep_alive or self._connection.house.is_closing:
            self.keep_alive = False
            parts.append(_CLOSE)
        return parts


class Connection(asyncio.Protocol):
    """One connection. Requests that arrive before the one in hand is answered wait their turn."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self.loop = asyncio.get_running_loop()
        self._arriving: Incoming | None = None
        self._headers: list[Header] = []
        self._current: Incoming | None = None
        self._waiting: deque[Incoming] = deque()
        self._head_bytes = 0
        self._seen = house.now
        self._may_write: asyncio.Future[None] | None = None
        self._is_reading = True
        self._is_ending = False

    @property
    def speaks_1_1(self) -> bool:
        return self._parser.get_http_version() != "1.0"

    # asyncio tells us:

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.house.enter(self)

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        arriving = self._arriving
        if arriving is None:
            self._seen = self.house.now
        elif not arriving.method and not self._may_grow(len(data)):
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._read_on_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(BadRequest("This is not a valid HTTP/1.1 request.", hint="check method, path and headers"))

    def pause_writing(self) -> None:
        self._seen = self.house.now
        self._may_write = self.loop.create_future()

    def resume_writing(self) -> None:
        if self._may_write is not None:
            self._may_write.set_result(None)
            self._may_write = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_ending = True
        self._waiting.clear()
        self.resume_writing()
        current = self._current
        if current is None or current.task is None:
            self.house.leave(self)
        else:  # what runs without a client is still ours to wait for
            current.task.add_done_callback(lambda _: self.house.leave(self))
            current.lost()

    # The parser tells us:

    def on_message_begin(self) -> None:
        self._arriving = incoming = Incoming(self)
        self._headers = incoming.raw_headers
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        cast("Incoming", self._arriving).target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        incoming = cast("Incoming", self._arriving)
        incoming.method = self._parser.get_method().decode("ascii")
        if self._parser.should_upgrade():
            return
        incoming.keep_alive = self._parser.should_keep_alive()
        if self._current is None:
            self._begin(incoming)
        else:
            self._waiting.append(incoming)
            self._pause_reading()

    def on_body(self, body: bytes) -> None:
        self._seen = self.house.now
        if cast("Incoming", self._arriving).took(body):
            self._pause_reading()

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        cast("Incoming", self._arriving).completed()
        self._arriving = None

    # A request in hand tells us:

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        if self._may_write is not None:
            await asyncio.shield(self._may_write)

    def answered(self, incoming: Incoming) -> None:
        """The request in hand is done with; its client may still be sending it."""
        incoming.is_answered = True
        self._current = None
        self._seen = self.house.now
        if not incoming.keep_alive or self._is_ending:
            self._is_ending = True
            self._transport.close()
        else:
            if self._waiting:
                self._begin(self._waiting.popleft())
            self.resume_reading()

    def resume_reading(self) -> None:
        if not self._is_reading and not self._waiting and not self._transport.is_closing():
            self._is_reading = True
            self._transport.resume_reading()

    # The house tells us:

    def look(self, now: float) -> None:
        """Once a second: end what has been idle, stalled or unread for too long."""
        silent_s = now - self._seen
        if self._may_write is not None:
            overdue = silent_s > SLOW_READER_S
        elif self._arriving is not None:
            overdue = self._is_reading and silent_s > STALL_S
        else:
            overdue = self._current is None and silent_s > KEEP_ALIVE_S
        if overdue:
            self.abort()

    def close(self) -> None:
        """Close as soon as nothing is owed any more."""
        if self._current is None:
            self._is_ending = True
            self._transport.close()

    def abort(self) -> None:
        self._is_ending = True
        self._transport.abort()

    def cancel(self) -> None:
        """The time to finish is over."""
        if self._current is not None:
            self._current.cancel()
        self.abort()

    def _begin(self, incoming: Incoming) -> None:
        self._current = incoming
        incoming.task = self.loop.create_task(self.house.serve(incoming))

    def _pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()

    def _may_grow(self, size: int) -> bool:
        """Headers are held before anybody can refuse the request, so they are bounded here."""
        self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(TooLarge(f"The headers are over the limit of {MOST_HEAD_BYTES} bytes.", param="headers"))
        return not self._is_ending

    def _read_on_without_upgrade(self, rest: bytes) -> None:
        """A client may offer another protocol (Java's offers HTTP/2 on every first request); we stay with this one."""
        incoming = cast("Incoming", self._arriving)
        if incoming.method == "CONNECT":
            return self._refuse(BadRequest("This server is not a proxy: CONNECT is not answered."))
        lines = [b"%b: %b\r\n" % header for header in incoming.raw_headers if header[0] not in _HOP]
        head = b"%b %b HTTP/1.1\r\n%b\r\n" % (incoming.method.encode(), incoming.target, b"".join(lines))
        self._parser = httptools.HttpRequestParser(self)
        return self.data_received(head + rest)

    def _refuse(self, error: ToolcribError) -> None:
        """Nothing after these bytes can be understood. What was asked before them is still answered."""
        self._is_ending = True
        self._pause_reading()
        self._waiting.clear()
        current, arriving = self._current, self._arriving
        if current is not None and current is not arriving:
            current.keep_alive = False
        elif arriving is not None and arriving.is_answered:
            self._transport.close()
        else:
            if current is not None:
                current.lost()
            response = problem(error)
            refused = Incoming(self)
            refused.keep_alive = False
            refused.answer(response.status, response.headers, response.body)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The body is over the limit of {limit} bytes.", param="body", hint="the operator can raise max_body_bytes"
    )
