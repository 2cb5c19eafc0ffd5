"""One search index per catalog content, built off the request path, kept in memory and on disk.

The key is the hash of what is indexed: definitions and keywords. A quick index (words, and vectors that cost nothing)
answers first; the vectors of the better encoder arrive in the background and replace it. A changed catalog reuses the
index it grew from, so one changed tool costs one tool.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from toolcrib.catalog.snapshot import Snapshot
from toolcrib.catalog.tools import Tool
from toolcrib.search import Encoder, Hit, ToolIndex, UnreadableIndex, VectorCache

log = logging.getLogger(__name__)
_MOST_INDEXES = 64
_MOST_VECTORS = 20_000
_IDLE_S = 65.0
_MOST_STORED = 256
_MOST_REUSED_SHARE = 0.2  # of the tools may differ for an old index to be worth changing,
_MOST_CHANGED = 200  # and not more than this many, since the better encoder reads them while a search waits

Keywords = Mapping[str, str]
"""Dotted tool name → more text to find it by (what skills say of it)."""


Known = Sequence[tuple[ToolIndex, Mapping[str, str]]]
"""Indexes in memory, the last used first, each with what it was made from."""


class RecentVectors:
    """The vectors used last, by model and content, so that versions which share tools embed them once."""

    def __init__(self) -> None:
        self._vectors: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def get(self, model_id: str, content_hash: str) -> Any:
        return self._vectors.get((model_id, content_hash))

    def put(self, model_id: str, content_hash: str, vector: Any) -> None:
        self._vectors[model_id, content_hash] = vector
        if len(self._vectors) > _MOST_VECTORS:
            self._vectors.popitem(last=False)


class Indexes:
    """Search indexes by key, single-flight."""

    def __init__(
        self,
        folder: Path | None,
        quick: Callable[[], Encoder],
        best: Callable[[], Encoder],
        cache: VectorCache,
        *,
        queries_cost: bool = False,
    ) -> None:
        """`queries_cost` says that the best encoder takes its time for a query, so searches go to a thread."""
        self._folder = folder
        self._quick = quick
        self._best = best
        self._cache = cache
        self._queries_cost = queries_cost
        self._ready: OrderedDict[str, ToolIndex] = OrderedDict()
        self._contents: dict[str, Mapping[str, str]] = {}
        self._keys: OrderedDict[int, tuple[Snapshot, Keywords, str, Mapping[str, str]]] = OrderedDict()
        self._building: dict[str, asyncio.Task[ToolIndex]] = {}
        self._upgrades: set[asyncio.Task[None]] = set()
        self._closing = threading.Event()
        # Two, because a quick build that somebody waits for must not stand behind a minute of embedding.
        self._builder = ThreadPoolExecutor(1, thread_name_prefix="index-builder")
        self._improver = ThreadPoolExecutor(1, thread_name_prefix="index-improver")

    async def of(self, snapshot: Snapshot, keywords: Keywords | None = None) -> ToolIndex:
        """The index of a snapshot; waits only for a quick one that nobody has built yet."""
        key, contents = self._keyed(snapshot, keywords or {})
        found = self._ready.get(key)
        if found is not None:
            self._ready.move_to_end(key)
            return found
        task = self._building.get(key)
        if task is None:
            task = self._building[key] = asyncio.create_task(self._make(key, snapshot, contents, keywords or {}))
        return await asyncio.shield(task)

    async def search(self, snapshot: Snapshot, query: str, limit: int, keywords: Keywords | None = None) -> list[Hit]:
        """The best tools of a snapshot for a query."""
        index = await self.of(snapshot, keywords)
        if self._queries_cost:
            return await asyncio.to_thread(index.search, query, limit)
        return index.search(query, limit)

    def _keyed(self, snapshot: Snapshot, keywords: Keywords) -> tuple[str, Mapping[str, str]]:
        """The key of a snapshot, worked out once: at ten thousand tools it costs more than a search."""
        known = self._keys.get(id(snapshot))
        if known is None or known[0] is not snapshot or known[1] != keywords:
            contents = _contents(snapshot, keywords)
            known = self._keys[id(snapshot)] = (snapshot, keywords, _key(contents), contents)
            while len(self._keys) > _MOST_INDEXES:
                self._keys.popitem(last=False)
        return known[2], known[3]

    async def close(self) -> None:
        self._closing.set()
        for task in [*self._building.values(), *self._upgrades]:
            task.cancel()
        for thread in (self._builder, self._improver):
            await asyncio.to_thread(thread.shutdown, cancel_futures=True)

    async def _make(self, key: str, snapshot: Snapshot, contents: Mapping[str, str], keywords: Keywords) -> ToolIndex:
        # Taken here, in the loop that changes it: the builder must not walk what moves under it.
        known = [(index, self._contents[held]) for held, index in reversed(self._ready.items())]
        build = partial(self._load_or_build, key, snapshot, contents, keywords, known)
        try:
            index = await asyncio.get_running_loop().run_in_executor(self._builder, build)
        finally:
            self._building.pop(key, None)
        self._keep(key, index, contents)
        upgrade = asyncio.create_task(self._upgrade(key, index))
        self._upgrades.add(upgrade)
        upgrade.add_done_callback(self._upgrades.discard)
        return index

    async def _upgrade(self, key: str, index: ToolIndex) -> None:
        """Give the index the better vectors, then store it. Search goes on with the quick one meanwhile."""
        try:
            better = await asyncio.get_running_loop().run_in_executor(self._improver, self._improve, key, index)
        except (OSError, RuntimeError, ImportError) as error:
            log.warning("the search index %s stays without its better vectors: %s", key[:12], error)
            return
        if key in self._ready:
            self._ready[key] = better
        asyncio.get_running_loop().call_later(_IDLE_S, self._let_go)

    def _stop_when_closing(self) -> None:
        """Ten thousand tools take the transformer a minute; a server that stops does not wait for it."""
        if self._closing.is_set():
            raise RuntimeError("the server stops")

    def _let_go(self) -> None:
        """Tools are embedded rarely: the transformer's session is not worth holding in between."""
        release = getattr(getattr(self._best(), "transformer", None), "release_if_idle", None)
        if release is not None and not release():
            asyncio.get_running_loop().call_later(_IDLE_S, self._let_go)

    def _load_or_build(
        self, key: str, snapshot: Snapshot, contents: Mapping[str, str], keywords: Keywords, known: Known
    ) -> ToolIndex:
        if (path := self._path(key)) is not None and path.exists():
            try:
                return ToolIndex.load(path, encoder=self._best(), cache=self._cache)
            except (UnreadableIndex, OSError) as error:
                log.warning("the stored search index %s is built anew: %s", path.name, error)
        try:
            if (changed := _changed(snapshot, contents, keywords, known)) is not None:
                return changed
        except RuntimeError as error:
            log.warning("the search index %s is built anew: %s", key[:12], error)
        return ToolIndex.build(_documents(snapshot, keywords), encoder=self._quick(), cache=self._cache)

    def _improve(self, key: str, index: ToolIndex) -> ToolIndex:
        better = index.with_vectors(self._best(), pause=self._stop_when_closing)
        path = self._path(key)
        if path is not None and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            better.save(path)
            _keep_newest(path.parent)
        return better

    def _keep(self, key: str, index: ToolIndex, contents: Mapping[str, str]) -> None:
        self._ready[key] = index
        self._contents[key] = contents
        while len(self._ready) > _MOST_INDEXES:
            oldest, _ = self._ready.popitem(last=False)
            self._contents.pop(oldest, None)

    def _path(self, key: str) -> Path | None:
        if self._folder is None:
            return None
        model = hashlib.sha256(self._best().model_id.encode()).hexdigest()[:8]
        return self._folder / f"{key[:32]}-{model}.index"


