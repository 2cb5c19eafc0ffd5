"""Indexes: quick first, better later, and nobody waits for somebody else's embedding."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.unit.catalog.test_catalog_snapshot import a_tool, entry, snapshot

from toolcrib.catalog.indexes import Indexes, RecentVectors
from toolcrib.catalog.snapshot import Snapshot
from toolcrib.search import Document, WordsOnly
from toolcrib.upstreams.upstream import Listing

pytestmark = pytest.mark.anyio


class Slow:
    """An encoder that embeds tools only when it is let."""

    model_id = "slow"

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.embedded = 0

    def embed_query(self, query: str) -> np.ndarray:
        return np.ones(2, np.float32) / np.sqrt(2)

    def embed_tools(self, tools: Sequence[Document]) -> np.ndarray:
        assert self.may_go.wait(20)
        self.embedded += len(tools)
        return np.ones((len(tools), 2), np.float32) / np.sqrt(2)


class Away(Slow):
    model_id = "away"

    def embed_tools(self, tools: Sequence[Document]) -> np.ndarray:
        raise RuntimeError("nobody is there")


def catalog(*names: str) -> Snapshot:
    return snapshot((entry("s"), Listing(tools=tuple(a_tool(name) for name in names))))


async def upgraded(indexes: Indexes, made: Snapshot, model: str) -> None:
    async with asyncio.timeout(20):
        while (await indexes.of(made)).model_id != model:  # noqa: ASYNC110 - an upgrade tells nobody
            await asyncio.sleep(0.01)


async def test_a_second_catalog_does_not_wait_for_the_first_ones_vectors() -> None:
    slow = Slow()
    indexes = Indexes(None, WordsOnly, lambda: slow, RecentVectors())
    first, second = catalog("alpha", "beta"), catalog("gamma", "delta")
    async with asyncio.timeout(10):
        assert (await indexes.of(first)).model_id == "words-only"
        assert [hit.name for hit in await indexes.search(second, "gamma", 1)] == ["s.gamma"]
    slow.may_go.set()
    await upgraded(indexes, first, "slow")
    await indexes.close()


async def test_a_stored_index_is_loaded_and_only_by_the_model_that_made_it(tmp_path: Path) -> None:
    slow = Slow()
    slow.may_go.set()
    made = catalog("alpha", "beta")
    indexes = Indexes(tmp_path, WordsOnly, lambda: slow, RecentVectors())
    await upgraded(indexes, made, "slow")
    await indexes.close()
    again = Indexes(tmp_path, WordsOnly, lambda: slow, RecentVectors())
    assert ((await again.of(made)).model_id, slow.embedded) == ("slow", 2)
    await again.close()
    other = Indexes(tmp_path, WordsOnly, Away, RecentVectors())
    assert (await other.of(made)).model_id == "words-only"
    await other.close()


async def test_a_changed_catalog_costs_its_changes_only() -> None:
    slow = Slow()
    slow.may_go.set()
    indexes = Indexes(None, WordsOnly, lambda: slow, RecentVectors())
    names = [f"tool_{n}" for n in range(20)]
    await upgraded(indexes, catalog(*names), "slow")
    changed = await indexes.of(catalog(*names[:-1], "newcomer"))
    assert ("s.newcomer" in changed, "s.tool_19" in changed, slow.embedded) == (True, False, 21)
    await indexes.close()


async def test_closing_does_not_wait_for_what_is_left_to_embed() -> None:
    slow = Slow()
    indexes = Indexes(None, WordsOnly, lambda: slow, RecentVectors())
    await indexes.of(catalog(*(f"tool_{n}" for n in range(300))))
    closing = asyncio.create_task(indexes.close())
    await asyncio.sleep(0)
    slow.may_go.set()
    async with asyncio.timeout(10):
        await closing
    assert slow.embedded <= 64
