"""What an upstream and a client say to each other in mid-call, through the gateway, in every combination of eras."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.interaction.gateway.front_door import (
    BOTH,
    META,
    Box,
    Gate,
    Message,
    entry,
    gate,
    last,
    parsed,
    request,
    routing,
    stateless,
    text_of,
    until,
)
from tests.kit import FaultyUpstream, Tool, faulty_upstream
from tests.kit.running import running
from tests.kit.script import Call, Script

pytestmark = pytest.mark.anyio

EVERYTHING: Message = {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}}
QUESTIONS = {"elicit": "elicitation/create", "sample": "sampling/createMessage", "roots": "roots/list"}
ANSWERS: dict[str, Message] = {
    "elicit": {"action": "accept", "content": {"who": "ada"}},
    "sample": {"role": "assistant", "content": {"type": "text", "text": "four"}, "model": "m"},
    "roots": {"roots": [{"uri": "file:///home/ada"}]},
}
TOOLS = [
    Tool("echo"),
    *(Tool(what, what) for what in QUESTIONS),  # pyright: ignore[reportArgumentType]
    Tool("steps", "progress", 3),
    Tool("chatty", "log"),
    Tool("stuck", "hang"),
    Tool("ask_then_step", "elicit"),
]


class Talkative(Script):
    """Also reports progress and logs a line after its question has been answered."""

    async def _do(self, tool: Tool, call: Call, arguments: Message) -> Message:
        if tool.name != "ask_then_step":
            return await super()._do(tool, call, arguments)
        result = await super()._do(tool, call, arguments)
        if "inputRequests" not in result:
            note = {"progressToken": call.token, "progress": 1}
            await call.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})
            line = {"level": "error", "data": "late"}
            await call.say({"jsonrpc": "2.0", "method": "notifications/message", "params": line})
        return result


@pytest.fixture(scope="module", params=["legacy", "modern"])
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[FaultyUpstream]:
    async with faulty_upstream(TOOLS, eras=(request.param,), resources=("twin://a", "twin://b")) as it:
        it.script.__class__ = Talkative
        yield it


@pytest.fixture(scope="module")
async def box(door: Gate, upstream: FaultyUpstream) -> Box:
    it = await door.box(entry("up", upstream))
    await it.tools()
    return it


async def ask_as_session(box: Box, tool: str, answer: Message) -> Message:
    """A session-era client: the question arrives on the call's stream, its answer goes by a POST of its own."""
    session = await box.session(EVERYTHING)
    body = request("tools/call", {"name": f"up.{tool}", "_meta": {"progressToken": "p"}})
    async with box.events(body, session) as events:
        async for message in events:
            if "method" in message and "id" in message:
                assert message["method"] == QUESTIONS.get(tool, "elicitation/create")
                reply = await box.post({"jsonrpc": "2.0", "id": message["id"], **answer}, session)
                assert reply.status_code == 202
            elif "id" in message:
                return message
    raise AssertionError("the stream ended without an answer")


async def ask_as_stateless(box: Box, tool: str, answer: Message, **more: Any) -> Message:
    """A stateless client: the call comes back unfinished, and is repeated with the answers."""
    params: Message = {"name": f"up.{tool}", **more}
    first = (await box.modern("tools/call", params, capabilities=EVERYTHING))["result"]
    assert first["resultType"] == "input_required"
    assert [question["method"] for question in first["inputRequests"].values()] == [
        QUESTIONS.get(tool, "elicitation/create")
    ]
    said = dict.fromkeys(first["inputRequests"], answer)
    again = {**params, "inputResponses": said, "requestState": first["requestState"]}
    return await box.modern("tools/call", again, capabilities=EVERYTHING)


@pytest.mark.parametrize("what", QUESTIONS)
async def test_questions_reach_clients_of_both_eras(box: Box, what: str) -> None:
    pushed = await ask_as_session(box, what, {"result": ANSWERS[what]})
    assert json.loads(text_of(pushed["result"])) == ANSWERS[what]
    returned = await ask_as_stateless(box, what, ANSWERS[what])
    assert returned["result"]["resultType"] == "complete"
    assert json.loads(text_of(returned["result"])) == ANSWERS[what]


@pytest.mark.parametrize("what", QUESTIONS)
async def test_a_question_to_a_client_that_declared_nothing_is_refused_with_a_typed_error(box: Box, what: str) -> None:
    is_legacy = "legacy" in (await _eras(box))
    for declared in ({}, {"experimental": {}}, dict.fromkeys(EVERYTHING, 5)):
        modern = await box.modern("tools/call", {"name": f"up.{what}"}, capabilities=declared)
        session = await box.session(declared)
        legacy = await box.legacy("tools/call", {"name": f"up.{what}"}, headers=session)
        for answer in (modern, legacy, await box.legacy("tools/call", {"name": f"up.{what}"})):
            if is_legacy:  # nothing was declared to the upstream either, and it says so itself
                assert answer["result"].get("isError") or "refused" in text_of(answer["result"]), answer
            else:
                assert answer["error"]["code"] == -32021, answer
                assert list(answer["error"]["data"]["requiredCapabilities"]) == [QUESTIONS[what].partition("/")[0]]


