"""One upstream as one credential: its dialogues, one per lane, opened once for all who wait and renewed when they die.

Knows lanes, renewal, subscriptions and the watch for changes. Deliberately knows no transport (an `Opener` does) and
decides nothing about limits and retries (the pool does).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from typing import Final, Protocol

from toolcrib import errors
from toolcrib.upstreams.dialogue import SHARED, Ask, Dialogue, Lane, Stale, Underway
from toolcrib.upstreams.messages import Hello
from toolcrib.upstreams.turn import Report
from toolcrib.upstreams.upstream import Change, Exchange, Limits, Outcome

log = logging.getLogger(__name__)

LANE_IDLE_S: Final = 120.0
DOUBT_S: Final = 30.0
"""An upstream whose refusals merely look like another era is not probed more often than this."""
WATCH_PAUSE_S: Final = (1.0, 120.0)
_LISTS: Final = ("tools", "resources", "prompts")


class Opener(Protocol):
    """How dialogues of one link come about."""

    source: str
    limits: Limits
    max_lanes: int

    @property
    def era(self) -> str | None:
        """The era last spoken, if it is known."""
        ...

    def lane(self, exchange: Exchange) -> Lane:
        """Which lane this exchange needs, in the known era."""
        ...

    async def open(self, lane: Lane) -> Dialogue: ...

    def doubt(self) -> None:
        """The era may have changed: find out again."""
        ...

    def sweep(self) -> None: ...

    async def aclose(self) -> None: ...


class _Berth:
    """What one lane has: a dialogue, or one that is being opened for all who wait."""

    __slots__ = ("busy", "dialogue", "opening", "used_at")

    def __init__(self) -> None:
        self.dialogue: Dialogue | None = None
        self.opening: asyncio.Task[Dialogue] | None = None
        self.busy = 0
        self.used_at = time.monotonic()

    @property
    def is_idle(self) -> bool:
        return not self.busy and self.opening is None


class Link:
    def __init__(self, opener: Opener, report: Report) -> None:
        self._opener = opener
        self._report = report
        self._berths: dict[Lane, _Berth] = {}
        self._uris: Counter[str] = Counter()
        self._following = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._doubted_at = -DOUBT_S
        self.used_at = time.monotonic()

    @property
    def is_busy(self) -> bool:
        return bool(self._uris) or not all(berth.is_idle for berth in self._berths.values())

    async def request(self, ask: Ask) -> Outcome:
        lane = await self._lane(ask.exchange)
        berth = self._berth(lane)
        berth.busy += 1
        try:
            dialogue = berth.dialogue
            if dialogue is None or not dialogue.is_alive:
                dialogue = await self.dialogue(lane)
            try:
                return await dialogue.request(ask)
            except Stale as stale:
                return await self._again(ask, lane, dialogue, stale)
        finally:
            berth.busy -= 1
            self.used_at = berth.used_at = time.monotonic()

    def send(self, tool: str, arguments: bytes, limit: int, *, resendable: bool) -> Underway | None:
        """On the shared lane, if a dialogue is open on it that takes it."""
        berth = self._berths.get(SHARED)
        if berth is None or berth.dialogue is None:
            return None
        self.used_at = berth.used_at = time.monotonic()
        underway = berth.dialogue.send(tool, arguments, limit, resendable=resendable)
        if underway is not None:
            underway.resume = self._resume
        return underway

    async def _resume(self, underway: Underway, ask: Ask) -> Outcome:
        """What `request` does, for one that `send` has sent: it needs no dialogue but its own."""
        berth = self._berth(SHARED)
        berth.busy += 1
        try:
            return await underway.finish(underway, ask.exchange, ask.limit)
        except Stale as stale:
            return await self._again(ask, SHARED, underway.dialogue, stale)
        finally:
            berth.busy -= 1
            self.used_at = berth.used_at = time.monotonic()

    async def hello(self, exchange: Exchange) -> Hello:
        return (await self.dialogue(await self._lane(exchange))).hello

    async def dialogue(self, lane: Lane = SHARED) -> Dialogue:
        berth = self._berth(lane)
        if berth.dialogue is not None and berth.dialogue.is_alive:
            return berth.dialogue
        if berth.opening is None:
            berth.opening = asyncio.create_task(self._open(lane, berth))
            berth.opening.add_done_callback(_retrieve)
        return await self._opened(berth.opening)

    async def _opened(self, opening: asyncio.Task[Dialogue]) -> Dialogue:
        """Wait for it without owning it: others may be waiting as well."""
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            source = self._opener.source
            raise errors.Unreachable(f"The connection to {source!r} is being closed.", source=source) from None

    async def subscribe(self, uri: str) -> None:
        self._uris[uri] += 1
        try:
            await self._follow()
        except BaseException:
            self._uris[uri] -= 1
            self._uris += Counter()
            raise
        self.watch()

    async def unsubscribe(self, uri: str) -> None:
        if self._uris[uri] <= 0:
            return
        self._uris[uri] -= 1
        self._uris += Counter()
        await self._follow()

    def watch(self) -> None:
        """Listen for changes from now on."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    def sweep(self, now: float) -> None:
        """Let go of lanes that nobody has used for a while."""
        for lane, berth in list(self._berths.items()):
            if lane != SHARED and berth.is_idle and now - berth.used_at > LANE_IDLE_S:
                self._abandon(lane)
        self._opener.sweep()

    async def aclose(self) -> None:
        openings = (berth.opening for berth in self._berths.values())
        tasks = [task for task in (self._watching, *openings) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for lane in list(self._berths):
            self._abandon(lane)
        if self._leaving:
            await asyncio.wait(self._leaving)
        await self._opener.aclose()

    async def _lane(self, exchange: Exchange) -> Lane:
        if not exchange.capabilities and not exchange.log_level:
            return SHARED
        if self._opener.era is None:
            await self.dialogue()
        return self._opener.lane(exchange)

    async def _open(self, lane: Lane, berth: _Berth) -> Dialogue:
        self._let_go(berth)
        source = self._opener.source
        try:
            async with asyncio.timeout(self._opener.limits.open_s):
                dialogue = await self._opener.open(lane)
                if lane == SHARED and self._uris:
                    await dialogue.follow(frozenset(self._uris))
        except TimeoutError:
            raise errors.TimedOut(f"{source!r} did not finish the handshake in time.", source=source) from None
        except Stale as stale:
            raise stale.refusal from stale
        finally:
            berth.opening = None
        berth.dialogue = dialogue
        return dialogue

    async def _again(self, ask: Ask, lane: Lane, dialogue: Dialogue, stale: Stale) -> Outcome:
        """The upstream refused without doing anything. Open anew and send again, unless nothing has changed."""
        berth, now = self._berth(lane), time.monotonic()
        if berth.dialogue is dialogue:
            if stale.era and now - self._doubted_at < DOUBT_S:
                raise stale.refusal from stale
            self._let_go(berth)
            if stale.era:
                self._doubted_at = now
                self._opener.doubt()
        if self._opener.era is None:
            await self.dialogue()
        fresh = await self.dialogue(self._opener.lane(ask.exchange))
        if stale.era and fresh.hello.era == dialogue.hello.era:
            raise stale.refusal from stale
        try:
            return await fresh.request(ask)
        except Stale as again:
            raise again.refusal from again

    async def _follow(self) -> None:
        async with self._following:
            dialogue = await self.dialogue()
            try:
                await dialogue.follow(frozenset(self._uris))
            except Stale as stale:
                self._let_go(self._berth(SHARED))
                if stale.era:
                    self._opener.doubt()
                await self.dialogue()

    async def _watch(self) -> None:
        """Again and again, with growing pauses; after each, all is reported as changed, since it may be."""
        first, longest = WATCH_PAUSE_S
        pause, missed = first, False
        while True:
            began = time.monotonic()
            try:
                dialogue = await self.dialogue()
                if missed:
                    self._report_all(dialogue)
                if not await dialogue.watch():
                    return
            except (errors.ToolcribError, TimeoutError) as error:
                log.debug("Watching %r: %s", self._opener.source, error)
            missed = True
            pause = first if time.monotonic() - began > longest else min(longest, pause * 2)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret

    def _report_all(self, dialogue: Dialogue) -> None:
        for kind in _LISTS:
            if kind in dialogue.hello.capabilities:
                self._report(Change(kind))
        for uri in self._uris:
            self._report(Change("resource", uri))

    def _berth(self, lane: Lane) -> _Berth:
        berth = self._berths.get(lane)
        if berth is None:
            self._make_room()
            self._berths[lane] = berth = _Berth()
        return berth

    def _make_room(self) -> None:
        if len(self._berths) < self._opener.max_lanes:
            return
        idle = [lane for lane, berth in self._berths.items() if lane != SHARED and berth.is_idle]
        if not idle:
            raise errors.Overloaded(f"{self._opener.source!r} has {len(self._berths)} conversations open, all busy.")
        self._abandon(min(idle, key=lambda lane: self._berths[lane].used_at))

    def _abandon(self, lane: Lane) -> None:
        self._let_go(self._berths.pop(lane))

    def _let_go(self, berth: _Berth) -> None:
        dialogue, berth.dialogue = berth.dialogue, None
        if dialogue is not None:
            task = asyncio.create_task(dialogue.aclose())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)


def _retrieve(task: asyncio.Task[Dialogue]) -> None:
    if not task.cancelled():
        task.exception()
