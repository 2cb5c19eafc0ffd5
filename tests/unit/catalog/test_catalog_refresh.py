from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from toolcrib import errors
from toolcrib.catalog.refresh import Catalogs, Key, Pace
from toolcrib.catalog.snapshot import Snapshot
from toolcrib.domain import Content, JsonObject, SourceStatus, Version
from toolcrib.upstreams.upstream import Change, Exchange, Listing, UpstreamSpec

pytestmark = pytest.mark.anyio


def a_tool(name: str, **more: Any) -> JsonObject:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more}


def entry(label: str, **more: Any) -> JsonObject:
    return {"type": "mcp", "server_label": label, "server_url": f"http://{label}.test/mcp", **more}


def version(*tools: JsonObject, number: int = 1) -> Version:
    return Version("default", "ops", number, f"id{number}", 0, "digest", Content(tools))


def asks(tool: JsonObject) -> JsonObject:
    return tool | {"inputSchema": {"type": "object", "required": ["k"]}}


@dataclass
class FakeUpstream:
    label: str = "a"
    listing: Listing = field(default_factory=Listing)
    failure: Exception | None = None
    gate: asyncio.Event | None = None
    fetches: int = 0
    at_once: int = 0
    most_at_once: int = 0

    async def fetch(self, exchange: Exchange, *, insist: bool = False) -> Listing:
        assert exchange.principal.project == "default"
        self.fetches += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.failure is not None:
                raise self.failure
            return self.listing
        finally:
            self.at_once -= 1

    async def request(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the catalog calls nothing")

    subscribe = unsubscribe = request

    async def aclose(self) -> None: ...


@dataclass
class FakeShelf:
    kept: dict[tuple[str, str, int, str], bytes] = field(default_factory=dict[tuple[str, str, int, str], bytes])
    saves: int = 0

    async def load(self, project: str, toolbox: str, version: int, label: str) -> bytes | None:
        return self.kept.get((project, toolbox, version, label))

    async def save(self, project: str, toolbox: str, version: int, label: str, blob: bytes) -> None:
        self.saves += 1
        self.kept[(project, toolbox, version, label)] = blob


@dataclass
class World:
    """Upstreams, a shelf and a clock that only the test moves."""

    upstreams: dict[str, FakeUpstream]
    shelf: FakeShelf = field(default_factory=FakeShelf)
    at: float = 1_000.0
    heard: list[tuple[Key, Snapshot, Snapshot]] = field(default_factory=list[tuple[Key, Snapshot, Snapshot]])

    @asynccontextmanager
    async def catalogs(self, **pace: Any) -> AsyncIterator[Catalogs]:
        made = Catalogs(
            self.shelf,
            self._open,
            pace=Pace(**({"first_wait_s": 1.0} | pace)),
            clock=lambda: self.at,
            now=lambda: self.at,
            spread=lambda seconds: seconds,
        )
        made.subscribe(lambda key, before, after: self.heard.append((key, before, after)))
        try:
            yield made
        finally:
            await made.aclose()

    def _open(self, version: Version, entry: JsonObject) -> FakeUpstream:
        return self.upstreams[entry["server_label"]]

    async def pass_time(self, catalogs: Catalogs, seconds: float) -> None:
        self.at += seconds
        catalogs.tick()
        await catalogs.settle()


def world(**listings: Listing) -> World:
    return World({label: FakeUpstream(label, listing) for label, listing in listings.items()})


def names(snapshot: Snapshot) -> list[str]:
    return [name for name, _ in snapshot.listed()]


def statuses(snapshot: Snapshot) -> dict[str, SourceStatus]:
    return {state.label: state.status for state in snapshot.sources}


async def test_the_first_list_waits_for_the_first_answer_and_keeps_it() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs(first_wait_s=5.0) as catalogs:
        one = version(entry("a"))
        assert catalogs.current(one) is None
        snapshot = await catalogs.snapshot(one)
        assert names(snapshot) == ["a.x"]
        assert statuses(snapshot) == {"a": SourceStatus.ok}
        assert catalogs.current(one) is snapshot
        assert await catalogs.snapshot(one) is snapshot
        assert here.upstreams["a"].fetches == 1
        assert ("default", "ops", 1, "a") in here.shelf.kept


async def test_one_source_that_hangs_does_not_hold_up_the_others() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)), b=Listing(tools=(a_tool("y"),)))
    here.upstreams["b"].gate = asyncio.Event()
    async with here.catalogs() as catalogs:
        one = version(entry("a"), entry("b"))
        snapshot = await catalogs.snapshot(one)
        assert names(snapshot) == ["a.x"]
        assert statuses(snapshot) == {"a": SourceStatus.ok, "b": SourceStatus.pending}
        here.upstreams["b"].gate.set()
        await catalogs.settle()
        assert names(await catalogs.snapshot(one)) == ["a.x", "b.y"]


