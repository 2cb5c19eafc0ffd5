"""HTTP/1.1 as one client speaks it to us: requests in, one after the other, and the way back for each.

llhttp (`httptools`) does the parsing and refuses what is ambiguous. This keeps order, pressure and endings. A request
arrives, waits its turn, is in hand, is answered; it is served from the moment its headers are there. A body is read no
faster than its handler takes it, and the next request waits until the last answer has been read. Knows no routes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol, cast

import httptools

from toolcrib.errors import BadRequest, TooLarge, ToolcribError
from toolcrib.http import Header
from toolcrib.web.problems import problem

MOST_HEAD_BYTES = 64 * 1024
MOST_WAITING = 16
BODY_AHEAD_BYTES = 256 * 1024
"""How much of a body is held before its handler has asked for it."""
KEEP_ALIVE_S = 75.0
STALL_S = 30.0
"""How long headers may take to arrive, and how long nothing of a body may."""
SLOW_READER_S = 60.0
_STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_STAY = b"connection: keep-alive\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_OFFER = frozenset({b"upgrade", b"http2-settings", b"connection"})


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class House(Protocol):
    """What all connections share."""

    date: bytes
    """The `date` header of this second, with its line end."""
    now: float
    """The time of this second."""
    is_closing: bool

    def begin(self, incoming: Incoming) -> asyncio.Task[None]:
        """Serve it; `incoming.over` is called when that has ended, however it ended."""
        ...

    def enter(self, line: Line) -> None: ...

    def leave(self, line: Line) -> None: ...


class Incoming:
    """One request as it arrived, and the way back: the `Channel` of its handler."""

    __slots__ = (
        "_body",
        "_has_started",
        "_is_wanted",
        "_line",
        "_size",
        "_waiter",
        "has_head",
        "is_answered",
        "is_complete",
        "is_gone",
        "keep_alive",
        "method",
        "on_gone",
        "own_headers",
        "raw_headers",
        "target",
        "task",
        "version",
    )  # fmt: skip

    def __init__(self, line: Line) -> None:
        self.method = ""
        self.target = b""
        self.version = "1.1"
        self.raw_headers: list[Header] = []
        self.own_headers: list[Header] = []  # go out with the answer, whatever it is
        self.keep_alive = True
        self.has_head = False
        self.is_complete = False
        self.is_answered = False
        self.is_gone = False
        self.on_gone: Callable[[], None] | None = None
        self.task: asyncio.Task[None] | None = None
        self._line = line
        self._body: list[bytes] = []
        self._size = 0
        self._is_wanted = False
        self._waiter: asyncio.Future[None] | None = None
        self._has_started = False

    async def body(self, limit: int) -> bytes:
        """The whole body; `TooLarge` as soon as it is, or is announced to be."""
        if not self.is_complete:
            await self._arrival(limit)
        if self._size > limit:
            raise _too_large(limit)
        return self._body[0] if len(self._body) == 1 else b"".join(self._body)

    def answer(self, status: int, headers: Sequence[Header], body: bytes, *, with_body: bool = True) -> None:
        """The whole answer at once. One that comes after a stream has begun can only break that stream off."""
        if self._has_started:
            return self._line.abort()
        parts = self._head(status, headers)
        parts.append(b"\r\n" if status == HTTPStatus.NO_CONTENT else b"content-length: %d\r\n\r\n" % len(body))
        if with_body:
            parts.append(body)
        self._line.write(b"".join(parts))
        return self._line.answered(self)

    def abort(self) -> None:
        self._line.abort()

    def over(self) -> None:
        """Nobody serves it any more. An answer that has not come by now never will."""
        if not self.is_answered and not self.is_gone:
            self._line.abort()

    # What handlers see of it (`http.Channel`):

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def start(self, headers: Sequence[Header]) -> None:
        self._has_started = True
        self.keep_alive = self.keep_alive and self._is_chunked
        end = b"transfer-encoding: chunked\r\n\r\n" if self._is_chunked else b"\r\n"
        self._line.write(b"".join([*self._head(200, headers), end]))

    async def write(self, piece: bytes) -> None:
        if piece and not self.is_answered:
            self._line.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._is_chunked else piece)
            await self._line.drain()

    async def end(self, piece: bytes = b"") -> None:
        await self.write(piece)
        if not self.is_answered:
            if self._is_chunked:
                self._line.write(_LAST_CHUNK)
            self._line.answered(self)

    # What the connection tells it:

    @property
    def is_ahead(self) -> bool:
        """More of the body is here than anybody has asked for."""
        return self._size > BODY_AHEAD_BYTES and not self._is_wanted and not self.is_answered

    def took(self, piece: bytes) -> None:
        if self.is_answered:
            return self._body.clear()  # nobody will read it
        self._body.append(piece)
        self._size += len(piece)
        return self._rouse()

    def completed(self) -> None:
        self.is_complete = True
        self._rouse()

    def lost(self) -> None:
        self.is_gone = True
        self._rouse()
        if self.on_gone is not None:
            self.on_gone()

    async def _arrival(self, limit: int) -> None:
        """Until the body is here, or more of it than may be."""
        if self._announced() > limit:
            raise _too_large(limit)
        if self.version != "1.0" and any(n == b"expect" and v.lower() == b"100-continue" for n, v in self.raw_headers):
            self._line.write(_CONTINUE)
        self._is_wanted = True
        self._line.regulate()
        while not self.is_complete and self._size <= limit:
            if self.is_gone:
                raise ClientGone
            self._waiter = self._line.loop.create_future()
            await self._waiter

    def _announced(self) -> int:
        return next((int(value) for name, value in self.raw_headers if name == b"content-length"), 0)

    @property
    def _is_chunked(self) -> bool:
        return self.version != "1.0"

    def _rouse(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _head(self, status: int, headers: Sequence[Header]) -> list[bytes]:
        house, sent = self._line.house, [*headers, *self.own_headers]
        lines = b"".join([b"%b: %b\r\n" % header for header in sent])
        if lines.count(b"\n") != len(sent) or lines.count(b"\r") != len(sent):
            raise ValueError("a header may not contain a line break")
        self.keep_alive = self.keep_alive and not house.is_closing
        stays = b"" if self.version != "1.0" else _STAY
        return [_STATUS_LINES[status], house.date, lines, stays if self.keep_alive else _CLOSE]


class Line(asyncio.Protocol):
    """One client's connection: at most one request arriving, a few waiting, one in hand."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._arriving: Incoming | None = None
        self._waiting: deque[Incoming] = deque()
        self._in_hand: Incoming | None = None
        self._headers: list[Header] = []
        self._framing_bytes = 0  # received since anything but framing was: headers, chunk sizes, trailers
        self._is_reading = True
        self._is_deaf = False  # what arrives can no longer be understood, or nobody is there any more
        self._is_last = False  # the answer just given was the last on this connection
        self._may_write: asyncio.Future[None] | None = None
        self._unread = 0
        self._still_since = house.now

    # asyncio tells us:

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.house.enter(self)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._arriving is None:
            self._moved()
        self._framing_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserCallbackError:
            raise  # ours, not the client's
        except httptools.HttpParserError:
            self._refuse(BadRequest("This is not a valid HTTP/1.1 request.", hint="check method, path and headers"))
        if self._framing_bytes > MOST_HEAD_BYTES and not self._is_deaf:
            self._refuse(_head_too_large())

    def pause_writing(self) -> None:
        self._still_since = self.house.now
        self._unread = self._transport.get_write_buffer_size()
        self._may_write = self.loop.create_future()

    def resume_writing(self) -> None:
        if self._may_write is not None:
            self._may_write.set_result(None)
            self._may_write = None
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_deaf = True
        self._waiting.clear()
        self.resume_writing()
        self.house.leave(self)
        if self._in_hand is not None:
            self._in_hand.lost()

    # The parser tells us:

    def on_message_begin(self) -> None:
        self._arriving = incoming = Incoming(self)
        self._headers = incoming.raw_headers

    def on_url(self, url: bytes) -> None:
        cast("Incoming", self._arriving).target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        incoming, parser = cast("Incoming", self._arriving), self._parser
        self._headers = []  # trailers are no headers
        if self._is_deaf:
            return None
        incoming.method = parser.get_method().decode("ascii")
        incoming.version = parser.get_http_version()
        incoming.keep_alive = parser.should_keep_alive()
        if self._framing_bytes > MOST_HEAD_BYTES and _size(incoming) > MOST_HEAD_BYTES:
            return self._refuse(_head_too_large())
        self._framing_bytes = 0
        if parser.should_upgrade():
            return None
        incoming.has_head = True
        if self._in_hand is None and self._may_write is None and not self._waiting:
            self._begin(incoming)
        else:
            self._waiting.append(incoming)
            self.regulate()
        return None

    def on_body(self, body: bytes) -> None:
        arriving = cast("Incoming", self._arriving)
        self._framing_bytes = 0
        self._moved()
        arriving.took(body)
        if arriving.is_ahead:
            self.regulate()

    def on_message_complete(self) -> None:
        arriving = cast("Incoming", self._arriving)
        self._framing_bytes = 0
        if arriving.has_head:
            arriving.completed()
            self._arriving = None
            if self._is_last:
                self._go_on()

    # The request in hand tells us:

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        if self._may_write is not None:
            await asyncio.shield(self._may_write)

    def answered(self, incoming: Incoming) -> None:
        incoming.is_answered = True
        self._in_hand = None
        self._is_last = self._is_last or not incoming.keep_alive or self.house.is_closing
        self._moved()
        self._go_on()

    def regulate(self) -> None:
        """Read on, or stop reading for a while."""
        is_ahead = self._arriving is not None and self._arriving.is_ahead
        wants = len(self._waiting) < MOST_WAITING and not is_ahead
        if wants != self._is_reading and not self._transport.is_closing():
            self._is_reading = wants
            (self._transport.resume_reading if wants else self._transport.pause_reading)()

    def abort(self) -> None:
        self._is_deaf = True
        self._transport.abort()

    # The house tells us:

    def look(self, now: float) -> None:
        """Once a second: end what has been idle, stalled or unread for too long."""
        if self._may_write is not None:
            unread, self._unread = self._unread, self._transport.get_write_buffer_size()
            if self._unread < unread:
                self._still_since = now
            patience_s = SLOW_READER_S
        elif self._in_hand is not None and self._in_hand is not self._arriving:
            return  # what was sent after it cannot be overdue
        elif self._arriving is None:
            patience_s = KEEP_ALIVE_S
        elif self._is_reading:
            patience_s = STALL_S
        else:
            return
        if now - self._still_since > patience_s:
            self.abort()

    def close(self) -> None:
        """Close as soon as nothing is owed any more."""
        if self._in_hand is None:
            self._is_last = True
            self._go_on()

    # How it goes on:

    def _feed(self, data: bytes | memoryview) -> None:
        while True:
            try:
                return self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = memoryview(data)[offer.args[0] :]
                incoming = cast("Incoming", self._arriving)
                if incoming.method == "CONNECT":
                    return self._refuse(BadRequest("This server is not a proxy: CONNECT is not answered."))
                self._parser = httptools.HttpRequestParser(self)
                self._parser.feed_data(_without_offer(incoming))

    def _moved(self) -> None:
        """Something came or went; what a client asks for more does not count while it reads nothing."""
        if self._may_write is None:
            self._still_since = self.house.now

    def _begin(self, incoming: Incoming) -> None:
        self._in_hand = incoming
        incoming.task = self.house.begin(incoming)

    def _go_on(self) -> None:
        """The next request, if there is one and the answers before it have been read; or the end."""
        if self._in_hand is not None:
            return
        if self._is_last:
            self._waiting.clear()
            arriving = self._arriving
            is_sending = arriving is not None and arriving.is_answered and not self._is_deaf
            if not is_sending:  # else it would lose its answer
                self._is_deaf = True
                self._transport.close()
        elif self._waiting and self._may_write is None:
            self._begin(self._waiting.popleft())
        if not self._is_reading:
            self.regulate()

    def _refuse(self, error: ToolcribError) -> None:
        """Nothing from here on can be understood. What was asked before is still answered, and then it is over."""
        self._is_deaf = True
        refused, in_hand = self._arriving or Incoming(self), self._in_hand
        if self._waiting and self._waiting[-1] is refused:
            self._waiting.pop()
        owed = self._waiting[-1] if self._waiting else in_hand
        if refused.is_answered:
            self._transport.close()
        elif owed is not None and owed is not refused:
            owed.keep_alive = False
        else:
            if in_hand is not None:
                in_hand.lost()
            response, refused.keep_alive = problem(error), False
            refused.answer(response.status, response.headers, response.body)


def _size(incoming: Incoming) -> int:
    return len(incoming.target) + sum(len(name) + len(value) + 4 for name, value in incoming.raw_headers)


def _head_too_large() -> TooLarge:
    return TooLarge(f"The headers are over the limit of {MOST_HEAD_BYTES} bytes.", param="headers")


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The body is over the limit of {limit} bytes.", param="body", hint="the operator can raise max_body_bytes"
    )


def _without_offer(incoming: Incoming) -> bytes:
    """The head once more without its offer of another protocol (Java's client offers HTTP/2); we stay with this one."""
    lines = [b"%b: %b\r\n" % header for header in incoming.raw_headers if header[0] not in _OFFER]
    lines += [b"connection: %b\r\n" % (b"keep-alive" if incoming.keep_alive else b"close")]
    version = b"1.0" if incoming.version == "1.0" else b"1.1"
    return b"%b %b HTTP/%b\r\n%b\r\n" % (incoming.method.encode(), incoming.target, version, b"".join(lines))
