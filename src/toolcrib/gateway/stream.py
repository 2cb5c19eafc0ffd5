"""The way back to one client: a JSON answer if nothing happens before it, an event stream from the first event on.

The choice is put off until something must be said early (progress, a log line, a question) or silence lasts too long
for the proxies in between. Knows framing, not meaning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from toolcrib.http import JSON, Header, Request, Response

SSE_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
PING = b": ping\r\n\r\n"
PING_EVERY_S = 15.0
_TICKS = 3
_encode = msgspec.json.Encoder().encode


class Pulse:
    """One timer for all replies that are owed: silence is filled. Quick ones are gone before it has ticked once."""

    def __init__(self) -> None:
        self.owed: set[ReplyStream] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: ReplyStream) -> None:
        self.owed.add(stream)
        if self._timer is None:
            self._wind()

    def _wind(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PING_EVERY_S / _TICKS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        for stream in self.owed:
            stream.tick()
        if self.owed:
            self._wind()


class ReplyStream:
    """The reply to one POST. `finish` returns a plain response unless events have already gone out.

    As a context it stands for the time the reply is owed: a client that leaves cancels it, and silence is filled.
    """

    def __init__(self, request: Request, pulse: Pulse) -> None:
        self.takes_json, self.takes_events = takes(request.headers)
        self.extra_headers: tuple[Header, ...] = ()
        self.has_started = False
        self._channel = request.channel
        self._pulse = pulse
        self._silent_ticks = 0

    def __enter__(self) -> ReplyStream:
        channel = self._channel
        channel.on_gone = channel.cancel
        self._pulse.add(self)
        if channel.is_gone:
            channel.cancel()
        return self

    def __exit__(self, *error: object) -> None:
        self._channel.on_gone = None
        self._pulse.owed.discard(self)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self.takes_events:
            await self.write(_encode({"jsonrpc": "2.0", "method": method, "params": params}))

    async def ask(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        await self.write(_encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))

    async def write(self, payload: bytes) -> None:
        await self._say(event(payload))

    async def end(self) -> Response | None:
        """The end of a request that is owed no message: 202, or the end of the stream that had begun."""
        if not self.has_started:
            return Response(202, b"", self.extra_headers)
        await self._channel.end()
        return None

    async def finish(self, status: int, payload: bytes) -> Response | None:
        """The final message. None means that it went out as the last event."""
        if not self.has_started and self.takes_json:
            return Response(status, payload, (JSON, *self.extra_headers))
        self._start()
        await self._channel.end(event(payload))
        return None

    def tick(self) -> None:
        self._silent_ticks += 1
        if self._silent_ticks >= _TICKS and self.takes_events:
            self._pinging = asyncio.ensure_future(self._ping())

    async def _ping(self) -> None:
        if self in self._pulse.owed:  # the answer may have come since the tick
            await self._say(PING)

    async def _say(self, text: bytes) -> None:
        self._silent_ticks = 0
        self._start()
        await self._channel.write(text)

    def _start(self) -> None:
        if not self.has_started:
            self.has_started = True
            self._channel.start((*SSE_HEADERS, *self.extra_headers))


def takes(headers: Mapping[bytes, bytes]) -> tuple[bool, bool]:
    """Whether a client takes JSON, and whether it takes events."""
    return _taken(headers.get(b"accept", b"application/json"))


@lru_cache(maxsize=64)
def _taken(accept: bytes) -> tuple[bool, bool]:
    """Remembered: clients send the same header with every request."""
    takes_json = b"application/json" in accept or b"*/*" in accept or b"application/*" in accept
    return takes_json, b"text/event-stream" in accept or b"text/*" in accept


def event(payload: bytes) -> bytes:
    return b"event: message\r\ndata: " + payload + b"\r\n\r\n"
