"""The way back to one client: a JSON answer if nothing happens before it, an event stream from the first event on.

The choice is put off until something must be said early (progress, a log line, a question) or silence lasts too long
for the proxies in between. Knows framing, not meaning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.http import JSON, Header, Request, Response, Send

SSE_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
PING = b": ping\r\n\r\n"
PING_EVERY_S = 15.0
_encode = msgspec.json.Encoder().encode


class ReplyStream:
    """The reply to one POST. `finish` returns a plain response unless events have already gone out."""

    def __init__(self, request: Request, extra_headers: tuple[Header, ...] = ()) -> None:
        accept = request.headers.get(b"accept", b"application/json")
        anything = b"*/*" in accept
        self.takes_json = anything or b"application/json" in accept or b"application/*" in accept
        self.takes_events = b"text/event-stream" in accept or b"text/*" in accept
        self.headers = extra_headers
        self.has_started = False
        self._send: Send = request.send
        self._ping: asyncio.TimerHandle | None = None
        self._last_write = 0.0

    def keep_alive(self) -> None:
        """Commit to a stream when silence lasts; called only where an answer can take that long."""
        if self.takes_events:
            self._ping = asyncio.get_running_loop().call_later(PING_EVERY_S, self._ping_soon)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self.takes_events:
            await self.write(_encode({"jsonrpc": "2.0", "method": method, "params": params}))

    async def ask(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        await self.write(_encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))

    async def write(self, payload: bytes) -> None:
        await self._start()
        await self._send({"type": "http.response.body", "body": event(payload), "more_body": True})

    def let_go(self) -> None:
        """No more pings: the answer is there, or nobody waits for it any more."""
        if self._ping is not None:
            self._ping.cancel()
            self._ping = None

    async def end(self) -> Response | None:
        """The end of a request that is owed no message: 202, or the end of the stream that had begun."""
        if not self.has_started:
            return Response(202, b"", self.headers)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    async def finish(self, status: int, payload: bytes) -> Response | None:
        """The final message. None means that it went out as the last event."""
        if not self.has_started and self.takes_json:
            return Response(status, payload, (JSON, *self.headers))
        await self._start()
        await self._send({"type": "http.response.body", "body": event(payload), "more_body": False})
        return None

    async def _start(self) -> None:
        if not self.has_started:
            self.has_started = True
            headers = [*SSE_HEADERS, *self.headers]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    def _ping_soon(self) -> None:
        self._ping_task = asyncio.ensure_future(self._write_ping())
        self.keep_alive()

    async def _write_ping(self) -> None:
        await self._start()
        await self._send({"type": "http.response.body", "body": PING, "more_body": True})


def event(payload: bytes) -> bytes:
    return b"event: message\r\ndata: " + payload + b"\r\n\r\n"