async def _eras(box: Box) -> tuple[str, ...]:
    return ERAS_OF[box.name]


ERAS_OF: dict[str, tuple[str, ...]] = {}


@pytest.fixture(autouse=True)
def _remember(box: Box, upstream: FaultyUpstream) -> None:
    ERAS_OF[box.name] = upstream.script.behaviour.eras


@pytest.mark.parametrize("reply", [{"error": {"code": -1, "message": "no"}}, {"result": 5}, {"result": []}])
async def test_a_client_that_declines_ends_the_call_and_nothing_else(box: Box, reply: Message) -> None:
    answer = await ask_as_session(box, "elicit", reply)
    assert "error" in answer or "refused" in text_of(answer["result"])
    assert text_of(await box.call("up.echo", {"text": "still here"})) == "still here"


async def test_what_is_said_after_a_question_goes_to_the_request_that_brought_the_answer(box: Box) -> None:
    meta = {"_meta": {"progressToken": "mine", f"{META}/logLevel": "debug"}}
    params = stateless("tools/call", {"name": "up.ask_then_step", **meta}, EVERYTHING)
    headers = routing("tools/call", params)
    first = last(await box.post(request("tools/call", params), headers))["result"]
    answers = dict.fromkeys(first["inputRequests"], ANSWERS["elicit"])
    again = {**params, "inputResponses": answers, "requestState": first["requestState"]}
    messages = parsed(await box.post(request("tools/call", again, 2), headers))
    assert messages[-1]["id"] == 2
    assert json.loads(text_of(messages[-1]["result"])) == ANSWERS["elicit"]
    assert {"notifications/progress", "notifications/message"} == {m["method"] for m in messages[:-1]}
    told = next(m["params"] for m in messages if m.get("method") == "notifications/progress")
    assert told["progressToken"] == "mine"


# --- requestState -----------------------------------------------------------------------------------------------------


async def _unfinished(box: Box, tool: str = "elicit", **arguments: Any) -> tuple[Message, Message]:
    params: Message = {"name": f"up.{tool}", "arguments": arguments}
    first = (await box.modern("tools/call", params, capabilities=EVERYTHING))["result"]
    answers = dict.fromkeys(first["inputRequests"], ANSWERS["elicit"])
    return params, {"inputResponses": answers, "requestState": first["requestState"]}


async def _refusal(box: Box, params: Message) -> Message:
    sent = stateless("tools/call", params, EVERYTHING)
    answer = await box.post(request("tools/call", sent), routing("tools/call", sent))
    assert (answer.status_code, last(answer)["error"]["code"]) == (400, -32602), answer.text
    return last(answer)["error"]


async def test_a_request_state_that_was_tampered_with_is_refused(box: Box, upstream: FaultyUpstream) -> None:
    params, again = await _unfinished(box)
    state: str = again["requestState"]
    executed = upstream.executions["elicit"]
    for at in range(0, len(state), 7):
        other = "A" if state[at] != "A" else "B"
        await _refusal(box, {**params, **again, "requestState": state[:at] + other + state[at + 1 :]})
    for odd in ("", "state-1", "\u00e9", state[:-4], state + state, "A" * 100_000):
        await _refusal(box, {**params, **again, "requestState": odd})
    assert upstream.executions["elicit"] == executed
    finished = await box.modern("tools/call", {**params, **again}, capabilities=EVERYTHING)
    assert finished["result"]["resultType"] == "complete"


async def test_a_request_state_opens_once(box: Box) -> None:
    params, again = await _unfinished(box)
    assert "result" in await box.modern("tools/call", {**params, **again}, capabilities=EVERYTHING)
    error = await _refusal(box, {**params, **again})
    assert "used before" in error["message"]


async def test_a_request_state_belongs_to_one_principal_and_one_request(box: Box, door: Gate) -> None:
    params, again = await _unfinished(box, text="for ada")
    await _refusal(await door.with_key(box), {**params, **again})
    await _refusal(box, {**params, **again, "arguments": {"text": "for bob"}})
    await _refusal(box, {**params, **again, "name": "up.sample"})
    other = await door.with_key(box, act_for_users=True)
    params, again = await _unfinished(other.seen_by("ada"))
    await _refusal(other.seen_by("bob"), {**params, **again})
    await _refusal(other, {**params, **again})
    assert "result" in await other.seen_by("ada").modern("tools/call", {**params, **again}, capabilities=EVERYTHING)


