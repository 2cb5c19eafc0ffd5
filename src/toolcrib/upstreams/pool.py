"""Every upstream in use: opened on first use, shared by equal specs, guarded, swept, closed.

The guard gives each request a slot, a deadline and at most one safe repetition, and keeps the breaker. Deliberately
does not know what an upstream speaks.
"""

from __future__ import annotations

import asyncio
import functools
import random
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Protocol, TypeVar, cast

from toolcrib import egress, errors
from toolcrib.domain import JsonObject, Principal
from toolcrib.upstreams.breaker import Breaker
from toolcrib.upstreams.deadline import Deadline, Deadlines
from toolcrib.upstreams.dialogue import Ask, Slots, Underway
from toolcrib.upstreams.eras import Eras
from toolcrib.upstreams.mcp_server import McpServer, World
from toolcrib.upstreams.upstream import (
    Change,
    ChangeListener,
    Exchange,
    HeaderMap,
    HeadStart,
    Limits,
    Listing,
    Outcome,
    Params,
    StdioCommand,
    Upstream,
    UpstreamSpec,
    no_credentials,
)

SWEEP_S: Final = 30.0
SAFE_METHODS: Final = frozenset({"resources/read", "prompts/get", "completion/complete", "ping"})
NO_HEADERS: Final[Mapping[str, str]] = {}
_NO_ANSWER: Final = "it did not answer in time."

T = TypeVar("T")


class Kind(Protocol):
    """What a kind of upstream implements; credentials arrive as headers."""

    def request(self, ask: Ask, headers: Mapping[str, str]) -> Awaitable[Outcome]: ...

    def send(self, tool: str, arguments: bytes, headers: Mapping[str, str], *, resendable: bool) -> Underway | None:
        """A bare `tools/call`, if it can be sent this very moment."""
        ...

    async def fetch(self, exchange: Exchange, headers: Mapping[str, str]) -> Listing: ...

    async def subscribe(self, uri: str, exchange: Exchange, headers: Mapping[str, str]) -> None: ...

    async def unsubscribe(self, uri: str, exchange: Exchange, headers: Mapping[str, str]) -> None: ...

    async def sweep(self) -> None: ...

    async def aclose(self) -> None: ...


