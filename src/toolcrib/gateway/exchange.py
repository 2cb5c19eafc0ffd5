"""The asking side of one call, as an upstream sees it, for clients of both eras.

Session era: progress, log lines and questions ride on the call's own event stream; answers come back through the
session. Stateless era: questions are collected, and the client comes back with the answers.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from toolcrib.domain import JsonObject, Principal
from toolcrib.errors import RelayRefused
from toolcrib.gateway.messages import Message
from toolcrib.gateway.questions import Questions
from toolcrib.gateway.sessions import Session
from toolcrib.gateway.stream import ReplyStream
from toolcrib.upstreams.upstream import HeadStart

_CAPABILITY_OF = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
_RELAYED = frozenset(_CAPABILITY_OF.values())
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class ClientExchange:
    """One request of one client. Implements `upstreams.Exchange`."""

    def __init__(
        self,
        principal: Principal,
        message: Message,
        stream: ReplyStream,
        session: Session | None,
        *,
        modern: bool,
        head_start: HeadStart | None = None,
    ) -> None:
        meta = message.params.meta
        self.principal = principal
        self.session = session
        self._stream: ReplyStream | None = stream
        self._token = meta.progress_token
        self.wants_progress = meta.progress_token is not UNSET and stream.takes_events
        self.capabilities = self._declared(meta.capabilities if modern else None, session, stream)
        self.log_level = self._level(meta.log_level if modern else UNSET, session)
        self.is_modern = modern
        self.head_start = head_start
        self.questions = Questions() if modern and self.capabilities else None

    def leave(self) -> None:
        """The request is answered, its call goes on: what is said meanwhile has nowhere to go."""
        self._stream = None

    def move_to(self, later: ClientExchange) -> None:
        """The client came back: from now on speak to it on the request it came back with."""
        self._stream, self._token = later._stream, later._token

    async def progress(self, params: JsonObject) -> None:
        if self._stream is not None and self._token is not UNSET:
            await self._stream.notify("notifications/progress", {**params, "progressToken": self._token})

    async def log(self, params: JsonObject) -> None:
        if (
            self._stream is not None
            and self.log_level is not None
            and _rank(params.get("level")) >= _rank(self.log_level)
        ):
            await self._stream.notify("notifications/message", params)

    def require(self, method: str) -> None:
        """Refuse a question that the client has not said it can answer."""
        capability = _CAPABILITY_OF.get(method)
        if capability is None or capability not in self.capabilities:
            raise RelayRefused(
                f"The client did not declare the capability {capability or method!r}.",
                info={"requiredCapabilities": {capability or method: {}}},
            )

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        self.require(method)
        if self.questions is not None:
            return await self.questions.ask(method, params)
        assert self.session is not None  # noqa: S101 - without one nothing was declared
        assert self._stream is not None  # noqa: S101 - only stateless calls outlive their request
        return await self.session.ask(self._stream, method, params)

    @staticmethod
    def _declared(sent: Any, session: Session | None, stream: ReplyStream) -> JsonObject:
        if isinstance(sent, dict):
            declared: JsonObject = sent  # pyright: ignore[reportUnknownVariableType] - checked as an object when decoded
        elif session is not None and stream.takes_events:
            declared = session.capabilities
        else:
            return {}
        if not declared:
            return declared
        return {name: value for name, value in declared.items() if name in _RELAYED and isinstance(value, dict)}

    @staticmethod
    def _level(sent: Any, session: Session | None) -> str | None:
        level = sent if isinstance(sent, str) else session.log_level if session else None
        return level if level in _LEVELS else None


def is_level(level: object) -> bool:
    return level in _LEVELS


def _rank(level: object) -> int:
    return _LEVELS.index(level) if isinstance(level, str) and level in _LEVELS else len(_LEVELS)
