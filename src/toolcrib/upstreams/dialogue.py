"""One way of talking to one MCP upstream as one credential; each era and transport has its own.

Also the lanes: which calls may share a dialogue. Knows no transport.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from toolcrib import errors
from toolcrib.domain import JsonObject
from toolcrib.upstreams import messages
from toolcrib.upstreams.turn import RELAYED
from toolcrib.upstreams.underway import Underway
from toolcrib.upstreams.upstream import Exchange, HeaderMap, Outcome, Params

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
    underway: Underway | None = None
    """It was already sent; its answer is taken, once, before it is sent again."""


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
