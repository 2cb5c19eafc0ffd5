"""An MCP endpoint over HTTP as one credential: requests out, answers and event streams in, refusals named.

Knows HTTP statuses and framing for both eras. Deliberately knows neither sessions nor who is asking.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from toolcrib import egress, errors
from toolcrib.upstreams import messages
from toolcrib.upstreams.events import EventParser
from toolcrib.upstreams.turn import Turn
from toolcrib.upstreams.upstream import Limits, Outcome

_HOP = ("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect")
_FORM = ("accept", "accept-encoding", "content-type", "last-event-id")
_MCP = ("mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id")
RESERVED: Final = frozenset((*_HOP, *_FORM, *_MCP))
_BASE: Final = {"accept-encoding": "identity", "user-agent": f"toolcrib/{messages.CLIENT_INFO['version']}"}
_POST: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_GET: Final = {"accept": "text/event-stream"}
STREAM_FACTOR: Final = 4
"""All events of one answer together may be this many times the limit of one answer."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A stream that ended before the answer, and where to take it up again."""

    last_event_id: str | None
    retry_ms: int | None


class Endpoint:
    def __init__(
        self, source: str, url: str, headers: Mapping[str, str], limits: Limits, tls: ssl.SSLContext | None
    ) -> None:
        self.source = source
        self.url = url
        self.limits = limits
        try:
            origin = egress.Origin.of(url)
        except ValueError as error:
            raise errors.SourceError(
                f"{source!r} has an address that cannot be used: {error}.", source=source
            ) from None
        self.pool = egress.HttpPool(origin, source=source, connect_s=limits.connect_s, tls=tls)
        self._headers = {**_BASE, **_fit(headers, source)}
        self._post_head = self._head("POST", _POST)
        self._get_head = self._head("GET", _GET)
        self._delete_head = self._head("DELETE", {})

    def at(self, url: str) -> bytes:
        """The head of a POST to another path of the same origin."""
        return self._head("POST", _POST, url)

    def post(
        self, headers: bytes, body: bytes, *, limit: int, max_idle_s: float = egress.FRESH_S, head: bytes | None = None
    ) -> Awaitable[egress.HttpAnswer]:
        whole = b"%b%bcontent-length: %d\r\n\r\n%b" % (head or self._post_head, headers, len(body), body)
        return self.pool.send(whole, limit=limit, max_idle_s=max_idle_s)

    def post_at_once(self, headers: bytes, body: bytes, *, limit: int, max_idle_s: float) -> egress.HttpAnswer | None:
        """The same if a connection is open and free; whoever gets the answer closes it or waits for it."""
        connection = self.pool.take(max_idle_s)
        if connection is None:
            return None
        return connection.ask(b"%b%bcontent-length: %d\r\n\r\n%b" % (self._post_head, headers, len(body), body), limit)

    def get(self, headers: bytes = b"") -> Awaitable[egress.HttpAnswer]:
        return self.pool.send(self._get_head + headers + b"\r\n", limit=self.limits.answer_bytes)

    def delete(self, headers: bytes) -> Awaitable[egress.HttpAnswer]:
        return self.pool.send(self._delete_head + headers + b"\r\n", limit=self.limits.answer_bytes)

    async def settle(self, answer: egress.HttpAnswer, turn: Turn, limit: int) -> Outcome | Cut:
        """A 200: the outcome, from a body or from the events that lead up to it."""
        if answer.streamed:
            return await self.follow(answer, turn, limit)
        return messages.outcome(messages.read(answer.body, self.source), turn.id, self.source)

    async def follow(self, answer: egress.HttpAnswer, turn: Turn, limit: int) -> Outcome | Cut:
        parser, left = EventParser(self.source, limit), limit * STREAM_FACTOR
        last_event_id: str | None = None
        retry_ms: int | None = None
        try:
            while piece := await answer.read():
                left -= len(piece)
                if left < 0:
                    raise egress.too_large(self.source, limit * STREAM_FACTOR)
                for event in parser.feed(piece):
                    last_event_id = event.id or last_event_id
                    retry_ms = event.retry_ms if event.retry_ms is not None else retry_ms
                    if event.data and event.event == "message":
                        outcome = await turn.take(messages.read(event.data, self.source))
                        if outcome is not None:
                            return outcome
        except errors.Unreachable:
            if last_event_id is None:
                raise
        finally:
            answer.close()
        return Cut(last_event_id, retry_ms)

    def refusal(self, answer: egress.HttpAnswer) -> errors.SourceError:
        """What an answer that is not a 200 means."""
        status, source = answer.status, self.source
        if status in (401, 403):
            message = f"{source!r} refused our credentials (HTTP {status})."
            hint = "Check the entry's authorization, headers or connection."
            challenge = {"www_authenticate": answer.headers.get("www-authenticate", "")[:2000], "status": status}
            return errors.AuthFailed(message, source=source, hint=hint, info=challenge)
        if 300 <= status < 400:
            location = answer.headers.get("location", "")[:500]
            message = f"{source!r} redirects to {location!r}; redirects are not followed."
            return errors.BadAnswer(message, source=source, hint="Use that address, if you trust it.")
        if (said := self.rpc_error(answer)) is not None:
            return messages.refused(said, source)
        if status in (429, 502, 503, 504):
            message = f"{source!r} is not available (HTTP {status})."
            return errors.Unreachable(message, sent=True, source=source, retry_after_s=_retry_after(answer))
        info = {"status": status}
        return errors.BadAnswer(f"{source!r} answered with HTTP {status}, not with MCP.", source=source, info=info)

    def rpc_error(self, answer: egress.HttpAnswer) -> messages.RpcError | None:
        """The JSON-RPC error in a refusal's body, if there is one."""
        if answer.streamed or not answer.body.lstrip().startswith(b"{"):
            return None
        try:
            return messages.read(answer.body, self.source).error
        except errors.BadAnswer:
            return None

    async def aclose(self) -> None:
        await self.pool.aclose()

    def _head(self, method: str, headers: Mapping[str, str], url: str | None = None) -> bytes:
        parts = urlsplit(url or self.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not path.isascii() or " " in path:
            message = f"{self.source!r} has an address with characters that must be percent-encoded."
            raise errors.SourceError(message, source=self.source)
        return egress.head(method, path, self.pool.origin, {**headers, **self._headers})


def _fit(headers: Mapping[str, str], source: str) -> Mapping[str, str]:
    """These credential headers, unless one would break the framing. The message names it and not its value."""
    for name, value in headers.items():
        token = name.replace("-", "").replace("_", "").replace(".", "")
        if name.lower() in RESERVED or not (token.isascii() and token.isalnum()):
            raise errors.SourceError(f"Header {name!r:.80} of {source!r} is not one that can be set.", source=source)
        if any(c in value for c in "\r\n\0") or not value.isascii():
            message = f"The value of header {name!r} of {source!r} has characters that HTTP cannot carry."
            raise errors.SourceError(message, source=source)
    return headers


def _retry_after(answer: egress.HttpAnswer) -> float | None:
    value = answer.headers.get("retry-after", "")
    return min(float(value), 3600.0) if value.isascii() and value.isdigit() and len(value) < 10 else None