async def test_questions_travel_through_call_tool_too(door: Gate, upstream: FaultyUpstream) -> None:
    box = await door.box(entry("up", upstream), search=True)
    params: Message = {"name": "call_tool", "arguments": {"name": "up.elicit"}}
    first = (await box.modern("tools/call", params, capabilities=EVERYTHING))["result"]
    answers = dict.fromkeys(first["inputRequests"], ANSWERS["elicit"])
    again = {**params, "inputResponses": answers, "requestState": first["requestState"]}
    done = (await box.modern("tools/call", again, capabilities=EVERYTHING))["result"]
    assert json.loads(text_of(done)) == ANSWERS["elicit"]
    assert done["_meta"]["io.toolcrib/tool"]["name"] == "up.elicit"


# --- progress, logging, cancellation ----------------------------------------------------------------------------------


async def test_progress_is_relayed_under_the_clients_own_token(box: Box) -> None:
    for token in ("mine", 7):
        params: Message = {"name": "up.steps", "_meta": {"progressToken": token}}
        for headers, sent in (
            (routing("tools/call", params), stateless("tools/call", params)),
            (await box.session(), params),
            ({"accept": BOTH}, params),
        ):
            messages = parsed(await box.post(request("tools/call", sent), headers))
            told = [m["params"] for m in messages if m.get("method") == "notifications/progress"]
            assert [(t["progressToken"], t["progress"]) for t in told] == [(token, n) for n in (1, 2, 3)]
            assert text_of(messages[-1]["result"]) == "done"
    silent = await box.post(request("tools/call", {"name": "up.steps"}), {"accept": BOTH})
    assert silent.headers["content-type"] == "application/json"


async def test_log_lines_are_relayed_to_those_who_asked_for_their_level(box: Box) -> None:
    session = await box.session()

    async def heard(params: Message, headers: dict[str, str]) -> list[str]:
        messages = parsed(await box.post(request("tools/call", params), headers))
        return [m["params"]["data"] for m in messages if m.get("method") == "notifications/message"]

    assert await heard({"name": "up.chatty"}, session) == []
    assert "result" in await box.legacy("logging/setLevel", {"level": "info"}, headers=session)
    assert await heard({"name": "up.chatty"}, session) == ["a line"]
    await box.legacy("logging/setLevel", {"level": "error"}, headers=session)
    assert await heard({"name": "up.chatty"}, session) == []
    assert (await box.legacy("logging/setLevel", {"level": "loud"}, headers=session))["error"]["code"] == -32602
    for level, lines in (("debug", ["a line"]), ("alert", [])):
        params = stateless("tools/call", {"name": "up.chatty", "_meta": {f"{META}/logLevel": level}})
        assert await heard(params, routing("tools/call", params)) == lines


async def test_a_cancelled_call_is_cancelled_upstream_and_owed_no_answer(box: Box, upstream: FaultyUpstream) -> None:
    session = await box.session()
    for number, batch in (("c1", False), ("c2", True)):
        before = len(upstream.script.cancelled)
        started = upstream.executions["stuck"]
        body = request("tools/call", {"name": "up.stuck"}, number)
        headers = {**session, "mcp-protocol-version": "2025-03-26"} if batch else session
        sent: Any = [body, request("ping", {}, "p")] if batch else body
        call = asyncio.create_task(box.post(sent, headers))
        await until(lambda n=started: upstream.executions["stuck"] > n)
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        assert (await box.post(note, session)).status_code == 202
        answer = await call
        if batch:
            assert [message["id"] for message in parsed(answer)] == ["p"]
        else:
            assert (answer.status_code, answer.content) == (202, b"")
        await until(lambda n=before: len(upstream.script.cancelled) > n)


async def test_a_cancelled_call_that_had_begun_to_stream_just_ends(box: Box, upstream: FaultyUpstream) -> None:
    session = await box.session(EVERYTHING)
    async with box.events(request("tools/call", {"name": "up.elicit"}, "c3"), session) as events:
        assert (await anext(events))["method"] == "elicitation/create"
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c3"}}
        await box.post(note, session)
        assert [message async for message in events] == []


async def test_somebody_elses_session_cannot_cancel_a_call(box: Box, upstream: FaultyUpstream, door: Gate) -> None:
    mine, theirs = await box.session(), await box.session()
    before, started = len(upstream.script.cancelled), upstream.executions["stuck"]
    call = asyncio.create_task(box.post(request("tools/call", {"name": "up.stuck"}, 1), mine))
    await until(lambda: upstream.executions["stuck"] > started)
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    await box.post(note, theirs)
    await box.post(note)
    assert text_of(await box.call("up.echo", {"text": "x"})) == "x"
    assert (call.done(), len(upstream.script.cancelled)) == (False, before)
    await box.http.delete(box.path, params={"api-version": "v1"}, headers=mine)  # the end of a session ends its calls
    assert (await call).status_code == 202
    await until(lambda: len(upstream.script.cancelled) > before)


