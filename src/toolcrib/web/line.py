"""HTTP/1.1 as one client speaks it to us: requests in, one after the other, and the way back for each.

llhttp (`httptools`) does the parsing and refuses what is ambiguous; a request is recognised if its head was parsed
before (`heads`). This keeps order, pressure and endings. A request arrives, waits its turn, is in hand, is answered; it
is served from the moment its headers are there. A body is read no faster than its handler takes it, and the next
request waits until the last answer has been read. Knows no routes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol, cast

import httptools

from toolcrib.errors import BadRequest, TooLarge, ToolcribError
from toolcrib.heads import Head
from toolcrib.http import Header
from toolcrib.web.incoming import Incoming, Said
from toolcrib.web.problems import problem

MOST_HEAD_BYTES = 64 * 1024
MOST_WAITING = 16
MOST_HEADS = 4
"""How many different heads of one client are kept to be recognised: one for each thing it asks over and over."""
KEEP_ALIVE_S = 75.0
STALL_S = 30.0
"""How long headers may take to arrive, and how long nothing of a body may."""
SLOW_READER_S = 60.0
_OFFER = frozenset({b"upgrade", b"http2-settings", b"connection"})


class House(Protocol):
    """What all connections share."""

    date: bytes
    now: float
    """The time of this second."""
    is_closing: bool

    def begin(self, incoming: Incoming) -> None:
        """Serve it, whatever way is quickest."""
        ...

    def serve(self, incoming: Incoming) -> None:
        """Serve it in a task; `incoming.over` is called when that has ended, however it ended."""
        ...

    def enter(self, line: Line) -> None: ...

    def leave(self, line: Line) -> None: ...


class Line(asyncio.Protocol):
    """One client's connection: at most one request arriving, a few waiting, one in hand."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._arriving: Incoming | None = None
        self._first: Incoming | None = None  # of those that began in what was received last
        self._waiting: deque[Incoming] = deque()
        self._in_hand: Incoming | None = None
        self._headers: list[Header] = []
        self._heads: list[Head] = []  # lately said, the latest first
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
        is_between = self._arriving is None  # then these bytes begin with a request
        if is_between and self._may_write is None:
            self._still_since = self.house.now
            if self._in_hand is None and not self._waiting and self._recognises(data):
                return
        self._first = None
        self._framing_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserCallbackError:
            raise  # ours, not the client's
        except httptools.HttpParserError:
            self._refuse(BadRequest("This is not a valid HTTP/1.1 request.", hint="check method, path and headers"))
        if self._framing_bytes > MOST_HEAD_BYTES and not self._is_deaf:
            self._refuse(_head_too_large())
        if is_between and self._first is not None:
            self._remember(self._first, data)

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
        self._first = self._first or incoming

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

    def serve(self, incoming: Incoming) -> None:
        self.house.serve(incoming)

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
        if self._may_write is None:
            self._still_since = self.house.now
        if self._is_last or self._waiting or not self._is_reading:
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

    def _recognises(self, data: bytes) -> bool:
        """Whether this is one whole request with a head that was said before; then it is being served."""
        for head in self._heads:
            if (body := head.body_of(data)) is not None:
                said: Said = head.meaning
                self._in_hand = incoming = said.again(self, body)
                self.house.begin(incoming)
                return True
        return False

    def _remember(self, incoming: Incoming, data: bytes) -> None:
        """`data` begins with this request. Its head is worth keeping if the next one may be read by it."""
        if not incoming.is_complete or not incoming.keep_alive or incoming.version != "1.1":
            return
        said = Said(incoming.method, incoming.target, incoming.raw_headers)
        head = Head.of(data, said)
        if head is not None:
            incoming.said = said
            self._heads = [head, *self._heads[: MOST_HEADS - 1]]

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
        self.house.begin(incoming)

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


def _without_offer(incoming: Incoming) -> bytes:
    """The head once more without its offer of another protocol (Java's client offers HTTP/2); we stay with this one."""
    lines = [b"%b: %b\r\n" % header for header in incoming.raw_headers if header[0] not in _OFFER]
    lines += [b"connection: %b\r\n" % (b"keep-alive" if incoming.keep_alive else b"close")]
    version = b"1.0" if incoming.version == "1.0" else b"1.1"
    return b"%b %b HTTP/%b\r\n%b\r\n" % (incoming.method.encode(), incoming.target, version, b"".join(lines))
