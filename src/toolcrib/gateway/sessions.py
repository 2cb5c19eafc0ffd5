"""Session-era sessions: what a client declared, and the questions it has been asked and not answered yet.

A session is a convenience, never a requirement: calls work without one, a forgotten one costs its client only the
ability to be asked. Bounded; the longest unused go first. Bound to the principal that opened it.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.domain import JsonObject, Principal
from toolcrib.errors import NotFound, RelayRefused, TimedOut
from toolcrib.gateway.messages import Message
from toolcrib.gateway.stream import ReplyStream

_MOST_SESSIONS = 10_000
ANSWER_WITHIN_S = 600.0


class Session:
    """One initialized client."""

    def __init__(self, principal: Principal, version: str, capabilities: JsonObject) -> None:
        self.id = secrets.token_hex(16)
        self.principal_id = principal.id
        self.version = version
        self.capabilities = capabilities
        self.log_level: str | None = None
        self.subscriptions: set[str] = set()
        self.running: dict[bytes, asyncio.Task[Any]] = {}
        self.cancelled: set[asyncio.Task[Any]] = set()
        self._questions: dict[str, asyncio.Future[JsonObject]] = {}
        self._numbers = itertools.count(1)

    async def ask(self, stream: ReplyStream, method: str, params: Mapping[str, Any]) -> JsonObject:
        """Put a question on the stream of the call that needs it; the answer comes by a POST of its own."""
        question = f"{self.id[:8]}-{next(self._numbers)}"
        answer = self._questions[question] = asyncio.get_running_loop().create_future()
        try:
            await stream.ask(question, method, params)
            async with asyncio.timeout(ANSWER_WITHIN_S):
                return await answer
        except TimeoutError:
            raise TimedOut(f"The client did not answer {method} within {ANSWER_WITHIN_S:.0f} s.") from None
        finally:
            self._questions.pop(question, None)

    def answer(self, message: Message) -> None:
        """A client's answer. One that nobody waits for is dropped: the call it belonged to is over."""
        try:
            question = msgspec.json.decode(message.id, type=str)
        except msgspec.DecodeError:
            return
        waiting = self._questions.get(question)
        if waiting is None or waiting.done():
            return
        if bytes(message.error):
            waiting.set_exception(RelayRefused("The client declined to answer.", info=_error(message)))
            return
        try:
            waiting.set_result(msgspec.json.decode(message.result, type=dict[str, Any]))
        except (msgspec.DecodeError, RecursionError):
            waiting.set_exception(RelayRefused("The client's answer is not a JSON object."))

    def cancel(self, request_id: bytes) -> None:
        """The client no longer wants an answer to a request of its own."""
        task = self.running.pop(request_id, None)
        if task is not None:
            self.cancelled.add(task)
            task.cancel()


class Sessions:
    """Every open session, bounded."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def start(self, principal: Principal, version: str, capabilities: JsonObject) -> Session:
        session = Session(principal, version, capabilities)
        self._open[session.id] = session
        if len(self._open) > _MOST_SESSIONS:
            self._open.popitem(last=False)
        return session

    def find(self, session_id: bytes | None, principal: Principal) -> Session | None:
        """The session a request names. Unknown ones are served without; ended and foreign ones are refused."""
        if session_id is None:
            return None
        name = session_id.decode("latin-1")
        session = self._open.get(name)
        if name in self._ended or (session is not None and session.principal_id != principal.id):
            raise NotFound("This MCP session has ended.", hint="initialize again, or leave mcp-session-id out")
        if session is not None:
            self._open.move_to_end(name)
        return session

    def end(self, session: Session) -> None:
        self._open.pop(session.id, None)
        self._ended[session.id] = None
        if len(self._ended) > _MOST_SESSIONS:
            self._ended.popitem(last=False)
        for request_id in list(session.running):
            session.cancel(request_id)


def _error(message: Message) -> JsonObject:
    try:
        return msgspec.json.decode(message.error, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
