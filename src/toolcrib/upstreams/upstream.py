"""The face every upstream shows: what may be asked of it, what comes back, and who is asking.

Failures are `errors.SourceError`s that carry the upstream's label. Deliberately knows neither MCP framing nor HTTP:
a result is raw JSON text that nobody here has looked into.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

from toolcrib import errors
from toolcrib.domain import JsonObject, Principal
from toolcrib.protocol import HeaderMap

MIB = 1024 * 1024

Params = Mapping[str, Any]
"""Request params. A value may be `msgspec.Raw`: JSON text that is spliced in as it stands."""

Credentials = Callable[[Principal], Coroutine[Any, Any, Mapping[str, str]]]
"""The headers by which an upstream knows this principal, already unsealed. May raise `ConsentRequired` and kin."""


async def no_credentials(principal: Principal) -> Mapping[str, str]:
    del principal
    return {}


class HeadStart(Protocol):
    """A call that was sent before anybody waits for it."""

    @property
    def began(self) -> float:
        """When, on `time.perf_counter`."""
        ...

    def when_ready(self, then: Callable[[], None]) -> None:
        """Call this once something has come, or nothing will come any more."""
        ...

    def result(self) -> bytes | None:
        """The upstream's result, if it is all there and needs no more than reading; the call is over then."""
        ...

    def close(self) -> None:
        """Nobody wants it any more; nothing of it stays behind."""
        ...


class Exchange(Protocol):
    """The asking side of one request, as far as an upstream may use it."""

    @property
    def principal(self) -> Principal: ...

    @property
    def capabilities(self) -> JsonObject:
        """What the client declared and the gateway is willing to relay: `sampling`, `elicitation`, `roots`, …"""
        ...

    @property
    def wants_progress(self) -> bool: ...

    @property
    def log_level(self) -> str | None:
        """The level the client asked for; None when it did not ask. Sent by us: never relay `logging/setLevel`."""
        ...

    @property
    def head_start(self) -> HeadStart | None:
        """The request was already sent, by `Upstream.start`: take its answer, and send only if it has to be again."""
        ...

    async def progress(self, params: JsonObject) -> None:
        """Params of `notifications/progress`, without a token: the asking side has its own."""
        ...

    async def log(self, params: JsonObject) -> None:
        """Params of `notifications/message`."""
        ...

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Relay `sampling/createMessage`, `elicitation/create` or `roots/list`; `RelayRefused` when not declared."""
        ...


@dataclass(frozen=True, slots=True)
class Background:
    """An exchange for work that nobody waits for: it declares nothing and hears nothing."""

    principal: Principal
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    wants_progress: bool = False
    log_level: str | None = None
    head_start: HeadStart | None = None

    async def progress(self, params: JsonObject) -> None:
        del params

    async def log(self, params: JsonObject) -> None:
        del params

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        del params
        raise errors.RelayRefused(f"Nobody is there to answer {method!r}: this is background work.")


class Complete(msgspec.Struct, frozen=True):
    """The upstream's `result`, as the JSON text it sent."""

    result: bytes


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The upstream needs answers first: ask again with `inputResponses` and `requestState` inside the params."""

    requests: JsonObject
    state: str | None
    raw: bytes


Outcome = Complete | InputRequired


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything an upstream offers, as it says it. `partial` is the reason why something may be missing."""

    tools: tuple[JsonObject, ...] = ()
    resources: tuple[JsonObject, ...] = ()
    resource_templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    server_info: JsonObject = field(default_factory=dict[str, Any])
    instructions: str | None = None
    era: Literal["modern", "legacy", ""] = ""
    protocol_version: str = ""
    ttl_s: float | None = None
    partial: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Something changed upstream: a whole list, or (kind `resource`) the content behind one URI."""

    kind: Literal["tools", "resources", "prompts", "resource"]
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one upstream may cost us."""

    connect_s: float = 10.0
    open_s: float = 45.0
    call_s: float = 60.0
    fetch_s: float = 30.0
    answer_bytes: int = 10 * MIB
    listing_bytes: int = 50 * MIB
    listing_items: int = 10_000
    concurrent: int = 64
    queue_s: float = 5.0


@dataclass(frozen=True, slots=True)
class StdioCommand:
    """A command the operator declared; nothing else is ever started."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class UpstreamSpec:
    """Where to go. Equal specs share connections; `scope` (the project) keeps tenants on connections of their own."""

    label: str
    url: str
    scope: str = ""
    limits: Limits = Limits()
    credentials: Credentials = field(default=no_credentials, compare=False, repr=False)


ChangeListener = Callable[[UpstreamSpec, Change], None]
"""Called in the event loop, at once and without debouncing; it must not block."""


class Upstream(Protocol):
    @property
    def label(self) -> str: ...

    async def fetch(self, exchange: Exchange, *, insist: bool = False) -> Listing:
        """Ask for everything it offers, and from then on listen for changes with the same credentials.

        `insist` asks also one that is being left alone for a while, because a person wants to know.

        Servers exist that offer more to a client that declares more: the exchange's capabilities count here too.
        """
        ...

    async def request(
        self,
        method: str,
        params: Params,
        exchange: Exchange,
        *,
        timeout_s: float | None = None,
        safe_to_retry: bool = False,
        mirror: HeaderMap | None = None,
    ) -> Outcome:
        """One request. `safe_to_retry` says that doing it twice is harmless; without it nothing is sent twice."""
        ...

    def start(
        self, tool: str, arguments: bytes, principal: Principal, *, safe_to_retry: bool = False
    ) -> HeadStart | None:
        """A `tools/call` of somebody who declares nothing, if it can be sent this very moment; None if it cannot.

        Whoever starts one either gets its outcome, or makes the same request with it in the exchange, or closes it.
        """
        ...

    async def subscribe(self, uri: str, exchange: Exchange) -> None:
        """Have updates of this resource reported to the change listener; counted, so pair it with `unsubscribe`."""
        ...

    async def unsubscribe(self, uri: str, exchange: Exchange) -> None: ...

    async def aclose(self) -> None: ...
