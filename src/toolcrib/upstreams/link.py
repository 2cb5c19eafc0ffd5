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
from toolcrib.upstreams.dialogue import SHARED, Ask, Dialogue, Lane, Stale
from toolcrib.upstreams.turn import Report
from toolcrib.upstreams.upstream import Change, Exchange, Limits, Outcome

log = logging.getLogger(__name__)

MAX_LANES: Final = 64
LANE_IDLE_S: Final = 120.0
WATCH_PAUSE_S: Final = (1.0, 120.0)
_LISTS: Final = ("tools", "resources", "prompts")


class Opener(Protocol):
    """How dialogues of one link come about."""

    source: str
    limits: Limits

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


class Link:
    def __init__(self, opener: Opener, report: Report) -> None:
        self._opener = opener
        self._report = report
        self._dialogues: dict[Lane, Dialogue] = {}
        self._openings: dict[Lane, asyncio.Task[Dialogue]] = {}
        self._busy: Counter[Lane] = Counter()
        self._used: dict[Lane, float] = {}
        self._uris: Counter[str] = Counter()
        self._following = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self.used_at = time.monotonic()

    @property
    def is_busy(self) -> bool:
        return bool(self._uris) or self._busy.total() > 0

    async def request(self, ask: Ask) -> Outcome:
        lane = await self._lane(ask.exchange)
        self._busy[lane] += 1
        try:
            dialogue = await self.dialogue(lane)
            try:
                return await dialogue.request(ask)
            except Stale as stale:
                return await self._again(ask, lane, dialogue, stale)
        finally:
            self._busy[lane] -= 1
            self.used_at = self._used[lane] = time.monotonic()

    async def dialogue(self, lane: Lane = SHARED) -> Dialogue:
        dialogue = self._dialogues.get(lane)
        if dialogue is not None and dialogue.is_alive:
            return dialogue
        opening = self._openings.get(lane)
        if opening is None:
            self._make_room(lane)
            self._openings[lane] = opening = asyncio.create_task(self._open(lane))
            opening.add_done_callback(_retrieve)
        return await asyncio.shield(opening)

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
        for lane, used in list(self._used.items()):
            if lane != SHARED and not self._busy[lane] and now - used > LANE_IDLE_S:
                self._let_go(lane)
        self._opener.sweep()

    async def aclose(self) -> None:
        tasks = [task for task in (self._watching, *self._openings.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for lane in list(self._dialogues):
            self._let_go(lane)
        if self._leaving:
            await asyncio.wait(self._leaving)
        await self._opener.aclose()

    async def _lane(self, exchange: Exchange) -> Lane:
        if not exchange.capabilities and not exchange.log_level:
            return SHARED
        if self._opener.era is None:
            await self.dialogue()
        return self._opener.lane(exchange)

    async def _open(self, lane: Lane) -> Dialogue:
        self._let_go(lane)
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
            del self._openings[lane]
        self._dialogues[lane] = dialogue
        self._used[lane] = time.monotonic()
        return dialogue

    async def _again(self, ask: Ask, lane: Lane, dialogue: Dialogue, stale: Stale) -> Outcome:
        """The upstream refused without doing anything. Open anew and send again, unless nothing has changed."""
        if self._dialogues.get(lane) is dialogue:
            self._let_go(lane)
            if stale.era:
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
                self._let_go(SHARED)
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

    def _make_room(self, lane: Lane) -> None:
        if lane in self._dialogues or len(self._dialogues) < MAX_LANES:
            return
        idle = [other for other in self._dialogues if other != SHARED and not self._busy[other]]
        if not idle:
            raise errors.Overloaded(f"{self._opener.source!r} has {MAX_LANES} conversations open, all busy.")
        self._let_go(min(idle, key=lambda other: self._used.get(other, 0.0)))

    def _let_go(self, lane: Lane) -> None:
        dialogue = self._dialogues.pop(lane, None)
        self._used.pop(lane, None)
        if dialogue is not None:
            task = asyncio.create_task(dialogue.aclose())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)


def _retrieve(task: asyncio.Task[Dialogue]) -> None:
    if not task.cancelled():
        task.exception()
