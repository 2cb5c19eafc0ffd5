"""Slots of one upstream: never more in flight than allowed, none lost, first come first served."""

from __future__ import annotations

import asyncio

import pytest

from toolcrib import errors
from toolcrib.upstreams.deadline import Deadlines
from toolcrib.upstreams.eras import Eras
from toolcrib.upstreams.mcp_server import McpServer, World
from toolcrib.upstreams.pool import Guard
from toolcrib.upstreams.upstream import Limits, UpstreamSpec

pytestmark = pytest.mark.anyio


def guard_of(**limits: float) -> Guard:
    bounds = Limits(concurrent=1, **limits)  # pyright: ignore[reportArgumentType] - the limits that are in seconds
    world = World({}, Eras(), lambda: pytest.fail("no TLS here"), lambda spec, change: None)
    return Guard("up", McpServer(UpstreamSpec("up", "http://127.0.0.1:9/mcp"), world), bounds, Deadlines())


class Work:
    """Runs until it is told to end, and notes in which order it began."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.began: list[str] = []
        self.done = asyncio.Event()

    def start(self, name: str) -> asyncio.Task[str]:
        async def work() -> str:
            self.began.append(name)
            await self.done.wait()
            return name

        return asyncio.create_task(self.guard.run(work, self.guard.deadlines.after(60), resendable=False))


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_who_waits_longest_is_served_first_and_nobody_overtakes() -> None:
    work = Work(guard_of())
    tasks = [work.start(name) for name in "abc"]
    await turns(3)
    assert work.began == ["a"]
    work.done.set()
    assert await asyncio.gather(*tasks, work.start("d")) == ["a", "b", "c", "d"]
    assert work.began == ["a", "b", "c", "d"]


async def test_who_waits_too_long_is_told_so() -> None:
    work = Work(guard_of(queue_s=0.05))
    first = work.start("first")
    with pytest.raises(errors.Overloaded, match="already has 1 requests"):
        await work.start("second")
    work.done.set()
    assert await first == "first"
    assert await work.start("third") == "third"


@pytest.mark.parametrize("later", range(6))
async def test_who_leaves_as_the_slot_is_handed_over_never_begins_and_leaves_it_free(later: int) -> None:
    work = Work(guard_of())
    first, second = work.start("first"), work.start("second")
    await turns(2)
    work.done.set()
    await turns(later)
    has_begun = "second" in work.began
    second.cancel()
    await asyncio.wait([first, second])
    assert has_begun or "second" not in work.began
    assert await asyncio.wait_for(work.start("third"), 1) == "third"
