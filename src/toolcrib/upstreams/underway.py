"""A call that was sent the moment it could be: what is on its way before anybody waits for it.

Usually the whole answer is there a moment later and that was it (`result`). Whenever it is not so simple (an event
stream, a refusal, a lost connection, an upstream that takes its time) the call goes through `Upstream.request` after
all, which then takes the answer that is already on its way (`take`) instead of sending the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from toolcrib import errors
from toolcrib.egress import HttpAnswer
from toolcrib.upstreams import messages
from toolcrib.upstreams.upstream import Complete, Exchange, Outcome

T = TypeVar("T")


class Slots(Protocol):
    """Where a call has its place among those in flight."""

    def done(self) -> None:
        """It was answered: the place is free, and the upstream is well."""
        ...

    def give_slot(self) -> None: ...


class Underway(msgspec.Struct, eq=False):
    """One such call. Implements `upstream.HeadStart`."""

    number: int
    source: str
    tool: str
    answer: HttpAnswer
    finish: Callable[[Underway, Exchange, int], Awaitable[Outcome]]
    """The outcome for this exchange, within this limit, however it comes. Raises what `Dialogue.request` does."""
    began: float
    slots: Slots | None = None
    """Where it holds a place."""
    is_taken: bool = False

    def when_ready(self, then: Callable[[], None]) -> None:
        self.answer.on_ready = then

    def result(self) -> bytes | None:
        answer = self.answer
        if self.is_taken or answer.status != 200 or answer.streamed or not answer.is_ready:
            return None
        try:
            outcome = messages.outcome(messages.read(answer.body, self.source), self.number, self.source)
        except errors.SourceError:
            return None
        if not isinstance(outcome, Complete):
            return None
        self.is_taken = True
        if (slots := self.take_slot()) is not None:
            slots.done()
        return outcome.result

    def take(self) -> bool:
        """Whether its answer is still nobody's; it is the taker's now."""
        was_taken, self.is_taken = self.is_taken, True
        return not was_taken

    def take_slot(self) -> Slots | None:
        """The place it had until now; whoever takes it gives it back."""
        slots, self.slots = self.slots, None
        return slots

    def close(self) -> None:
        if self.take():
            self.answer.close()
        if (slots := self.take_slot()) is not None:
            slots.give_slot()


def at_once(coroutine: Coroutine[Any, Any, T]) -> T | None:
    """What a coroutine comes to if it has nothing to wait for; None, and it is abandoned, if it has."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    return None