async def test_a_refresh_is_not_answered_by_a_question_asked_before_it() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs(first_wait_s=0.01) as catalogs:
        one = version(entry("a"))
        here.upstreams["a"].gate = gate = asyncio.Event()
        await catalogs.snapshot(one)  # asked, and not answered yet
        fresh = [asyncio.create_task(catalogs.refresh(one)) for _ in range(5)]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*fresh)
        assert here.upstreams["a"].fetches == 2  # once before, once for all who asked since


async def test_many_askers_make_one_question() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs(first_wait_s=5.0) as catalogs:
        one = version(entry("a"))
        made = await asyncio.gather(*(catalogs.snapshot(one) for _ in range(50)))
        assert {names(each)[0] for each in made} == {"a.x"}
        assert here.upstreams["a"].fetches == 1


async def test_versions_that_lead_to_the_same_place_share_a_question() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs() as catalogs:
        one, two = version(entry("a")), version(entry("a", allowed_tools=[]), number=2)
        await catalogs.snapshot(one)
        await catalogs.snapshot(two)
        await catalogs.settle()
        before = here.upstreams["a"].fetches
        await here.pass_time(catalogs, 301)
        assert here.upstreams["a"].fetches == before + 1
        assert names(await catalogs.snapshot(two)) == []


async def test_nothing_is_asked_before_its_time_and_everything_after() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs() as catalogs:
        await catalogs.snapshot(version(entry("a")))
        await here.pass_time(catalogs, 299)
        assert here.upstreams["a"].fetches == 1
        await here.pass_time(catalogs, 2)
        assert here.upstreams["a"].fetches == 2


async def test_an_upstream_may_ask_to_be_asked_less_often() -> None:
    here = world(a=Listing(tools=(a_tool("x"),), ttl_s=1_000.0))
    async with here.catalogs() as catalogs:
        await catalogs.snapshot(version(entry("a")))
        await here.pass_time(catalogs, 900)
        assert here.upstreams["a"].fetches == 1
        await here.pass_time(catalogs, 101)
        assert here.upstreams["a"].fetches == 2


async def test_an_unchanged_answer_writes_nothing_and_tells_nobody() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs() as catalogs:
        await catalogs.snapshot(version(entry("a")))
        saves, heard = here.shelf.saves, len(here.heard)
        await here.pass_time(catalogs, 301)
        assert (here.shelf.saves, len(here.heard)) == (saves, heard)


async def test_a_change_reaches_listeners_with_before_and_after() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs() as catalogs:
        await catalogs.snapshot(version(entry("a")))
        here.upstreams["a"].listing = Listing(tools=(a_tool("x"), a_tool("y")))
        await here.pass_time(catalogs, 301)
        key, before, after = here.heard[-1]
        assert key == ("default", "ops", 1)
        assert (names(before), names(after)) == (["a.x"], ["a.x", "a.y"])
        assert before.tools_digest != after.tools_digest
        assert before.prompts_digest == after.prompts_digest


async def test_a_dead_upstream_keeps_its_tools_and_says_so() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs() as catalogs:
        one = version(entry("a"))
        await catalogs.snapshot(one)
        here.upstreams["a"].failure = errors.Unreachable("connection refused", source="a")
        await here.pass_time(catalogs, 301)
        snapshot = await catalogs.snapshot(one)
        assert names(snapshot) == ["a.x"]
        (state,) = snapshot.sources
        assert (state.status, state.since, state.reason) == (SourceStatus.stale, 1_301, "connection refused")
        assert state.remedy
        await here.pass_time(catalogs, 301)
        assert (await catalogs.snapshot(one)).sources[0].since == 1_301
        here.upstreams["a"].failure = None
        await here.pass_time(catalogs, 301)
        assert statuses(await catalogs.snapshot(one)) == {"a": SourceStatus.ok}


