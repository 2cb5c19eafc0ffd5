"""One request as it arrived, and the way back for its answer: what a connection hands to whoever serves it.

Knows framing, sizes and whether anybody still listens. Deliberately knows neither the connection's other requests nor
what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Protocol

import msgspec

from toolcrib.errors import TooLarge
from toolcrib.http import Header

BODY_AHEAD_BYTES = 256 * 1024
"""How much of a body is held before its handler has asked for it."""
_STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_STAY = b"connection: keep-alive\r\n"
_JSON_ANSWER = (
    _STATUS_LINES[200] + b"%bcontent-type: application/json\r\n%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n%b"
)
_NO_CONTENT = 204
_LAST_CHUNK = b"0\r\n\r\n"


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class House(Protocol):
    """What the answer to any request depends on."""

    date: bytes
    """The `date` header of this second, with its line end."""
    is_closing: bool


class Way(Protocol):
    """The connection a request came on, as far as the request may use it."""

    loop: asyncio.AbstractEventLoop

    @property
    def house(self) -> House: ...

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def regulate(self) -> None: ...

    def answered(self, incoming: Incoming) -> None: ...

    def serve(self, incoming: Incoming) -> None: ...

    def abort(self) -> None: ...


class Said(msgspec.Struct, eq=False):
    """What a head says that its client may say again. In `admitted` whoever let it in keeps what that came to."""

    method: str
    target: bytes
    raw_headers: list[Header]
    admitted: Any = None

    def again(self, way: Way, body: bytes) -> Incoming:
        """The next request that says so, whole."""
        return Incoming(
            way, self.method, self.target, "1.1", self.raw_headers, self, has_head=True, is_complete=True,
            _body=[body], size=len(body),
        )  # fmt: skip


class Incoming(msgspec.Struct, eq=False):
    """One request as it arrived, and the way back: the `Channel` of its handler."""

    _way: Way
    method: str = ""
    target: bytes = b""
    version: str = "1.1"
    raw_headers: list[Header] = []
    said: Said | None = None
    """What its head said, when that can be recognised."""
    own_headers: list[Header] = []
    """Go out with the answer, whatever it is."""
    keep_alive: bool = True
    has_head: bool = False
    is_complete: bool = False
    is_answered: bool = False
    is_gone: bool = False
    on_gone: Callable[[], None] | None = None
    task: asyncio.Task[None] | None = None
    begun: Any = None
    """What was done for it before it was served."""
    _body: list[bytes] = []
    size: int = 0
    """How much of the body has come."""
    _is_wanted: bool = False
    _waiter: asyncio.Future[None] | None = None
    _has_started: bool = False

    @property
    def received(self) -> bytes:
        """What has come of the body."""
        return self._body[0] if len(self._body) == 1 else b"".join(self._body)

    async def body(self, limit: int) -> bytes:
        """The whole body; `TooLarge` as soon as it is, or is announced to be."""
        if not self.is_complete:
            await self._arrival(limit)
        if self.size > limit:
            raise _too_large(limit)
        return self.received

    def answer(self, status: int, headers: Sequence[Header], body: bytes, *, with_body: bool = True) -> None:
        """The whole answer at once. One that comes after a stream has begun can only break that stream off."""
        if self._has_started:
            return self._way.abort()
        parts = self._head(status, headers)
        parts.append(b"\r\n" if status == _NO_CONTENT else b"content-length: %d\r\n\r\n" % len(body))
        if with_body:
            parts.append(body)
        self._way.write(b"".join(parts))
        return self._way.answered(self)

    def answer_json(self, body: bytes, request_id: str) -> None:
        """A 200 that says nothing special, in one piece."""
        way, house = self._way, self._way.house
        self.keep_alive = self.keep_alive and not house.is_closing
        stays = b"" if self.keep_alive else _CLOSE
        way.write(_JSON_ANSWER % (house.date, stays, request_id.encode(), len(body), body))
        way.answered(self)

    def serve(self) -> None:
        """Have it served in a task of its own."""
        self._way.serve(self)

    def abort(self) -> None:
        self._way.abort()

    def over(self) -> None:
        """Nobody serves it any more. An answer that has not come by now never will."""
        if not self.is_answered and not self.is_gone:
            self._way.abort()

    # What handlers see of it (`http.Channel`):

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def start(self, headers: Sequence[Header]) -> None:
        self._has_started = True
        self.keep_alive = self.keep_alive and self._is_chunked
        end = b"transfer-encoding: chunked\r\n\r\n" if self._is_chunked else b"\r\n"
        self._way.write(b"".join([*self._head(200, headers), end]))

    async def write(self, piece: bytes) -> None:
        if piece and not self.is_answered:
            self._way.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._is_chunked else piece)
            await self._way.drain()

    async def end(self, piece: bytes = b"") -> None:
        await self.write(piece)
        if not self.is_answered:
            if self._is_chunked:
                self._way.write(_LAST_CHUNK)
            self._way.answered(self)

    # What the connection tells it:

    @property
    def is_ahead(self) -> bool:
        """More of the body is here than anybody has asked for."""
        return self.size > BODY_AHEAD_BYTES and not self._is_wanted and not self.is_answered

    def took(self, piece: bytes) -> None:
        if self.is_answered:
            return self._body.clear()  # nobody will read it
        self._body.append(piece)
        self.size += len(piece)
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
            self._way.write(_CONTINUE)
        self._is_wanted = True
        self._way.regulate()
        while not self.is_complete and self.size <= limit:
            if self.is_gone:
                raise ClientGone
            self._waiter = self._way.loop.create_future()
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
        house, sent = self._way.house, [*headers, *self.own_headers]
        lines = b"".join([b"%b: %b\r\n" % header for header in sent])
        if lines.count(b"\n") != len(sent) or lines.count(b"\r") != len(sent):
            raise ValueError("a header may not contain a line break")
        self.keep_alive = self.keep_alive and not house.is_closing
        stays = b"" if self.version != "1.0" else _STAY
        return [_STATUS_LINES[status], house.date, lines, stays if self.keep_alive else _CLOSE]


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The body is over the limit of {limit} bytes.", param="body", hint="the operator can raise max_body_bytes"
    )