def _changed(snapshot: Snapshot, contents: Mapping[str, str], keywords: Keywords, known: Known) -> ToolIndex | None:
    """The nearest index in memory with the difference applied, if it is near enough."""
    for index, old in known:
        added = {name for name, digest in contents.items() if old.get(name) != digest}
        removed = old.keys() - contents.keys()
        if len(added) + len(removed) <= min(_MOST_CHANGED, _MOST_REUSED_SHARE * len(contents)):
            return index.with_changes([d for d in _documents(snapshot, keywords) if d["name"] in added], removed)
    return None


def _keep_newest(folder: Path) -> None:
    """Every change of a catalog stores another index; the oldest are of catalogs that nobody serves any more."""
    stored = sorted(folder.glob("*.index"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in stored[_MOST_STORED:]:
        path.unlink(missing_ok=True)


def _contents(snapshot: Snapshot, keywords: Keywords) -> dict[str, str]:
    """What is indexed of each tool, as a digest; ours to compare, never shown."""
    return {name: f"{tool.digest}\0{tool.keywords}\0{keywords.get(name, '')}" for name, tool in snapshot.listed("dot")}


def _key(contents: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name}\0{content}\1".encode())
    return digest.hexdigest()


def _documents(snapshot: Snapshot, keywords: Keywords) -> list[dict[str, Any]]:
    return [_document(name, tool, keywords.get(name, "")) for name, tool in snapshot.listed("dot")]


def _document(name: str, tool: Tool, more: str) -> dict[str, Any]:
    text = " ".join(part for part in (tool.keywords, more) if part)
    return {**tool.definition, "name": name, "server": tool.label, "keywords": text}
