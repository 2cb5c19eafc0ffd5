"""What an upstream can do to us, and what it cannot."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping

import psutil
import pytest
from tests.contract.upstreams.conftest import Asking, open_site, principal, text_of, until
from tests.kit import Tool

from toolcrib import errors
from toolcrib.domain import JsonObject, Principal
from toolcrib.upstreams.pool import UpstreamPool
from toolcrib.upstreams.upstream import Background, Change, Complete, Limits, UpstreamSpec

pytestmark = pytest.mark.anyio

NOBODY = Background(principal())
HTTP = ("modern", "modern-stream", "legacy", "legacy-stream")


@pytest.fixture(params=HTTP)
def http(request: pytest.FixtureRequest) -> str:
    return request.param


async def bearer(who: Principal) -> Mapping[str, str]:
    return {"Authorization": f"Bearer secret-of-{who.key_id}"}


# Nothing is done twice.


async def test_an_upstream_that_dies_after_a_write_call_has_executed_it_once(transport: str, tmp_path) -> None:
    count = tmp_path / "count"
    async with open_site(transport, [Tool("write", does="die"), Tool("echo")], count_file=str(count)) as site:
        await site.call("echo")
        with pytest.raises(errors.Unreachable) as broken:
            await site.call("write")
        assert broken.value.sent is True
        assert text_of(await site.call("echo", arguments={"text": "alive"})) == "alive"
    assert count.read_text().split().count("write") == 1


async def test_a_call_that_is_safe_to_repeat_is_repeated_once(http: str) -> None:
    async with open_site(http, [Tool("read", does="die")]) as site:
        with pytest.raises(errors.Unreachable):
            await site.call("read", safe_to_retry=True)
        assert site.twin.executions["read"] == 2


@pytest.mark.parametrize("transport", ["modern", "legacy"])
async def test_an_answer_that_is_cut_off_is_not_delivered_and_not_asked_for_again(transport: str) -> None:
    async with open_site(transport, [Tool("cut", does="cut", amount=30)]) as site:
        with pytest.raises(errors.Unreachable) as broken:
            await site.call("cut")
        assert broken.value.sent is True
        assert site.twin.executions["cut"] == 1


async def test_a_session_the_upstream_forgot_is_renewed_without_a_failed_call() -> None:
    async with open_site("legacy", [Tool("write")]) as site:
        await site.call("write")
        site.twin.forget_sessions()
        outcomes = await asyncio.gather(*(site.call("write", arguments={"text": str(n)}) for n in range(20)))
        assert sorted(map(text_of, outcomes)) == sorted(map(str, range(20)))
        assert site.twin.executions["write"] == 21
        assert site.twin.methods.count("initialize") == 2


async def test_an_sse_session_the_upstream_forgot_is_renewed() -> None:
    async with open_site("sse", [Tool("write")]) as site:
        await site.call("write")
        site.twin.forget_sessions()
        await until(lambda: not site.twin.sessions)
        assert text_of(await site.call("write", arguments={"text": "again"})) == "again"
        assert site.twin.executions["write"] == 2


@pytest.mark.parametrize(("before", "after"), [("modern", "legacy"), ("legacy", "modern")])
async def test_an_upstream_that_changes_its_era_is_asked_again(before: str, after: str) -> None:
    async with open_site(before, [Tool("write")]) as site:
        await site.call("write")
        site.twin.forget_sessions()
        site.twin.behave(eras=(after,))
        assert text_of(await site.call("write", arguments={"text": "still here"})) == "still here"
        assert site.twin.executions["write"] == 2
        assert (await site.upstream.fetch(NOBODY)).era == after


async def test_a_stream_that_was_closed_early_is_taken_up_where_it_ended() -> None:
    async with open_site("legacy", [Tool("long", does="resume")]) as site:
        assert text_of(await site.call("long")) == "resumed"
        assert site.twin.executions["long"] == 1


async def test_a_push_on_the_session_s_own_stream_finds_the_only_call_it_can_mean() -> None:
    async with open_site("legacy", [Tool("asks", does="elicit")], pushes="session") as site:
        people = [Asking(principal(f"key-{n}"), {"elicitation": {}}, answer={"from": n}) for n in range(3)]
        outcomes = await asyncio.gather(*(site.call("asks", person) for person in people))
        assert [json.loads(text_of(outcome)) for outcome in outcomes] == [{"from": n} for n in range(3)]
        await site.upstream.fetch(NOBODY)
        nobody_declared = await site.call("asks", Asking(), timeout_s=5)
    assert json.loads(text_of(nobody_declared)) == {"refused": -32601}


# Answers never cross.


async def test_fifty_callers_with_secrets_of_their_own_get_their_own_back(http: str) -> None:
    async with open_site(http, [Tool("me", does="whoami")], credentials=bearer) as site:
        people = [Asking(principal(f"key-{n}")) for n in range(50)]
        outcomes = await asyncio.gather(*(site.call("me", person) for person in people))
    assert [text_of(outcome) for outcome in outcomes] == [f"Bearer secret-of-key-{n}" for n in range(50)]


async def test_fifty_callers_on_one_connection_get_their_own_answers(transport: str) -> None:
    tools = [Tool("slow", does="delay", amount=0.02), Tool("echo")]
    async with open_site(transport, tools) as site:
        await site.call("echo")
        texts = [f"secret-{n}" for n in range(50)]
        calls = [
            site.call(tool, Asking(principal(f"key-{n}")), arguments={"text": text})
            for n, (text, tool) in enumerate(zip(texts, itertools.cycle(["slow", "echo"]), strict=False))
        ]
        assert [text_of(outcome) for outcome in await asyncio.gather(*calls)] == texts


@pytest.mark.parametrize("transport", ["modern", "legacy"])
async def test_an_answer_to_another_request_is_never_delivered(transport: str) -> None:
    async with open_site(transport, [Tool("crossed", does="wrong_id")]) as site:
        with pytest.raises(errors.BadAnswer, match="not asked"):
            await site.call("crossed")


@pytest.mark.parametrize("transport", ["sse", "stdio-legacy", "stdio-modern"])
@pytest.mark.parametrize("fault", ["wrong_id", "garbage"])
async def test_what_nobody_asked_for_is_dropped_from_a_shared_line(transport: str, fault: str) -> None:
    async with open_site(transport, [Tool("odd", does=fault), Tool("echo")]) as site:
        with pytest.raises(errors.TimedOut):
            await site.call("odd", timeout_s=0.3)
        assert text_of(await site.call("echo", arguments={"text": "fine"})) == "fine"


async def test_tenants_do_not_share_sessions_and_equal_specs_do() -> None:
    async with open_site("legacy", [Tool("echo")]) as site:
        twins = [UpstreamSpec("twin", site.twin.url, scope=scope) for scope in ("a", "a", "b")]
        for spec in twins:
            await site.pool.upstream(spec).request("tools/call", {"name": "echo", "arguments": {}}, Asking())
        assert len(site.twin.sessions) == 2


# Size, shape and time are bounded.


async def test_garbage_is_a_bad_answer(http: str) -> None:
    async with open_site(http, [Tool("odd", does="garbage")], answers="auto") as site:
        with pytest.raises(errors.BadAnswer):
            await site.call("odd")


async def test_an_answer_over_the_limit_is_refused_and_the_next_call_works(transport: str) -> None:
    limits = Limits(answer_bytes=100_000)
    async with open_site(
        transport, [Tool("big", does="oversize", amount=300_000), Tool("echo")], limits=limits
    ) as site:
        with pytest.raises(errors.AnswerTooLarge) as big:
            await site.call("big")
        assert big.value.source == "twin"
        assert text_of(await site.call("echo", arguments={"text": "fine"})) == "fine"


async def test_a_line_too_long_to_keep_still_fails_the_right_call() -> None:
    limits = Limits(listing_bytes=50_000)
    tools = [Tool("big", does="oversize", amount=300_000), Tool("slow", does="delay", amount=0.2)]
    async with open_site("stdio-legacy", tools, limits=limits) as site:
        slow = asyncio.create_task(site.call("slow", arguments={"text": "mine"}))
        with pytest.raises(errors.AnswerTooLarge):
            await site.call("big")
        assert text_of(await slow) == "mine"


@pytest.mark.parametrize("lists", ["cursor_loop", "endless"])
async def test_lists_without_end_are_cut_and_called_partial(transport: str, lists: str) -> None:
    tools = [Tool(f"t{n}") for n in range(20)]
    async with open_site(transport, tools, lists=lists, limits=Limits(listing_items=100)) as site:
        listing = await site.upstream.fetch(NOBODY)
    assert listing.partial is not None
    assert 0 < len(listing.tools) <= 100


async def test_more_tools_than_the_limit_are_cut() -> None:
    tools = [Tool(f"t{n}") for n in range(12_000)]
    async with open_site("modern", tools) as site:
        listing = await site.upstream.fetch(NOBODY)
    assert len(listing.tools) == 10_000
    assert listing.partial == "tools/list: more than 10000 items"


async def test_a_list_of_too_many_bytes_keeps_the_pages_that_fit() -> None:
    tools = [Tool(f"t{n}", description="d" * 1000) for n in range(100)]
    async with open_site("legacy", tools, page_size=10, limits=Limits(listing_bytes=50_000)) as site:
        listing = await site.upstream.fetch(NOBODY)
    assert listing.partial == "tools/list: too many bytes"
    assert len(listing.tools) == 40


async def test_a_list_that_hangs_times_out(transport: str) -> None:
    async with open_site(transport, [Tool("echo")], lists="hang", limits=Limits(fetch_s=0.2)) as site:
        with pytest.raises(errors.TimedOut):
            await site.upstream.fetch(NOBODY)
        assert text_of(await site.call("echo", arguments={"text": "fine"})) == "fine"


async def test_more_requests_than_slots_wait_and_then_are_turned_away() -> None:
    limits = Limits(concurrent=2, queue_s=0.1)
    async with open_site("modern", [Tool("stuck", does="hang"), Tool("echo")], limits=limits) as site:
        stuck = [asyncio.create_task(site.call("stuck")) for _ in range(2)]
        await until(lambda: site.twin.executions["stuck"] == 2)
        with pytest.raises(errors.Overloaded):
            await site.call("echo")
        for task in stuck:
            task.cancel()
        await asyncio.wait(stuck)
        await site.call("echo")


async def test_the_deadline_stands_still_while_a_person_is_asked(pushing: str) -> None:
    class Slow(Asking):
        async def ask(self, method: str, params: JsonObject) -> JsonObject:
            await asyncio.sleep(0.5)
            return await super().ask(method, params)

    async with open_site(pushing, [Tool("asks", does="elicit"), Tool("stuck", does="hang")]) as site:
        patient = Slow(capabilities={"elicitation": {}})
        await site.upstream.request("ping", {}, patient)
        assert isinstance(await site.call("asks", patient, timeout_s=0.3), Complete)
        with pytest.raises(errors.TimedOut):
            await site.call("stuck", patient, timeout_s=0.3)


# Refusals say who must act.


async def test_a_refused_credential_names_the_upstream_and_not_the_secret(http: str) -> None:
    async with open_site(http, [Tool("echo")], token="right", credentials=bearer) as site:
        with pytest.raises(errors.AuthFailed) as refused:
            await site.call("echo", Asking(principal("wrong")))
        with pytest.raises(errors.AuthFailed):
            await site.upstream.fetch(NOBODY)
        shown = f"{refused.value!r} {refused.value.message} {refused.value.hint} {refused.value.info} {site.spec!r}"
    assert refused.value.source == "twin"
    assert "secret-of" not in shown


async def test_a_redirect_is_reported_not_followed() -> None:
    async with open_site("modern", [Tool("echo")], status=307) as site:
        with pytest.raises(errors.BadAnswer, match=r"elsewhere\.example"):
            await site.call("echo")


async def test_an_unavailable_upstream_says_so_and_is_not_hammered() -> None:
    async with open_site("modern", [Tool("echo")], status=503) as site:
        with pytest.raises(errors.Unreachable):
            await site.call("echo")


async def test_nobody_there_is_unreachable_with_a_hint() -> None:
    async with open_site("modern", [Tool("echo")]) as site:
        await site.twin.stop()
        with pytest.raises(errors.Unreachable) as gone:
            await site.call("echo")
    assert gone.value.sent is False
    assert gone.value.hint


@pytest.mark.parametrize(
    "headers",
    [{"X-Key": "a\r\nX-Evil: 1"}, {"Host": "elsewhere"}, {"X Key": "a"}, {"Mcp-Method": "x"}, {"X-Key": "schlüssel"}],
)
async def test_credential_headers_cannot_break_the_framing(headers: dict[str, str]) -> None:
    async def odd(who: Principal) -> Mapping[str, str]:
        return headers

    async with open_site("modern", [Tool("echo")], credentials=odd) as site:
        with pytest.raises(errors.SourceError) as refused:
            await site.call("echo")
        assert site.twin.script.requests == []
    assert "Evil" not in refused.value.message


@pytest.mark.parametrize(
    "url", ["stdio://undeclared", "ftp://x/", "http://user:pw@127.0.0.1/mcp", "http:///x", "nonsense"]
)
async def test_an_address_that_cannot_be_used_is_refused_by_name(url: str) -> None:
    pool = UpstreamPool()
    with pytest.raises(errors.SourceError) as refused:
        await pool.upstream(UpstreamSpec("odd", url)).fetch(NOBODY)
    assert refused.value.source == "odd"
    assert "pw" not in refused.value.message
    await pool.aclose()


# The breaker.


async def test_a_dead_upstream_is_soon_not_asked_any_more_and_recovers() -> None:
    async with open_site("modern", [Tool("echo")]) as site:
        await site.call("echo")
        await site.twin.stop()
        for _ in range(5):
            with pytest.raises((errors.Unreachable, errors.CircuitOpen)):
                await site.call("echo")
        with pytest.raises(errors.CircuitOpen) as open_:
            await site.call("echo")
        assert open_.value.retry_after_s
        assert "The last time: " in open_.value.message
        with pytest.raises(errors.Unreachable):
            await site.upstream.fetch(NOBODY, insist=True)  # a person wants to know now, and it is really asked
        await site.twin.start()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert text_of(await site.call("echo", arguments={"text": "back"})) == "back"
                    break
                except errors.CircuitOpen as still:
                    await asyncio.sleep(still.retry_after_s or 0.1)


async def test_a_watch_that_broke_is_taken_up_again_and_reports_what_may_have_been_missed(http: str) -> None:
    async with open_site(http, [Tool("echo")]) as site:
        await site.upstream.fetch(NOBODY)
        await site.twin.stop()
        await site.twin.start()
        await until(lambda: Change("tools") in site.changes, within_s=15)


# Nothing leaks.


async def test_five_hundred_quick_cancels_leave_no_task_and_no_socket(http: str) -> None:
    process = psutil.Process()
    async with open_site(http, [Tool("stuck", does="hang"), Tool("echo")], limits=Limits(concurrent=1000)) as site:
        await site.call("echo")
        tasks_before = len(asyncio.all_tasks())
        for round_ in range(10):
            began = site.twin.executions["stuck"]
            calls = [asyncio.create_task(site.call("stuck")) for _ in range(50)]
            await until(lambda n=round_, began=began: site.twin.executions["stuck"] >= began + 5 * n)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
        await until(lambda: len(asyncio.all_tasks()) <= tasks_before + 4, within_s=15)
        await until(lambda: len(process.net_connections()) <= 80, within_s=15)
        assert text_of(await site.call("echo", arguments={"text": "fine"})) == "fine"


async def test_closing_the_pool_leaves_nothing_behind(transport: str) -> None:
    process = psutil.Process()
    before = len(asyncio.all_tasks()), process.num_fds(), set(process.children(recursive=True))
    async with open_site(transport, [Tool("asks", does="elicit"), Tool("echo")]) as site:
        await site.upstream.fetch(NOBODY)
        await site.call("asks", Asking(capabilities={"elicitation": {}}, log_level="info"))
    await until(lambda: len(asyncio.all_tasks()) <= before[0])
    await until(lambda: process.num_fds() <= before[1] + 1)
    await until(lambda: set(process.children(recursive=True)) <= before[2])


async def test_idle_lanes_are_swept_and_the_shared_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.upstreams.link.LANE_IDLE_S", 0.0)
    monkeypatch.setattr("toolcrib.upstreams.pool.SWEEP_S", 0.01)
    async with open_site("legacy", [Tool("echo")]) as site:
        await site.upstream.fetch(NOBODY)
        await site.call("echo", Asking(capabilities={"roots": {}}))
        assert len(site.twin.sessions) == 2
        site.pool.start_sweeping()
        await until(lambda: len(site.twin.sessions) == 1)
        assert site.twin.session_capabilities[next(iter(site.twin.sessions))] == {}
        await site.call("echo")


async def test_a_retired_upstream_is_closed_and_can_be_opened_again() -> None:
    async with open_site("legacy", [Tool("echo")]) as site:
        await site.call("echo")
        await site.pool.retire(site.spec)
        assert len(site.twin.deleted_sessions) == 1
        assert text_of(await site.call("echo", arguments={"text": "anew"})) == "anew"


async def test_a_legacy_session_is_ended_when_the_pool_closes() -> None:
    async with open_site("legacy", [Tool("echo")]) as site:
        await site.call("echo")
        await site.pool.aclose()
        assert len(site.twin.deleted_sessions) == 1


# What the modern era carries in headers.


async def test_names_and_annotated_arguments_are_mirrored_as_headers() -> None:
    from toolcrib.catalog.schemas import header_map

    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        },
    }
    async with open_site("modern", [Tool("höhe", does="headers", schema=schema)]) as site:
        arguments = {"region": "zürich", "deep": {"n": 7}}
        outcome = await site.call("höhe", arguments=arguments, mirror=header_map(schema))
    sent = json.loads(text_of(outcome))
    assert sent["mcp-method"] == "tools/call"
    assert sent["mcp-name"] == "=?base64?aMO2aGU=?="
    assert sent["mcp-param-region"] == "=?base64?esO8cmljaA==?="
    assert sent["mcp-param-n"] == "7"
    assert sent["accept-encoding"] == "identity"