class UpstreamPool:
    def __init__(
        self,
        *,
        commands: Mapping[str, StdioCommand] | None = None,
        on_change: ChangeListener | None = None,
        tls: Callable[[], ssl.SSLContext] = egress.trust_store,
    ) -> None:
        self._world = World(commands or {}, Eras(), functools.cache(tls), on_change or _ignore)
        self._guards: dict[UpstreamSpec, Guard] = {}
        self._deadlines = Deadlines()
        self._sweeper: asyncio.Task[None] | None = None

    def upstream(self, spec: UpstreamSpec) -> Upstream:
        """The upstream that this spec describes; nothing is opened until something is asked of it."""
        guard = self._guards.get(spec)
        if guard is None:
            self._guards[spec] = guard = Guard(spec.label, McpServer(spec, self._world), spec.limits, self._deadlines)
        return GuardedUpstream(spec, guard)

    async def retire(self, spec: UpstreamSpec) -> None:
        """Nothing refers to this spec any more: close what is open for it."""
        guard = self._guards.pop(spec, None)
        if guard is not None:
            await guard.kind.aclose()

    def start_sweeping(self) -> None:
        """Close idle connections from time to time; ends with `aclose`."""
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())

    async def aclose(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        guards, self._guards = list(self._guards.values()), {}
        await asyncio.gather(*(guard.kind.aclose() for guard in guards))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            for guard in list(self._guards.values()):
                await guard.kind.sweep()


class Guard:
    """What all handles of one upstream share: its slots and its breaker."""

    def __init__(self, source: str, kind: Kind, limits: Limits, deadlines: Deadlines) -> None:
        self.source = source
        self.deadlines = deadlines
        self.kind = kind
        self.limits = limits
        self.breaker = Breaker(source)
        self._free = limits.concurrent
        self._queue: deque[asyncio.Future[None]] = deque()

    def start(self, tool: str, arguments: bytes, headers: Mapping[str, str], resendable: bool) -> Underway | None:
        """A call that need not wait for anything: a slot is free, the upstream well, a connection open."""
        if not self._free or self.breaker.is_open:
            return None
        underway = self.kind.send(tool, arguments, headers, resendable=resendable)
        if underway is not None:
            self._free -= 1
            underway.slots = self
        return underway

    def done(self) -> None:
        self.breaker.succeeded()
        if self._queue:
            self.give_slot()
        else:
            self._free += 1

    async def run(
        self,
        work: Callable[[], Awaitable[T]],
        timeout: Deadline,
        *,
        resendable: bool,
        insist: bool = False,
        underway: Underway | None = None,
    ) -> T:
        slots = underway.take_slot() if underway is not None else None
        if slots is None:
            slots = await self._slot()
        was_admitted = underway is not None and not underway.is_taken
        try:
            with timeout:
                try:
                    return await self._attempt(work, timeout, insist, was_admitted=was_admitted)
                except errors.Unreachable as error:
                    if (error.sent and not resendable) or error.retry_after_s is not None:
                        raise
                await asyncio.sleep(random.uniform(0.05, 0.15))  # noqa: S311 - jitter, not a secret
                return await self._attempt(work, timeout, insist)
        except TimeoutError:
            raise errors.TimedOut(f"{self.source!r} did not answer in time.", source=self.source) from None
        finally:
            slots.give_slot()

    async def _attempt(
        self, work: Callable[[], Awaitable[T]], timeout: Deadline, insist: bool, *, was_admitted: bool = False
    ) -> T:
        if not was_admitted:
            self.breaker.admit(insist=insist)
        try:
            result = await work()
        except (errors.Unreachable, errors.TimedOut) as error:
            self.breaker.failed(error.message)
            raise
        except TimeoutError:
            self.breaker.failed(_NO_ANSWER)
            raise
        except asyncio.CancelledError:
            if timeout.expired():
                self.breaker.failed(_NO_ANSWER)
            else:
                self.breaker.abandoned()
            raise
        except (errors.UpstreamRefused, errors.AuthFailed, errors.AnswerTooLarge):
            self.breaker.succeeded()
            raise
        except BaseException:
            self.breaker.abandoned()
            raise
        self.breaker.succeeded()
        return result

    async def _slot(self) -> Slots:
        if self._free:
            self._free -= 1
        else:
            await self._wait_for_slot()
        return self

    async def _wait_for_slot(self) -> None:
        """First come, first served; a slot that becomes free is handed over, so nobody can overtake."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(self.limits.queue_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it was handed over as we left
                self.give_slot()
            if not isinstance(error, TimeoutError):
                raise
            message = f"{self.source!r} already has {self.limits.concurrent} requests in flight."
            raise errors.Overloaded(message, retry_after_s=1.0) from None

    def give_slot(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                return turn.set_result(None)
        self._free += 1
        return None


class GuardedUpstream:
    """An `Upstream`: one spec's credentials in front of what equal specs share."""

    def __init__(self, spec: UpstreamSpec, guard: Guard) -> None:
        self.label = spec.label
        self._spec = spec
        self._guard = guard

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
        guard, limits = self._guard, self._spec.limits
        underway = exchange.head_start if isinstance(exchange.head_start, Underway) else None
        headers = await self._spec.credentials(exchange.principal) if underway is None else None
        spent_s = time.perf_counter() - underway.began if underway is not None else 0.0
        timeout = guard.deadlines.after((timeout_s if timeout_s is not None else limits.call_s) - spent_s)
        if exchange.capabilities:
            exchange = _Patient(exchange, timeout)
        resendable = safe_to_retry or method in SAFE_METHODS
        ask = Ask(method, params, exchange, limits.answer_bytes, resendable, mirror)

        async def work() -> Outcome:
            if underway is not None and underway.resume is not None and underway.take():
                return await underway.resume(underway, ask)
            known = headers if headers is not None else await self._spec.credentials(exchange.principal)
            return await guard.kind.request(ask, known)

        return await guard.run(work, timeout, resendable=resendable, underway=underway)

    def start(
        self, tool: str, arguments: bytes, principal: Principal, *, safe_to_retry: bool = False
    ) -> HeadStart | None:
        credentials = self._spec.credentials
        headers = NO_HEADERS if credentials is no_credentials else at_once(credentials(principal))
        return None if headers is None else self._guard.start(tool, arguments, headers, safe_to_retry)

    async def fetch(self, exchange: Exchange, *, insist: bool = False) -> Listing:
        guard = self._guard
        headers = await self._spec.credentials(exchange.principal)
        timeout = guard.deadlines.after(guard.limits.open_s + guard.limits.fetch_s)
        return await guard.run(lambda: guard.kind.fetch(exchange, headers), timeout, resendable=True, insist=insist)

    async def subscribe(self, uri: str, exchange: Exchange) -> None:
        guard = self._guard
        headers = await self._spec.credentials(exchange.principal)
        work = functools.partial(guard.kind.subscribe, uri, exchange, headers)
        await guard.run(work, guard.deadlines.after(guard.limits.call_s), resendable=False)

    async def unsubscribe(self, uri: str, exchange: Exchange) -> None:
        guard = self._guard
        headers = await self._spec.credentials(exchange.principal)
        work = functools.partial(guard.kind.unsubscribe, uri, exchange, headers)
        await guard.run(work, guard.deadlines.after(guard.limits.call_s), resendable=False)

    async def aclose(self) -> None:
        """Handles hold nothing; the pool closes what they share."""


class _Patient:
    """An exchange whose deadline stands still while the asking side is being asked something."""

    def __init__(self, exchange: Exchange, timeout: Deadline) -> None:
        self._exchange = exchange
        self._timeout = timeout
        self._asking = 0
        self._left_s = 0.0

    @property
    def principal(self) -> Principal:
        return self._exchange.principal

    @property
    def capabilities(self) -> JsonObject:
        return self._exchange.capabilities

    @property
    def wants_progress(self) -> bool:
        return self._exchange.wants_progress

    @property
    def log_level(self) -> str | None:
        return self._exchange.log_level

    @property
    def head_start(self) -> HeadStart | None:
        return self._exchange.head_start

    async def progress(self, params: JsonObject) -> None:
        await self._exchange.progress(params)

    async def log(self, params: JsonObject) -> None:
        await self._exchange.log(params)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        self._pause()
        try:
            return await self._exchange.ask(method, params)
        finally:
            self._resume()

    def _pause(self) -> None:
        when = self._timeout.when()
        if self._asking == 0 and when is not None:
            self._left_s = when - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)
        self._asking += 1

    def _resume(self) -> None:
        self._asking -= 1
        if self._asking == 0 and not self._timeout.expired() and self._left_s:
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left_s)


def _ignore(spec: UpstreamSpec, change: Change) -> None:
    del spec, change


def at_once(coroutine: Coroutine[Any, Any, T]) -> T | None:
    """What a coroutine comes to if it has nothing to wait for; None, and it is abandoned, if it has."""
    try:
        awaited = coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    if isinstance(awaited, asyncio.Future):
        cast("asyncio.Future[Any]", awaited).add_done_callback(_retrieve)
    return None


def _retrieve(abandoned: asyncio.Future[Any]) -> None:
    """Nobody waits for it, so nobody is to be told that it failed."""
    if not abandoned.cancelled():
        abandoned.exception()
