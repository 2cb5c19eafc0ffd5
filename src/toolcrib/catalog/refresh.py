"""The background: asks each source when it is due, and keeps one current snapshot per version in use.

Sources are asked on first use, when their time is up, when they say that they changed, and on demand; never twice at a
time, never more than a few at once, and never on the path of a request, except that the first list of a version waits a
little. Deliberately knows neither SQL nor HTTP: what is kept goes through `Shelf`, what is asked through `Upstream`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from toolcrib import errors
from toolcrib.catalog import entries, health, records, tools
from toolcrib.catalog.assembly import Contribution, assemble
from toolcrib.catalog.entries import Entry
from toolcrib.catalog.records import Record
from toolcrib.catalog.snapshot import Drifted, Snapshot
from toolcrib.catalog.tools import Tool
from toolcrib.domain import JsonObject, Principal, Role, SourceState, SourceStatus, Version
from toolcrib.upstreams.upstream import Background, Change, Listing, Upstream, UpstreamSpec

log = logging.getLogger(__name__)

Key = tuple[str, str, int]
"""(project, toolbox, version number)."""

Opener = Callable[[Version, JsonObject], Upstream]
"""The upstream behind an entry; it, or its `fetch`, raises a `SourceError` when there is no way to it."""

Listener = Callable[[Key, Snapshot, Snapshot], None]
"""(version, before, after), in the event loop, whenever a snapshot or one of its source states changed."""


class Shelf(Protocol):
    """Where records are kept, as blobs nobody else looks into. One replica's write is seen by the others' next load."""

    async def load(self, project: str, toolbox: str, version: int, label: str) -> bytes | None: ...

    async def save(self, project: str, toolbox: str, version: int, label: str, blob: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how patiently sources are asked."""

    ttl_s: float = 300.0
    max_ttl_s: float = 3_600.0
    first_wait_s: float = 5.0
    fetch_s: float = 60.0
    retry_s: float = 5.0
    push_gap_s: float = 10.0
    idle_s: float = 3_600.0
    concurrent: int = 16


@dataclass(slots=True, eq=False)
class _Source:
    """One upstream as one toolbox reaches it. Versions whose entries lead to the same place follow the same source."""

    version: Version
    entry: Entry
    due: float
    followers: dict[Key, _Catalog] = field(default_factory=dict["Key", "_Catalog"])
    task: asyncio.Task[None] | None = None
    failure: errors.SourceError | None = None
    failures: int = 0
    asked: bool = False
    pushed_at: float = float("-inf")
    push_due: float = float("inf")

    @property
    def next_at(self) -> float:
        """When to ask again: its time is up, or it said that it changed."""
        return min(self.due, self.push_due)


@dataclass(slots=True, eq=False)
class _Part:
    """One entry of one version: what is known of it."""

    entry: Entry
    source: _Source | None
    state: SourceState
    record: Record | None = None
    stored: str = ""
    tools: tuple[Tool, ...] = ()


