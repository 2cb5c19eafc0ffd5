"""Many requests over one two-way line (stdio, or HTTP+SSE), told apart by ids that we mint.

Such a line has no stream per call, so whatever an upstream pushes could be meant for anybody on it. Therefore a lane
that declares something carries one call at a time, and the shared lane declares nothing. Deliberately does not know
what the line is made of.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from toolcrib import errors
from toolcrib.domain import JsonObject
from toolcrib.egress import too_large
from toolcrib.upstreams import messages
from toolcrib.upstreams.courtesies import Courtesies
from toolcrib.upstreams.dialogue import SHARED, Ask, Lane
from toolcrib.upstreams.turn import Report, Turn, answer_push
from toolcrib.upstreams.upstream import Background, Complete, Outcome

_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})')

log = logging.getLogger(__name__)

MAX_INBOX: Final = 1_000
PROBE_S: Final = 10.0
"""A child that does not answer `server/discover` for so long is greeted in the old way as well."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """What is left of a message that was over the limit of the line."""

    head: bytes
    tail: bytes
    limit: int


class Line(Protocol):
    """Whole messages, both ways. `listen` ends when the other side is gone."""

    source: str

    async def send(self, message: bytes) -> None: ...

    def listen(self) -> AsyncIterator[bytes | Oversized]: ...

    def gone(self) -> errors.SourceError:
        """Why nothing more will come."""
        ...

    async def aclose(self) -> None: ...


class _Waiter:
    """One request in flight: what came for it and has not been looked at yet."""

    __slots__ = ("error", "inbox", "limit", "turn", "wake")

    def __init__(self, turn: Turn, limit: int) -> None:
        self.turn = turn
        self.limit = limit
        self.error: errors.SourceError | None = None
        self.inbox: deque[messages.Message] = deque(maxlen=MAX_INBOX)
        self.wake = asyncio.Event()

    def put(self, message: messages.Message) -> None:
        self.inbox.append(message)
        self.wake.set()

    def fail(self, error: errors.SourceError) -> None:
        self.error = error
        self.wake.set()


class Conversation:
    def __init__(self, line: Line, lane: Lane, report: Report, nobody: Background) -> None:
        self.hello = messages.Hello("legacy", messages.LEGACY)
        self._line = line
        self._lane = lane
        self._report = report
        self._nobody = nobody
        self._ids = itertools.count(1)
        self._waiters: dict[int, _Waiter] = {}
        self._turn_taking = asyncio.Lock()
        self._uris: frozenset[str] = frozenset()
        self._gone: errors.SourceError | None = None
        self._over = asyncio.Event()
        self._listen_id: int | None = None
        self._acknowledged = asyncio.Event()
        self._courtesies = Courtesies()
        self._reader = asyncio.create_task(self._read())

    @property
    def is_alive(self) -> bool:
        return not self._over.is_set()

    async def request(self, ask: Ask) -> Outcome:
        if self._lane == SHARED:
            return await self._request(ask)
        async with self._turn_taking:
            return await self._request(ask)

    def send(self, tool: str, arguments: bytes, limit: int, *, resendable: bool) -> None:
        """Never: answers come on a line that all share."""
        del tool, arguments, limit, resendable

    async def watch(self) -> bool:
        await self._over.wait()
        return True

    async def follow(self, uris: frozenset[str]) -> None:
        if self.hello.era == "modern":
            return await self._listen(uris, wait=True)
        for method, changed in (("unsubscribe", self._uris - uris), ("subscribe", uris - self._uris)):
            for uri in sorted(changed):
                await self._request(self._own(f"resources/{method}", {"uri": uri}))
        self._uris = uris
        return None

    async def aclose(self) -> None:
        await self._courtesies.aclose()
        self._reader.cancel()
        await asyncio.wait([self._reader])
        await self._line.aclose()

    # Opening it.

    async def greet(self, capabilities: JsonObject, known: str | None) -> None:
        """Find out the era (`known` when it was found out before) and introduce ourselves in it."""
        if known != "legacy" and await self._discover(known):
            await self._listen(frozenset(), wait=False)
            return
        result = await self._object("initialize", messages.initialize_params(capabilities))
        self.hello = messages.hello_from_initialize(result, self._line.source)
        await self._line.send(messages.notification("notifications/initialized"))
        if self._lane.log_level and "logging" in self.hello.capabilities:
            await self._request(self._own("logging/setLevel", {"level": self._lane.log_level}))

    async def _discover(self, known: str | None) -> bool:
        params = messages.modern_params({}, self._nobody, 0)
        try:
            async with asyncio.timeout(None if known else PROBE_S):
                result = await self._object("server/discover", params)
        except (errors.UpstreamRefused, errors.BadAnswer, TimeoutError):
            return False
        if not messages.speaks_modern(result):
            return False
        self.hello = messages.hello_from_discover(result)
        return True

    async def _object(self, method: str, params: messages.Params) -> JsonObject:
        outcome = await self._request(Ask(method, params, self._nobody, 0), as_is=True)
        if not isinstance(outcome, Complete):
            raise errors.BadAnswer(f"{self._line.source!r} did not answer {method}.", source=self._line.source)
        return messages.read_object(outcome.result, self._line.source)

    def _own(self, method: str, params: JsonObject) -> Ask:
        return Ask(method, params, self._nobody, 0)

    # Asking and hearing.

    async def _request(self, ask: Ask, *, as_is: bool = False) -> Outcome:
        if self._gone is not None:
            raise self._gone
        number = next(self._ids)
        push = self._line.send if self.hello.era == "legacy" and self._lane != SHARED else None
        turn = Turn(number, ask.exchange, self._line.source, self._report, push)
        waiter = self._waiters[number] = _Waiter(turn, ask.limit)
        try:
            params = ask.params if as_is else self._framed(ask, number)
            await self._line.send(messages.request(number, ask.method, params))
            return await self._answer(waiter)
        except asyncio.CancelledError:
            if self.is_alive:
                self._courtesies.soon(self._line.send(messages.cancelled(number)))
            raise
        finally:
            del self._waiters[number]
            turn.close()

    async def _answer(self, waiter: _Waiter) -> Outcome:
        while True:
            await waiter.wake.wait()
            waiter.wake.clear()
            while waiter.inbox:
                outcome = await waiter.turn.take(waiter.inbox.popleft())
                if outcome is not None:
                    return outcome
            if (error := waiter.error or self._gone) is not None:
                raise error

    def _framed(self, ask: Ask, number: int) -> messages.Params:
        frame = messages.modern_params if self.hello.era == "modern" else messages.legacy_params
        return frame(ask.params, ask.exchange, number)

    # What comes in.

    async def _read(self) -> None:
        try:
            async for text in self._line.listen():
                if isinstance(text, Oversized):
                    self._too_large(text)
                else:
                    self._route(text)
        finally:
            self._gone = self._line.gone()
            self._over.set()
            for waiter in self._waiters.values():
                waiter.wake.set()

    def _route(self, text: bytes) -> None:
        try:
            message = messages.read(text, self._line.source)
            if message.method is None:
                self._answered(message, len(text))
            elif message.id is not None:
                self._pushed(message.id, message)
            else:
                self._noted(message)
        except errors.BadAnswer:
            log.debug("%r sent a line of noise (%d bytes).", self._line.source, len(text))

    def _answered(self, message: messages.Message, size: int) -> None:
        waiter = self._waiters.get(message.id) if isinstance(message.id, int) else None
        if message.id == self._listen_id and message.id is not None:
            self._acknowledged.set()
        elif waiter is None:
            log.debug("%r answered a request nobody waits for.", self._line.source)
        elif waiter.limit and size > waiter.limit:
            waiter.fail(too_large(self._line.source, waiter.limit))
        else:
            waiter.put(message)

    def _pushed(self, id: int | str, message: messages.Message) -> None:
        alone = self._alone()
        if alone is not None and self.hello.era == "legacy":
            alone.put(message)
        else:
            self._courtesies.soon(self._refuse(id, message))

    async def _refuse(self, id: int | str, message: messages.Message) -> None:
        await self._line.send(await answer_push(id, message, None, self._line.source))

    def _noted(self, message: messages.Message) -> None:
        source = self._line.source
        if message.method == "notifications/subscriptions/acknowledged":
            self._acknowledged.set()
        elif (changed := messages.change(message, source)) is not None:
            self._report(changed)
        elif message.method == "notifications/progress":
            token = messages.read_object(message.params, source).get("progressToken")
            if isinstance(token, int) and (waiter := self._waiters.get(token)) is not None:
                waiter.put(message)
        elif (alone := self._alone()) is not None:
            alone.put(message)

    def _alone(self) -> _Waiter | None:
        """The call that everything without an address is meant for, on a lane that carries one call at a time."""
        if self._lane == SHARED or len(self._waiters) != 1:
            return None
        return next(iter(self._waiters.values()))

    def _too_large(self, text: Oversized) -> None:
        """An answer too long to keep still names its request, near its beginning or at its very end."""
        found = [int(number) for number in _ID.findall(text.head) + _ID.findall(text.tail)]
        waiter = next((self._waiters[number] for number in found if number in self._waiters), None)
        if waiter is not None:
            waiter.fail(too_large(self._line.source, text.limit))

    # Listening in the modern era: one request that stays open, replaced when the set of resources changes.

    async def _listen(self, uris: frozenset[str], *, wait: bool) -> None:
        previous, self._listen_id = self._listen_id, next(self._ids)
        self._acknowledged.clear()
        wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
        params = {"notifications": {**wanted, **({"resourceSubscriptions": sorted(uris)} if uris else {})}}
        framed = messages.modern_params(params, self._nobody, self._listen_id)
        await self._line.send(messages.request(self._listen_id, "subscriptions/listen", framed))
        if wait:
            await self._acknowledged.wait()
        if previous is not None:
            self._courtesies.soon(self._line.send(messages.cancelled(previous)))
        self._uris = uris
