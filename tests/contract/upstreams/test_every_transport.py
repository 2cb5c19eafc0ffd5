"""What an upstream promises, whatever it is reached by."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from tests.contract.upstreams.conftest import Asking, open_site, principal, text_of, until
from tests.kit import Tool

from toolcrib import errors
from toolcrib.upstreams.upstream import Background, Change, Complete, InputRequired, Limits

pytestmark = pytest.mark.anyio

NOBODY = Background(principal())


async def test_fetch_lists_everything_the_upstream_offers(transport: str) -> None:
    tools = [Tool(f"tool-{n}") for n in range(7)]
    offered = {"resources": ("twin://a",), "prompts": ("greet",), "instructions": "Be kind.", "page_size": 3}
    async with open_site(transport, tools, **offered) as site:
        listing = await site.upstream.fetch(NOBODY)
    assert [tool["name"] for tool in listing.tools] == [tool.name for tool in tools]
    assert [resource["uri"] for resource in listing.resources] == ["twin://a"]
    assert [prompt["name"] for prompt in listing.prompts] == ["greet"]
    assert len(listing.resource_templates) == 1
    assert listing.instructions == "Be kind."
    assert listing.server_info["name"] == "twin"
    assert listing.partial is None
    assert listing.era == ("modern" if "modern" in transport else "legacy")


async def test_fetch_lists_what_is_offered_to_a_client_that_declares_more(transport: str) -> None:
    declaring = Background(principal(), {"sampling": {}})
    async with open_site(transport, [Tool("plain"), Tool("extra", needs="sampling")]) as site:
        less, more = await site.upstream.fetch(NOBODY), await site.upstream.fetch(declaring)
    assert [tool["name"] for tool in less.tools] == ["plain"]
    assert [tool["name"] for tool in more.tools] == ["plain", "extra"]


async def test_a_call_returns_the_result_as_the_upstream_wrote_it(transport: str) -> None:
    async with open_site(transport, [Tool("echo")]) as site:
        outcome = await site.call("echo", arguments={"text": 'naïve "quotes" \u2028'})
    assert text_of(outcome) == 'naïve "quotes" \u2028'


async def test_already_encoded_arguments_are_spliced(transport: str) -> None:
    async with open_site(transport, [Tool("echo")]) as site:
        params = {"name": "echo", "arguments": msgspec.Raw(b'{"text": "raw"}')}
        assert text_of(await site.upstream.request("tools/call", params, Asking())) == "raw"


async def test_an_error_result_is_a_result(transport: str) -> None:
    async with open_site(transport, [Tool("fails", does="error")]) as site:
        outcome = await site.call("fails")
    assert isinstance(outcome, Complete)
    assert json.loads(outcome.result)["isError"] is True


async def test_a_json_rpc_error_is_refused_with_its_code(transport: str) -> None:
    async with open_site(transport, [Tool("no", does="refuse")]) as site:
        with pytest.raises(errors.UpstreamRefused) as refused:
            await site.call("no")
    assert refused.value.rpc_code == -32602
    assert refused.value.source == "twin"
    assert "principle" in refused.value.message


async def test_progress_reaches_the_exchange_without_our_token(transport: str) -> None:
    asking = Asking()
    async with open_site(transport, [Tool("steps", does="progress", amount=3)]) as site:
        assert text_of(await site.call("steps", asking)) == "done"
    assert asking.heard == [{"progress": step, "total": 3} for step in (1, 2, 3)]


async def test_nobody_hears_progress_who_did_not_ask_for_it(transport: str) -> None:
    asking = Asking(wants_progress=False)
    async with open_site(transport, [Tool("steps", does="progress", amount=3)]) as site:
        await site.call("steps", asking)
    assert asking.heard == []


async def test_log_lines_reach_the_exchange_that_asked_for_them(transport: str) -> None:
    asking, deaf = Asking(log_level="debug"), Asking()
    async with open_site(transport, [Tool("talk", does="log")]) as site:
        await site.call("talk", asking)
        if transport.startswith(("stdio", "sse")):
            await site.call("talk", deaf)
    assert [line["data"] for line in asking.logged] == ["a line"]
    assert deaf.logged == []


async def test_a_cancelled_call_is_cancelled_upstream_and_frees_its_slot(transport: str, tmp_path: Path) -> None:
    count, limits = tmp_path / "count", Limits(concurrent=1, queue_s=2.0)
    tools = [Tool("stuck", does="hang"), Tool("echo")]
    async with open_site(transport, tools, limits=limits, count_file=str(count)) as site:
        await site.call("echo")
        task = asyncio.create_task(site.call("stuck"))
        await until(lambda: "stuck" in count.read_text())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if site.twin is not None:
            await until(lambda: site.twin.script.cancelled)
        assert text_of(await site.call("echo", arguments={"text": "after"})) == "after"


async def test_a_call_that_takes_too_long_times_out(transport: str) -> None:
    async with open_site(transport, [Tool("stuck", does="hang"), Tool("echo")]) as site:
        await site.call("echo")
        with pytest.raises(errors.TimedOut) as late:
            await site.call("stuck", timeout_s=0.2)
        assert late.value.source == "twin"
        assert text_of(await site.call("echo", arguments={"text": "after"})) == "after"


@pytest.mark.parametrize("kind", ["elicit", "sample", "roots"])
async def test_a_pushed_request_is_asked_of_exactly_the_call_it_belongs_to(pushing: str, kind: str) -> None:
    capability = {"elicit": "elicitation", "sample": "sampling", "roots": "roots"}[kind]
    async with open_site(pushing, [Tool("asks", does=kind)]) as site:
        people = [Asking(principal(f"key-{n}"), {capability: {}}, answer={"from": n}) for n in range(3)]
        outcomes = await asyncio.gather(*(site.call("asks", person) for person in people))
    assert [json.loads(text_of(outcome)) for outcome in outcomes] == [{"from": n} for n in range(3)]
    assert all(len(person.asked) == 1 for person in people)


async def test_two_calls_of_one_principal_are_each_asked_their_own_question(pushing: str) -> None:
    async with open_site(pushing, [Tool("asks", does="elicit")]) as site:
        calls = [Asking(capabilities={"elicitation": {}}, answer={"call": n}) for n in range(5)]
        outcomes = await asyncio.gather(*(site.call("asks", call) for call in calls))
    assert [json.loads(text_of(outcome)) for outcome in outcomes] == [{"call": n} for n in range(5)]


async def test_a_push_to_someone_who_declared_nothing_is_refused_not_hung(pushing: str) -> None:
    asking = Asking()
    async with open_site(pushing, [Tool("asks", does="elicit")]) as site:
        outcome = await site.call("asks", asking)
    assert json.loads(text_of(outcome)) == {"refused": -32601}


@pytest.mark.parametrize("transport", ["modern", "modern-stream", "stdio-modern"])
async def test_a_modern_upstream_says_what_input_it_needs(transport: str) -> None:
    asking = Asking(capabilities={"elicitation": {}})
    async with open_site(transport, [Tool("asks", does="elicit")]) as site:
        first = await site.call("asks", asking)
        assert isinstance(first, InputRequired)
        assert first.state == "state-1"
        assert first.requests["q"]["method"] == "elicitation/create"
        answered = {"inputResponses": {"q": {"action": "accept"}}, "requestState": first.state}
        params = {"name": "asks", "arguments": {}, **answered}
        second = await site.upstream.request("tools/call", params, asking)
    assert json.loads(text_of(second)) == {"action": "accept"}


async def test_a_changed_list_is_reported_after_a_fetch(transport: str) -> None:
    tools = [Tool("reveal", does="reveal")]
    async with open_site(transport, tools) as site:
        await site.upstream.fetch(NOBODY)
        if transport.startswith("modern"):
            await until(lambda: "subscriptions/listen" in site.twin.methods)
        await site.call("reveal")
        await until(lambda: Change("tools") in site.changes)
        again = await site.upstream.fetch(NOBODY)
    assert [tool["name"] for tool in again.tools] == ["reveal", "revealed"]


@pytest.mark.parametrize("transport", ["modern", "legacy", "sse"])
async def test_an_updated_resource_is_reported_to_whom_subscribed(transport: str) -> None:
    async with open_site(transport, [Tool("echo")], resources=("twin://a",)) as site:
        await site.upstream.fetch(NOBODY)
        await site.upstream.subscribe("twin://a", NOBODY)
        if transport == "modern":
            await until(lambda: "subscriptions/listen" in site.twin.methods)
        site.twin.script.touch("twin://a")
        await until(lambda: Change("resource", "twin://a") in site.changes)
        await site.upstream.unsubscribe("twin://a", NOBODY)
    if transport != "modern":
        assert "resources/unsubscribe" in site.twin.methods


async def test_other_methods_pass_through(transport: str) -> None:
    async with open_site(transport, [], resources=("twin://a",), prompts=("greet",)) as site:
        read = await site.upstream.request("resources/read", {"uri": "twin://a"}, Asking())
        got = await site.upstream.request("prompts/get", {"name": "greet"}, Asking())
        done = await site.upstream.request("completion/complete", {"ref": {}, "argument": {}}, Asking())
    assert isinstance(read, Complete)
    assert isinstance(got, Complete)
    assert isinstance(done, Complete)
    assert json.loads(done.result)["completion"]["values"] == ["one", "two"]