async def test_closing_the_stream_cancels_upstream(box: Box, upstream: FaultyUpstream) -> None:
    params = stateless("tools/call", {"name": "up.stuck"})
    batch = [request("tools/call", {"name": "up.stuck"}, n) for n in (1, 2)]
    for body, headers in (
        (request("tools/call", params), routing("tools/call", params)),
        (request("tools/call", {"name": "up.stuck"}), await box.session()),
        (request("tools/call", {"name": "up.stuck"}), {}),
        (batch, {}),
    ):
        before, started = len(upstream.script.cancelled), upstream.executions["stuck"]
        wanted = len(body) if isinstance(body, list) else 1
        async with httpx2.AsyncClient(base_url=box.http.base_url, headers=box.http.headers, trust_env=False) as client:
            leaving = replace(box, http=client)
            call = asyncio.create_task(leaving.post(body, headers))  # pyright: ignore[reportArgumentType]
            await until(lambda n=started + wanted: upstream.executions["stuck"] == n)
            call.cancel()
            await asyncio.wait([call])
        await until(lambda n=before + wanted: len(upstream.script.cancelled) == n)


# --- changes ----------------------------------------------------------------------------------------------------------


async def test_changes_reach_listeners_of_both_eras(door: Gate, upstream: FaultyUpstream) -> None:
    box = await door.box(entry("up", upstream))
    await box.tools()
    session = await box.session()
    assert (await box.legacy("resources/subscribe", {"uri": "twin://a"}, headers=session))["result"] == {}
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["twin://a"]}
    listen = stateless("subscriptions/listen", {"notifications": wanted})
    async with (
        box.events(None, {**session, "accept": "text/event-stream"}, "GET") as standing,
        box.events(request("subscriptions/listen", listen, "L"), routing("subscriptions/listen", {})) as listening,
    ):
        acknowledged = await anext(listening)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == wanted
        for uri in ("twin://b", "twin://a"):  # the first is nobody's
            upstream.script.touch(uri)
        heard = [await anext(standing), await anext(listening)]
        assert {message["method"] for message in heard} == {"notifications/resources/updated"}
        assert {message["params"]["uri"] for message in heard} == {"twin://a"}
        assert heard[1]["params"]["_meta"] == {f"{META}/subscriptionId": "L"}
        upstream.set_tools([*TOOLS, Tool("newcomer")])
        for events in (standing, listening):
            async for message in events:  # an update may be told twice: it only says "look again"
                if message["method"] == "notifications/tools/list_changed":
                    break
                assert message["params"]["uri"] == "twin://a"
        assert "up.newcomer" in [tool["name"] for tool in await box.tools()]
    upstream.set_tools(TOOLS)


async def test_a_subscription_to_nothing_is_refused_in_json_rpc(box: Box) -> None:
    for wanted in ({"resourceSubscriptions": ["twin://a", "nowhere://x"]}, None):
        given = {} if wanted is None else {"notifications": wanted}
        params = stateless("subscriptions/listen", given)
        answer = await box.post(request("subscriptions/listen", params), routing("subscriptions/listen", {}))
        assert (last(answer)["id"], last(answer)["error"]["code"]) == (1, -32602)
    params = stateless("subscriptions/listen", {"notifications": {}})
    headers = {**routing("subscriptions/listen", {}), "accept": "application/json"}
    assert (await box.post(request("subscriptions/listen", params), headers)).status_code == 406


async def test_stopping_the_server_ends_streams_in_order(tmp_path: Path, upstream: FaultyUpstream) -> None:
    with running(tmp_path / "crib") as server:
        async with gate(server) as door:
            box = await door.box(entry("up", upstream))
            await box.tools()
            params: Message = {"name": "up.elicit"}
            parked = (await box.modern("tools/call", params, capabilities=EVERYTHING))["result"]
            assert parked["resultType"] == "input_required"
            listen = stateless("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            async with (
                box.events(None, {"accept": "text/event-stream"}, "GET") as standing,
                box.events(
                    request("subscriptions/listen", listen, 5), routing("subscriptions/listen", {})
                ) as listening,
            ):
                await anext(listening)
                stopped = asyncio.create_task(asyncio.to_thread(server.stop))
                assert [message async for message in standing] == []
                ended = [message async for message in listening]
                assert (ended[-1]["id"], ended[-1]["result"]["resultType"]) == (5, "complete")
            assert await stopped in (0, -signal.SIGTERM)
        assert "Traceback" not in server.log.read_text()