async def test_a_failing_source_is_asked_less_and_less_often() -> None:
    here = world(a=Listing())
    here.upstreams["a"].failure = errors.Unreachable("no", source="a")
    async with here.catalogs() as catalogs:
        await catalogs.snapshot(version(entry("a")))
        await catalogs.settle()
        asked: list[int] = []
        for second in range(1, 200):
            before = here.upstreams["a"].fetches
            await here.pass_time(catalogs, 1)
            if here.upstreams["a"].fetches > before:
                asked.append(second)
        assert asked == [5, 15, 35, 75, 155]


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (errors.Unreachable("x"), SourceStatus.unreachable),
        (errors.TimedOut("x"), SourceStatus.unreachable),
        (errors.CircuitOpen("x"), SourceStatus.unreachable),
        (errors.BadAnswer("x"), SourceStatus.unreachable),
        (errors.AuthFailed("x"), SourceStatus.auth_failed),
        (errors.ConsentRequired("x"), SourceStatus.consent_required),
        (errors.ConnectionMissing("x"), SourceStatus.not_configured),
        (errors.Unsupported("x"), SourceStatus.unsupported),
        (RuntimeError("a bug"), SourceStatus.unreachable),
    ],
)
async def test_a_source_that_never_answered_has_the_state_of_its_failure(
    failure: Exception, status: SourceStatus
) -> None:
    here = world(a=Listing(), b=Listing(tools=(a_tool("y"),)))
    here.upstreams["a"].failure = failure
    async with here.catalogs(first_wait_s=5.0) as catalogs:
        snapshot = await catalogs.snapshot(version(entry("a"), entry("b")))
        assert statuses(snapshot) == {"a": status, "b": SourceStatus.ok}
        assert names(snapshot) == ["b.y"]
        snapshot.require_known()


async def test_when_all_are_down_and_nothing_is_stored_it_is_an_error_not_an_empty_list() -> None:
    here = world(a=Listing())
    here.upstreams["a"].failure = errors.Unreachable("no", source="a")
    async with here.catalogs(first_wait_s=5.0) as catalogs:
        snapshot = await catalogs.snapshot(version(entry("a"), {"type": "web_search"}))
        with pytest.raises(errors.CatalogUnknown):
            snapshot.require_known()
        assert statuses(snapshot)["web_search"] is SourceStatus.unsupported


async def test_a_cold_start_with_everything_down_serves_what_is_stored() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    one = version(entry("a"))
    async with here.catalogs() as catalogs:
        first = await catalogs.snapshot(one)
    here.upstreams["a"].gate = asyncio.Event()
    async with here.catalogs() as catalogs:
        second = await catalogs.snapshot(one)
        assert names(second) == ["a.x"]
        assert second.digest == first.digest
        assert statuses(second) == {"a": SourceStatus.stale}


async def test_a_hanging_fetch_ends() -> None:
    here = world(a=Listing())
    here.upstreams["a"].gate = asyncio.Event()
    async with here.catalogs(fetch_s=0.01, first_wait_s=5.0) as catalogs:
        (state,) = (await catalogs.snapshot(version(entry("a")))).sources
        assert state.status is SourceStatus.unreachable
        assert "did not list" in state.reason


async def test_only_a_few_sources_are_asked_at_once() -> None:
    here = world(**{f"s{n}": Listing(tools=(a_tool("x"),)) for n in range(20)})
    gate = asyncio.Event()
    running = [0, 0]

    class Counting(FakeUpstream):
        async def fetch(self, exchange: Exchange, *, insist: bool = False) -> Listing:
            running[0] += 1
            running[1] = max(running)
            await asyncio.wait_for(gate.wait(), 5)
            running[0] -= 1
            return self.listing

    here.upstreams = {label: Counting(label, each.listing) for label, each in here.upstreams.items()}
    async with here.catalogs(concurrent=3) as catalogs:
        await catalogs.snapshot(version(*(entry(label) for label in here.upstreams)))
        gate.set()
        await catalogs.settle()
        assert running[1] == 3
        assert len(names(await catalogs.snapshot(version(*(entry(label) for label in here.upstreams))))) == 20


SPEC = UpstreamSpec("a", "http://a.test/mcp", "default")


async def test_a_pushed_change_is_fetched_at_once_and_then_not_too_often() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs() as catalogs:
        await catalogs.snapshot(version(entry("a")))
        for _ in range(5):
            catalogs.on_change(SPEC, Change("tools"))
        await here.pass_time(catalogs, 0)
        assert here.upstreams["a"].fetches == 2
        for _ in range(60):
            catalogs.on_change(SPEC, Change("tools"))
            await here.pass_time(catalogs, 1)
        assert here.upstreams["a"].fetches <= 2 + 6
        catalogs.on_change(UpstreamSpec("a", "http://a.test/mcp", "other project"), Change("tools"))
        catalogs.on_change(SPEC, Change("resource", "file:///x"))
        fetches = here.upstreams["a"].fetches
        await here.pass_time(catalogs, 20)
        assert here.upstreams["a"].fetches <= fetches + 1


async def test_a_change_pushed_during_a_fetch_is_not_lost() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    here.upstreams["a"].gate = asyncio.Event()
    async with here.catalogs() as catalogs:
        await catalogs.snapshot(version(entry("a")))
        catalogs.on_change(SPEC, Change("tools"))
        here.upstreams["a"].gate.set()
        await catalogs.settle()
        assert here.upstreams["a"].fetches == 1
        await here.pass_time(catalogs, 0)
        assert here.upstreams["a"].fetches == 2