@dataclass(slots=True, eq=False)
class _Catalog:
    version: Version
    parts: dict[str, _Part]
    snapshot: Snapshot
    used_at: float
    patient_until: float = float("-inf")  # the first list waits a little for the silent; later ones do not
    is_complete: bool = False  # every source that can answer has; nothing to wait for on the way of a request
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Catalogs:
    """Hands out the current snapshot of each version, and keeps it current. Lives in one event loop."""

    def __init__(
        self,
        shelf: Shelf,
        opener: Opener,
        *,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        spread: Callable[[float], float] = lambda seconds: seconds * random.uniform(0.9, 1.1),  # noqa: S311
    ) -> None:
        self._shelf = shelf
        self._opener = opener
        self._pace = pace or Pace()
        self._clock = clock
        self._now = now
        self._spread = spread
        self._catalogs: dict[Key, _Catalog] = {}
        self._loading: dict[Key, asyncio.Task[_Catalog]] = {}
        self._sources: dict[tuple[str, str, str], _Source] = {}
        self._listeners: list[Listener] = []
        self._slots = asyncio.Semaphore(self._pace.concurrent)
        self._wake = asyncio.Event()

    # --- asking for a snapshot

    def current(self, version: Version) -> Snapshot | None:
        """The snapshot, when this version is in use here: one dictionary read. Otherwise ask for `snapshot`."""
        catalog = self._catalogs.get((version.project, version.toolbox, version.number))
        if catalog is None:
            return None
        catalog.used_at = self._clock()
        return catalog.snapshot

    def ready(self, version: Version) -> Snapshot | None:
        """The snapshot when there is nothing to wait for, without a task switch; None otherwise."""
        catalog = self._catalogs.get((version.project, version.toolbox, version.number))
        if catalog is None or not catalog.is_complete:
            return None
        catalog.used_at = self._clock()
        return catalog.snapshot

    async def snapshot(self, version: Version) -> Snapshot:
        """The snapshot, loaded when it has to be. Waits a little for sources that have never answered; no longer."""
        catalog = await self._loaded(version)
        catalog.used_at = self._clock()
        if catalog.is_complete:
            return catalog.snapshot
        unseen = {state.label for state in catalog.snapshot.sources if state.status is SourceStatus.pending}
        fresh = [part.source for label, part in catalog.parts.items() if part.source and label in unseen]
        waiting = [source.task for source in fresh if source.task]
        patience_s = min(self._pace.first_wait_s, catalog.patient_until - self._clock())
        if waiting and patience_s > 0:
            await asyncio.wait(waiting, timeout=patience_s)
        return catalog.snapshot

    async def refresh(self, version: Version, label: str | None = None) -> Snapshot:
        """Ask the sources (or one) now, and wait until each has answered or failed."""
        catalog = await self._loaded(version)
        wanted = [part.source for part in catalog.parts.values() if part.source and label in (None, part.entry.label)]
        if label is not None and label not in catalog.parts:
            raise errors.NotFound(f"This version has no source '{label}'.", hint=f"It has: {', '.join(catalog.parts)}.")
        if running := [source.task for source in wanted if source.task]:
            await asyncio.wait(running)  # they were asked before: their answers may be of before, too
        if tasks := [self._ask(source, insist=True) for source in wanted]:
            await asyncio.wait(tasks)
        return catalog.snapshot

    async def accept(self, version: Version, tool: str) -> Snapshot:
        """Serve what the upstream offers now for a pinned or quarantined tool, named in any form."""
        catalog = await self._loaded(version)
        label, name = _drifted(catalog.snapshot, tool)
        part = catalog.parts[label]
        async with catalog.lock:
            record = await self._reload(catalog, part)
            if record is None:
                raise errors.NotFound(f"Nothing is known of the source '{label}'.")
            await self._store(catalog, part, records.accept(record, name, int(self._now())))
            await self._rebuild(catalog)
        return catalog.snapshot

    # --- being told

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have every change reported; call what is returned to end it."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return unsubscribe

    def on_change(self, spec: UpstreamSpec, change: Change) -> None:
        """The pool's change listener: at most one fetch per `push_gap_s` and source comes of it."""
        if change.kind == "resource":
            return
        now = self._clock()
        for source in self._sources.values():
            here = (source.entry.label, source.entry.raw.get("server_url"), source.version.project)
            if here == (spec.label, spec.url, spec.scope):
                source.push_due = min(source.push_due, max(now, source.pushed_at + self._pace.push_gap_s))
                source.pushed_at = max(now, source.push_due)
        self._wake.set()

    def connection_changed(self, project: str, connection: str) -> None:
        """A connection was made, changed or deleted: ask every source that uses it anew."""
        for source in self._sources.values():
            named = str(source.entry.raw.get("project_connection_id") or "").rpartition("/")[2]
            if source.version.project == project and named == connection:
                source.due = self._clock()
        self._wake.set()

    def forget(self, project: str, toolbox: str, number: int | None = None) -> None:
        """A version (or all of a toolbox) was deleted: stop asking for it."""
        for key in [key for key in self._catalogs if key[:2] == (project, toolbox) and number in (None, key[2])]:
            self._drop(key)

    # --- the loop

    async def run(self) -> None:
        """Ask what is due, for ever; the composition root runs this as a task."""
        while True:
            self.tick()
            soonest = min((source.next_at for source in self._sources.values() if not source.task), default=None)
            pause = 5.0 if soonest is None else min(5.0, max(0.05, soonest - self._clock()))
            with contextlib.suppress(TimeoutError):  # not `wait_for`, which may swallow a cancellation in 3.11
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()

    def tick(self) -> None:
        """Start what is due now, and let go of what nobody uses any more."""
        now = self._clock()
        for key in [key for key, each in self._catalogs.items() if now - each.used_at > self._pace.idle_s]:
            self._drop(key)
        for identity, source in list(self._sources.items()):
            if not source.followers and not source.task:
                del self._sources[identity]
            elif now >= source.next_at:
                self._ask(source)

    async def settle(self) -> None:
        """Wait until no source is being asked."""
        while tasks := [source.task for source in self._sources.values() if source.task]:
            await asyncio.wait(tasks)

    async def aclose(self) -> None:
        tasks = [*self._loading.values(), *(source.task for source in self._sources.values() if source.task)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- loading

    async def _loaded(self, version: Version) -> _Catalog:
        key = (version.project, version.toolbox, version.number)
        catalog = self._catalogs.get(key)
        if catalog is not None:
            return catalog
        task = self._loading.get(key)
        if task is None:
            self._loading[key] = task = asyncio.create_task(self._load(key, version))
            task.add_done_callback(lambda _: self._loading.pop(key, None))
        return await asyncio.shield(task)

    async def _load(self, key: Key, version: Version) -> _Catalog:
        """What is stored, as it is stored, and the first question to each source on its way."""
        parts: dict[str, _Part] = {}
        for entry in entries.read_all(version.content.tools):
            parts[entry.label] = _Part(
                entry, None, health.state_of(entry, None, (), None, asked=False, now=int(self._now()))
            )
        catalog = _Catalog(version, parts, assemble([]), self._clock())
        served = [part for part in parts.values() if part.entry.unserved is None]
        try:
            async with catalog.lock:
                for part in served:
                    part.source = self._source(version, part.entry)
                    part.source.followers[key] = catalog
                    await self._take_down(catalog, part)
                catalog.snapshot = await asyncio.to_thread(assemble, self._contributions(catalog))
                catalog.is_complete = _is_complete(catalog)
        except BaseException:
            self._unfollow(key)
            raise
        self._catalogs[key] = catalog
        catalog.patient_until = self._clock() + self._pace.first_wait_s
        for part in served:
            if part.source is not None:
                self._ask(part.source)
        return catalog

    async def _take_down(self, catalog: _Catalog, part: _Part) -> None:
        record = await self._reload(catalog, part)
        if record is not None:
            part.record = record
            part.tools = await asyncio.to_thread(tools.prepare, part.entry, record)

    def _source(self, version: Version, entry: Entry) -> _Source:
        identity = (version.project, version.toolbox, entries.identity(entry.raw))
        if identity not in self._sources:
            self._sources[identity] = _Source(version, entry, due=self._clock())
        return self._sources[identity]

    def _drop(self, key: Key) -> None:
        self._catalogs.pop(key)
        self._unfollow(key)

    def _unfollow(self, key: Key) -> None:
        """Sources that nobody follows any more are let go by the next tick."""
        for source in self._sources.values():
            source.followers.pop(key, None)

    # --- asking a source

    def _ask(self, source: _Source, *, insist: bool = False) -> asyncio.Task[None]:
        if source.task is None:
            source.push_due = float("inf")  # what is pushed from now on is not in this answer
            source.task = asyncio.create_task(self._fetch(source, insist))
        return source.task

    async def _fetch(self, source: _Source, insist: bool) -> None:
        try:
            listing = await self._answer(source, insist)
            source.failure, source.failures = None, 0
            source.asked = True
            await self._apply(source, listing)
            ttl = min(max(listing.ttl_s or 0.0, self._pace.ttl_s), self._pace.max_ttl_s)
            source.due = self._clock() + self._spread(ttl)
        except errors.SourceError as failure:
            await self._failed(source, failure)
        except Exception as failure:  # the edge of the background: nothing may end it
            log.exception("asking the source '%s' failed in a way it should not", source.entry.label)
            kind = type(failure).__name__
            await self._failed(
                source, errors.BadAnswer(f"Its answer could not be used ({kind}).", source=source.entry.label)
            )
        finally:
            source.task = None
            self._wake.set()

    async def _answer(self, source: _Source, insist: bool) -> Listing:
        label = source.entry.label
        principal = Principal("catalog", Role.agent, source.version.project)
        async with self._slots:
            try:
                async with asyncio.timeout(self._pace.fetch_s):
                    upstream = self._opener(source.version, source.entry.raw)
                    return await upstream.fetch(Background(principal), insist=insist)
            except TimeoutError:
                message = f"'{label}' did not list its tools within {self._pace.fetch_s:g} s."
                raise errors.TimedOut(message, source=label) from None

    async def _failed(self, source: _Source, failure: errors.SourceError) -> None:
        source.failure = failure
        source.failures += 1
        source.asked = True
        pause = min(self._pace.retry_s * 2 ** min(source.failures - 1, 10), self._pace.ttl_s)
        source.due = self._clock() + self._spread(max(pause, failure.retry_after_s or 0.0))
        log.warning("source '%s': %s", source.entry.label, failure.message)
        for catalog in list(source.followers.values()):
            async with catalog.lock:
                await self._rebuild(catalog)

    async def _apply(self, source: _Source, listing: Listing) -> None:
        for catalog in list(source.followers.values()):
            async with catalog.lock:
                for part in catalog.parts.values():
                    if part.source is source:
                        record = await self._reload(catalog, part)
                        now = int(self._now())
                        merged = await asyncio.to_thread(records.merge, record, listing, part.entry.policy, now)
                        await self._store(catalog, part, merged)
                await self._rebuild(catalog)

    # --- keeping

    async def _reload(self, catalog: _Catalog, part: _Part) -> Record | None:
        """The record as it is kept now: another replica may have accepted something meanwhile."""
        version = catalog.version
        blob = await self._shelf.load(version.project, version.toolbox, version.number, part.entry.label)
        if blob is None:
            return None
        digest = hashlib.sha256(blob).hexdigest()
        if part.record is not None and digest == part.stored:
            return part.record
        part.stored = digest
        return await asyncio.to_thread(records.decode, blob)

    async def _store(self, catalog: _Catalog, part: _Part, record: Record) -> None:
        blob = await asyncio.to_thread(records.encode, record)
        digest = hashlib.sha256(blob).hexdigest()
        if digest != part.stored:
            version = catalog.version
            await self._shelf.save(version.project, version.toolbox, version.number, part.entry.label, blob)
            part.stored = digest
        if record is not part.record:
            part.tools = await asyncio.to_thread(tools.prepare, part.entry, record)
            part.record = record

    async def _rebuild(self, catalog: _Catalog) -> None:
        """A new snapshot from what the parts hold; listeners hear of it when it differs. Needs the catalog's lock."""
        before = catalog.snapshot
        after = await asyncio.to_thread(assemble, self._contributions(catalog))
        catalog.is_complete = _is_complete(catalog)
        if after.digest == before.digest and (after.sources, after.drift) == (before.sources, before.drift):
            return
        catalog.snapshot = after
        version = catalog.version
        for listener in list(self._listeners):
            listener((version.project, version.toolbox, version.number), before, after)

    def _contributions(self, catalog: _Catalog) -> list[Contribution]:
        return [self._contribution(part) for part in catalog.parts.values()]

    def _contribution(self, part: _Part) -> Contribution:
        source = part.source
        part.state = health.state_of(
            part.entry,
            part.record,
            part.tools,
            source.failure if source else None,
            asked=source.asked if source else False,
            now=int(self._now()),
            before=part.state,
        )
        return Contribution(part.entry, part.state, part.record, part.tools)


def _is_complete(catalog: _Catalog) -> bool:
    return all(part.record is not None or part.entry.unserved for part in catalog.parts.values())


def _drifted(snapshot: Snapshot, tool: str) -> tuple[str, str]:
    """(label, upstream name) of a tool that waits for a decision."""
    waiting = [each for each in snapshot.drift if each.state != "flagged"]
    found = snapshot.find(tool)
    for each in waiting:
        if tool == each.name or (found is not None and (found.label, found.upstream_name) == (each.label, each.tool)):
            return each.label, each.tool
    raise errors.NotFound(f"The tool '{tool}' has no change that waits for a decision.", hint=_waiting(waiting))


def _waiting(drifted: Sequence[Drifted]) -> str:
    names = ", ".join(each.name for each in drifted[:10])
    return f"These have: {names}." if names else "No tool of this version has."
