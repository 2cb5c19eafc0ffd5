"""One request being answered: notifications go to its exchange, pushed requests are asked there, the answer ends it.

The same for a POST's own event stream and for a shared line. Deliberately does not know how bytes travel.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from toolcrib import errors
from toolcrib.protocol import INTERNAL_ERROR
from toolcrib.upstreams import messages
from toolcrib.upstreams.upstream import Change, Exchange, Outcome

log = logging.getLogger(__name__)

RELAYED: Final = frozenset({"sampling/createMessage", "elicitation/create", "roots/list"})
MAX_PUSHES: Final = 32
MAX_NOTES: Final = 100_000

Send = Callable[[bytes], Awaitable[None]]
Report = Callable[[Change], None]


class Turn:
    """`send` carries answers to pushed requests back; None where the era has no such requests."""

    def __init__(
        self, id: int, exchange: Exchange, source: str, report: Report, send: Send | None, *, may_log: bool = True
    ) -> None:
        self.id = id
        self._exchange = exchange
        self._source = source
        self._send = send
        self._report = report
        self._may_log = may_log
        self._pushes: dict[int | str, asyncio.Task[None]] = {}
        self._notes = 0

    async def take(self, message: messages.Message) -> Outcome | None:
        """The outcome, once this message is the answer."""
        if message.method is None:
            return messages.outcome(message, self.id, self._source)
        if message.id is not None:
            self._push(message.id, message)
        elif (changed := messages.change(message, self._source)) is not None:
            self._report(changed)
        else:
            await self._note(message)
        return None

    def close(self) -> None:
        for task in list(self._pushes.values()):
            task.cancel()

    async def _note(self, message: messages.Message) -> None:
        self._notes += 1
        if self._notes > MAX_NOTES:
            raise errors.BadAnswer(f"{self._source!r} sent notifications without end.", source=self._source)
        params = messages.read_object(message.params, self._source)
        if message.method == "notifications/progress" and params.pop("progressToken", self.id) == self.id:
            await self._exchange.progress(params)
        elif message.method == "notifications/message" and self._may_log:
            await self._exchange.log(params)
        elif message.method == "notifications/cancelled":
            named = params.get("requestId")
            if isinstance(named, int | str) and (task := self._pushes.get(named)) is not None:
                task.cancel()

    def _push(self, id: int | str, message: messages.Message) -> None:
        if self._send is None or len(self._pushes) >= MAX_PUSHES or id in self._pushes:
            raise errors.BadAnswer(f"{self._source!r} pushed a request that has no place here.", source=self._source)
        self._pushes[id] = task = asyncio.create_task(self._relay(id, message, self._send))
        task.add_done_callback(_complain)

    async def _relay(self, id: int | str, message: messages.Message, send: Send) -> None:
        try:
            await send(await answer_push(id, message, self._exchange, self._source))
        finally:
            del self._pushes[id]


async def answer_push(id: int | str, message: messages.Message, exchange: Exchange | None, source: str) -> bytes:
    """The reply to a request that an upstream pushed; without an exchange everything but `ping` is refused."""
    method = message.method or ""
    if method == "ping":
        return messages.reply(id, {})
    if method not in RELAYED or exchange is None:
        return messages.refusal(id, f"{method} cannot be answered here")
    try:
        return messages.reply(id, await exchange.ask(method, messages.read_object(message.params, source)))
    except errors.RelayRefused as error:
        return messages.refusal(id, error.message)
    except errors.ToolcribError as error:
        return messages.refusal(id, error.message, INTERNAL_ERROR)


def _complain(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("Answering a pushed request failed.", exc_info=error)