async def test_drift_is_held_back_until_accepted_and_the_decision_survives_a_restart() -> None:
    here = world(a=Listing(tools=(a_tool("x"), a_tool("y"))))
    one = version(entry("a"))
    async with here.catalogs() as catalogs:
        await catalogs.snapshot(one)
        here.upstreams["a"].listing = Listing(tools=(asks(a_tool("x")), a_tool("y")))
        held = await catalogs.refresh(one)
        assert names(held) == ["a.y"]
        assert statuses(held) == {"a": SourceStatus.quarantined}
        (drifted,) = held.drift
        assert (drifted.name, drifted.state, drifted.grade) == ("a.x", "quarantined", "required_argument")
    async with here.catalogs() as catalogs:
        assert names(await catalogs.snapshot(one)) == ["a.y"]
        await catalogs.settle()
        accepted = await catalogs.accept(one, "a___x")
        assert names(accepted) == ["a.x", "a.y"]
        assert accepted.drift == ()
        assert accepted.tool("a.x").input_schema["required"] == ["k"]
        assert names(await catalogs.refresh(one)) == ["a.x", "a.y"]
        with pytest.raises(errors.NotFound):
            await catalogs.accept(one, "a.x")


async def test_a_decision_made_by_another_replica_is_not_overwritten() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    one = version(entry("a"))
    async with here.catalogs() as left, here.catalogs() as right:
        await left.snapshot(one)
        await right.snapshot(one)
        await right.settle()
        here.upstreams["a"].listing = Listing(tools=(asks(a_tool("x")),))
        await left.refresh(one)
        await right.refresh(one)
        await left.accept(one, "a.x")
        assert names(await right.refresh(one)) == ["a.x"]


async def test_refreshing_one_label_asks_only_that_source() -> None:
    here = world(a=Listing(), b=Listing())
    async with here.catalogs() as catalogs:
        one = version(entry("a"), entry("b"))
        await catalogs.snapshot(one)
        await catalogs.settle()
        await catalogs.refresh(one, "b")
        assert (here.upstreams["a"].fetches, here.upstreams["b"].fetches) == (1, 2)
        with pytest.raises(errors.NotFound):
            await catalogs.refresh(one, "c")


async def test_what_nobody_uses_is_let_go_and_comes_back_from_the_shelf() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs(idle_s=1_000.0) as catalogs:
        one = version(entry("a"))
        await catalogs.snapshot(one)
        await here.pass_time(catalogs, 1_001)
        assert catalogs.current(one) is None
        fetches = here.upstreams["a"].fetches
        await here.pass_time(catalogs, 1_001)
        assert here.upstreams["a"].fetches == fetches
        assert names(await catalogs.snapshot(one)) == ["a.x"]


async def test_a_deleted_version_is_forgotten() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs() as catalogs:
        one, two = version(entry("a")), version(entry("a"), number=2)
        await catalogs.snapshot(one)
        await catalogs.snapshot(two)
        catalogs.forget("default", "ops", 1)
        assert catalogs.current(one) is None
        assert catalogs.current(two) is not None
        catalogs.forget("default", "ops")
        assert catalogs.current(two) is None


async def test_the_loop_asks_what_is_due_and_ends_when_cancelled() -> None:
    here = world(a=Listing(tools=(a_tool("x"),)))
    async with here.catalogs() as catalogs:
        heard = asyncio.Event()
        await catalogs.snapshot(version(entry("a")))
        catalogs.subscribe(lambda *_: heard.set())
        loop = asyncio.create_task(catalogs.run())
        here.upstreams["a"].listing = Listing(tools=(a_tool("x"), a_tool("y")))
        catalogs.on_change(SPEC, Change("tools"))
        await asyncio.wait_for(heard.wait(), 10)
        loop.cancel()
        await asyncio.wait([loop])
        assert loop.cancelled()


async def test_ten_thousand_tools_stay_small() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "What to look for."}}}
    made = [a_tool(f"tool_{n}", inputSchema=schema) for n in range(10_000)]
    here = world(a=Listing(tools=tuple(made)))
    async with here.catalogs(first_wait_s=60.0) as catalogs:
        snapshot = await catalogs.snapshot(version(entry("a")))
        assert len(names(snapshot)) == 10_000
        text = sum(len(tool.body) for _, tool in snapshot.listed())
        assert len({id(tool.meta) for _, tool in snapshot.listed()}) == 1
        assert text < 4 * 1024 * 1024
        assert len(msgspec.json.decode(b"[" + snapshot.encoded_tools("safe") + b"]")) == 10_000
