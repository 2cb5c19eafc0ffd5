"""One way of talking to one MCP upstream as one credential; each era and transport has its own.

Also the lanes: which calls may share a dialogue; and calls that were sent before anybody waits for them. Knows no
transport.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from toolcrib import errors
from toolcrib.domain import JsonObject
from toolcrib.egress import HttpAnswer
from toolcrib.upstreams import messages
from toolcrib.upstreams.turn import RELAYED
from toolcrib.upstreams.upstream import Complete, Exchange, HeaderMap, Outcome, Params

PUSHED_CAPABILITIES = frozenset(method.partition("/")[0] for method in RELAYED)


class Lane(msgspec.Struct, frozen=True):
    """Who may share a dialogue. The empty lane declares nothing, so nothing can be pushed into it."""

    principal: str = ""
    capabilities: str = ""
    log_level: str = ""

    @classmethod
    def of(cls, exchange: Exchange) -> Lane:
        """The lane for an era in which capabilities and log level belong to the connection, not to the request."""
        declared = declared_capabilities(exchange)
        if not declared and not exchange.log_level:
            return SHARED
        return cls(exchange.principal.id, messages.canonical(declared), exchange.log_level or "")

    @property
    def declared(self) -> JsonObject:
        return messages.read_object(self.capabilities.encode(), "")


SHARED = Lane()


def declared_capabilities(exchange: Exchange) -> JsonObject:
    return {name: value for name, value in exchange.capabilities.items() if name in PUSHED_CAPABILITIES}


class Ask(msgspec.Struct, frozen=True):
    """One request on its way through a dialogue."""

    method: str
    params: Params
    exchange: Exchange
    limit: int
    resendable: bool = False
    mirror: HeaderMap | None = None


class Slots(Protocol):
    """Where a call has its place among those in flight."""

    def done(self) -> None:
        """It was answered: the place is free, and the upstream is well."""
        ...

    def give_slot(self) -> None: ...


class Underway(msgspec.Struct, eq=False):
    """A call that was sent the moment it could be. Implements `upstream.HeadStart`.

    Usually the whole answer is there a moment later, and that was it (`result`). Whenever it is not so simple (events,
    a refusal, a lost connection, an upstream that takes its time) `Upstream.request` is made after all, which takes the
    answer that is on its way (`take`) instead of sending the request.
    """

    number: int
    source: str
    tool: str
    answer: HttpAnswer
    dialogue: Dialogue
    finish: Callable[[Underway, Exchange, int], Awaitable[Outcome]]
    """The outcome for this exchange, within this limit, however it comes. Raises what `Dialogue.request` does."""
    began: float
    resume: Callable[[Underway, Ask], Awaitable[Outcome]] | None = None
    """The same, seen to by whoever can open another dialogue when this one is over."""
    slots: Slots | None = None
    """Where it holds a place."""
    is_taken: bool = False

    def when_ready(self, then: Callable[[], None]) -> None:
        self.answer.on_ready = then

    def result(self) -> bytes | None:
        body = self.answer.plain_body()
        if self.is_taken or body is None:
            return None
        try:
            outcome = messages.outcome(messages.read(body, self.source), self.number, self.source)
        except errors.SourceError:
            return None
        if not isinstance(outcome, Complete):
            return None
        self.is_taken = True
        slots, self.slots = self.slots, None
        if slots is not None:
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


class Stale(Exception):
    """The upstream refused before doing anything, because this dialogue is over. `refusal` is what it said.

    With `era` it may even have changed its protocol; then only a changed verdict is a reason to send again.
    """

    def __init__(self, refusal: errors.SourceError, *, era: bool = False) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.era = era


class Dialogue(Protocol):
    hello: messages.Hello

    @property
    def is_alive(self) -> bool: ...

    async def request(self, ask: Ask) -> Outcome:
        """May raise `Stale` besides the errors of an upstream."""
        ...

    def send(self, tool: str, arguments: bytes, limit: int, *, resendable: bool) -> Underway | None:
        """A bare `tools/call`, if it can be sent this very moment and its answer read without waiting in line."""
        ...

    async def watch(self) -> bool:
        """Report changes until the stream ends; false when the upstream offers nothing to watch."""
        ...

    async def follow(self, uris: frozenset[str]) -> None:
        """From now on report updates of exactly these resources."""
        ...

    async def aclose(self) -> None: ...
