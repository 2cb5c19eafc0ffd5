"""The MCP endpoint as the seed and the specification describe it, by plain HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.interaction.gateway.front_door import (
    BOTH,
    LEGACY,
    MODERN,
    Box,
    Gate,
    entry,
    last,
    names_of,
    parsed,
    request,
    routing,
    stateless,
    text_of,
)
from tests.kit import Tool, faulty_upstream

pytestmark = pytest.mark.anyio

TOOLS = [
    Tool("get_info", description="Says the text back."),
    Tool("write it", description="A name that is not safe."),
    Tool("late", "delay", 0.2),
    Tool("mirrored", schema={"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}),
]


@pytest.fixture(scope="module")
async def box(door: Gate) -> AsyncIterator[Box]:
    async with faulty_upstream(TOOLS, prompts=("greet",), resources=("twin://a",)) as upstream:
        yield await door.box(entry("myserver", upstream))


async def test_the_seeds_curl_sequence_works_as_written(box: Box) -> None:
    curl = {"accept": "*/*", "foundry-features": "Toolboxes=V1Preview"}
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "debug", "version": "1.0.0"}}
    first = await box.post(request("initialize", hello), curl)
    assert first.headers["content-type"] == "application/json"
    assert first.json()["result"]["protocolVersion"] == "2025-03-26"
    session = {**curl, "mcp-session-id": first.headers["mcp-session-id"]}
    told = await box.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    assert (told.status_code, told.content) == (202, b"")
    tools = (await box.post(request("tools/list", {}, 2), session)).json()["result"]["tools"]
    assert names_of(tools) == [f"myserver.{tool.name}" for tool in sorted(TOOLS, key=lambda tool: tool.name)]
    for tool in tools:
        assert tool["description"]
        assert "properties" in tool["inputSchema"]
        assert tool["_meta"]["tool_configuration"]["type"] == "mcp"
        assert tool["_meta"]["tool_configuration"]["server_label"] == "myserver"
        assert tool["_meta"]["tool_configuration"]["require_approval"] == "never"
    call = request("tools/call", {"name": "myserver.get_info", "arguments": {"text": "hi"}}, 3)
    answer = (await box.post(call, session)).json()
    assert (answer["id"], text_of(answer["result"])) == (3, "hi")
    for without in (request("tools/list"), call):  # the session was never needed
        assert "result" in (await box.post(without, curl)).json()


@pytest.mark.parametrize("version", LEGACY)
async def test_every_session_era_version_is_spoken_on_the_same_url(box: Box, version: str) -> None:
    session = await box.session(version=version)
    answer = await box.post(request("initialize", {"protocolVersion": version, "capabilities": {}}))
    assert last(answer)["result"]["protocolVersion"] == version
    for headers in (session, {"mcp-protocol-version": version}):
        assert len((await box.legacy("tools/list", headers=headers))["result"]["tools"]) == 4
        assert text_of((await box.legacy("tools/call", _call("hello"), headers=headers))["result"]) == "hello"


async def test_an_unknown_version_in_initialize_is_answered_with_one_we_speak(box: Box) -> None:
    for asked in ("1999-01-01", MODERN, "nonsense"):
        answer = await box.post(request("initialize", {"protocolVersion": asked, "capabilities": {}}))
        assert last(answer)["result"]["protocolVersion"] == "2025-11-25"


async def test_the_stateless_era_is_spoken_on_the_same_url(box: Box) -> None:
    found = (await box.modern("server/discover"))["result"]
    assert MODERN in found["supportedVersions"]
    assert (found["resultType"], found["cacheScope"]) == ("complete", "private")
    listed = (await box.modern("tools/list"))["result"]
    assert (listed["resultType"], listed["cacheScope"], len(listed["tools"])) == ("complete", "private", 4)
    assert listed["ttlMs"] > 0
    called = (await box.modern("tools/call", _call("hello")))["result"]
    assert (called["resultType"], text_of(called)) == ("complete", "hello")
    read = (await box.modern("resources/read", {"uri": "twin://a"}))["result"]
    assert {"resultType", "ttlMs", "cacheScope", "contents"} <= set(read)
    answer = await box.post(request("tools/list", stateless("tools/list")), routing("tools/list", {}))
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "no/such", "resources/subscribe"])
async def test_an_unknown_method_is_404_in_the_stateless_era(box: Box, method: str) -> None:
    answer = await box.post(request(method, stateless(method)), routing(method, {}))
    assert (answer.status_code, last(answer)["error"]["code"]) == (404, -32601)


async def test_an_unknown_method_is_200_in_the_session_era(box: Box) -> None:
    assert (await box.legacy("no/such"))["error"]["code"] == -32601
    assert (await box.legacy("server/discover"))["error"]["code"] == -32601


async def test_an_unsupported_version_is_400_and_lists_the_supported_ones(box: Box) -> None:
    for verb in ("POST", "GET"):
        headers = {**box.headers, "mcp-protocol-version": "2031-01-01", "accept": BOTH}
        body = json.dumps(request("tools/list")).encode() if verb == "POST" else None
        answer = await box.http.request(verb, box.path, content=body, headers=headers, params={"api-version": "v1"})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, -32022)
        assert {*LEGACY, MODERN} <= set(error["data"]["supported"])
        assert error["data"]["requested"] == "2031-01-01"


async def test_batches_belong_to_one_version_only(box: Box) -> None:
    batch = [
        request("tools/list", {}, "a"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("tools/call", _call("hi"), 7),
        request("initialize", {"protocolVersion": "2025-03-26", "capabilities": {}}, 8),
        {"jsonrpc": "2.0", "id": 9},
        5,
    ]
    for headers in ({}, {"mcp-protocol-version": "2025-03-26"}):
        answers = parsed(await box.post(batch, headers))  # pyright: ignore[reportArgumentType]
        by_id = {answer["id"]: answer for answer in answers}
        assert len(by_id["a"]["result"]["tools"]) == 4
        assert text_of(by_id[7]["result"]) == "hi"
        assert by_id[8]["error"]["code"] == -32600
        assert by_id[9]["error"]["code"] == -32600
        assert by_id[None]["error"]["code"] == -32600
    only_notes = await box.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert (only_notes.status_code, only_notes.content) == (202, b"")
    for version in (*LEGACY[1:], MODERN):
        refused = await box.post(batch, {"mcp-protocol-version": version})  # pyright: ignore[reportArgumentType]
        assert (refused.status_code, last(refused)["error"]["code"]) == (400, -32600)
    assert (await box.post(b"[]")).json()["error"]["code"] == -32600
    assert (await box.post([request("ping", {}, n) for n in range(101)])).status_code == 400


async def test_the_answer_is_json_or_events_as_the_client_takes_it(box: Box) -> None:
    body = request("tools/call", _call("hi"))
    for accept in ("application/json", BOTH, "*/*", "application/*"):
        assert (await box.post(body, {"accept": accept})).headers["content-type"] == "application/json"
    streamed = await box.post(body, {"accept": "text/event-stream"})
    assert streamed.headers["content-type"] == "text/event-stream"
    assert streamed.headers["x-request-id"]
    assert text_of(last(streamed)["result"]) == "hi"
    assert (await box.post(body, {"accept": "image/png"})).status_code == 406


async def test_what_the_seed_answers_with_500_is_answered_properly(box: Box) -> None:
    assert (await box.legacy("ping"))["result"] == {}
    assert names_of((await box.legacy("prompts/list"))["result"]["prompts"]) == ["myserver.greet"]
    got = await box.legacy("prompts/get", {"name": "myserver.greet"})
    assert got["result"]["messages"][0]["content"]["text"] == "greet"
    assert (await box.http.get(box.path, params={"api-version": "v1"}, headers={"accept": "*/*"})).status_code == 406
    assert (await box.http.delete(box.path, params={"api-version": "v1"})).status_code == 400
    for verb in ("GET", "DELETE"):
        headers = {"mcp-protocol-version": MODERN, "accept": BOTH, "mcp-session-id": "x"}
        answer = await box.http.request(verb, box.path, params={"api-version": "v1"}, headers=headers)
        assert answer.status_code == 405


async def test_a_deleted_session_is_over(box: Box) -> None:
    session = await box.session()
    gone = await box.http.delete(box.path, params={"api-version": "v1"}, headers=session)
    assert gone.status_code == 204
    answer = await box.post(request("tools/list"), session)
    assert answer.status_code == 404  # so that the client begins a new one
    forgotten = {**session, "mcp-session-id": "0" * 32}  # from before a restart
    assert len((await box.legacy("tools/list", headers=forgotten))["result"]["tools"]) == 4


async def test_a_session_belongs_to_its_principal(box: Box, door: Gate) -> None:
    session = await box.session()
    other = await door.with_key(box)
    assert (await other.post(request("tools/list"), session)).status_code == 404


async def test_one_message_can_be_sent_to_the_default_version(box: Box) -> None:
    path = f"toolboxes/{box.name}:invoke_mcp"
    answer = await box.http.post(path, json=request("tools/list"), params={"api-version": "v1"})
    assert len(answer.json()["result"]["tools"]) == 4


async def test_a_versioned_endpoint_serves_that_version_until_it_is_promoted(door: Gate) -> None:
    async with faulty_upstream([Tool("one")]) as first, faulty_upstream([Tool("two")]) as second:
        box = await door.box(entry("s", first))
        await door.box(entry("s", second), name=box.name)

        async def served(version: str | None) -> list[str]:
            path = f"toolboxes/{box.name}/versions/{version}/mcp" if version else box.path
            answer = await box.http.post(path, json=request("tools/list"), params={"api-version": "v1"})
            return names_of(answer.json()["result"]["tools"])

        assert (await served(None), await served("1"), await served("2")) == (["s.one"], ["s.one"], ["s.two"])
        promoted = await box.http.patch(
            f"toolboxes/{box.name}", json={"default_version": "2"}, params={"api-version": "v1"}
        )
        assert promoted.status_code == 200
        assert (await served(None), await served("1")) == (["s.two"], ["s.one"])
        for missing in ("3", "x", "0"):
            path = f"toolboxes/{box.name}/versions/{missing}/mcp"
            answer = await box.http.post(path, json=request("tools/list"), params={"api-version": "v1"})
            assert answer.status_code in (400, 404)
            assert "code" in answer.json()["error"]


async def test_failures_before_a_message_is_accepted_are_envelopes(box: Box, door: Gate) -> None:
    body = json.dumps(request("tools/list")).encode()
    no_version = await box.http.post(box.path, content=body)
    assert (no_version.status_code, no_version.json()["error"]["param"]) == (400, "api-version")
    for odd in ({"names": "dots"}, {"expose": "everything"}, {"names": ""}):
        answer = await box.post(body, **odd)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, next(iter(odd)))
    unknown = await box.http.post("toolboxes/nowhere/mcp", content=body, params={"api-version": "v1"})
    assert unknown.status_code == 404
    anonymous = await box.post(body, {"authorization": "Bearer wrong-0123456789abcdef"})
    assert anonymous.status_code == 401
    viewer = await door.with_key(box, "viewer")
    assert (await viewer.post(body)).status_code == 403


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("dot", ["myserver.get_info", "myserver.write it"]),
        ("triple", ["myserver___get_info", "myserver___write it"]),
        ("safe", ["myserver_get_info", "myserver_write_it"]),
    ],
)
async def test_names_are_shown_in_the_chosen_form_and_accepted_in_all(box: Box, form: str, shown: list[str]) -> None:
    names = names_of(await box.tools(names=form))
    assert set(shown) <= set(names)
    prompts = (await box.legacy("prompts/list", names=form))["result"]["prompts"]
    assert names_of(prompts) == [shown[0].replace("get_info", "greet")]
    accepted = ["myserver.get_info", "myserver___get_info", "myserver__get_info", "myserver_get_info", "get_info"]
    for spelled in [*accepted, shown[0]]:
        assert text_of(await box.call(spelled, {"text": "x"}, names=form)) == "x"


async def test_an_unknown_name_gets_the_nearest_ones(box: Box) -> None:
    for typo in ("myserver.get_inof", "myserv.get_info", "get-info"):
        error = (await box.legacy("tools/call", {"name": typo, "arguments": {}}))["error"]
        assert error["code"] == -32602
        assert "myserver.get_info" in error["data"]["nearest"]
    modern = await box.post(
        request("tools/call", stateless("tools/call", {"name": "nope", "arguments": {}})),
        routing("tools/call", {"name": "nope"}),
    )
    assert (modern.status_code, last(modern)["error"]["code"]) == (400, -32602)


async def test_a_bare_name_that_means_two_tools_is_ambiguous_and_names_both(door: Gate) -> None:
    async with faulty_upstream([Tool("same")]) as one, faulty_upstream([Tool("same")]) as two:
        box = await door.box(entry("a", one), entry("b", two))
        error = (await box.legacy("tools/call", {"name": "same"}))["error"]
        assert sorted(error["data"]["nearest"]) == ["a.same", "b.same"]
        await box.call("b.same")
        assert (one.executions["same"], two.executions["same"]) == (0, 1)


def _call(text: str) -> dict[str, Any]:
    return {"name": "myserver.get_info", "arguments": {"text": text}}


Mutation = dict[str, str | None]
GOOD = routing("tools/call", {"name": "myserver.get_info"})
DISAGREEMENTS: list[Mutation] = [
    {"mcp-method": "tools/list"},
    {"mcp-method": None},
    {"mcp-method": "TOOLS/CALL"},
    {"mcp-name": None},
    {"mcp-name": "get_info"},
    {"mcp-name": "myserver.get_info2"},
    {"mcp-name": "=?base64?" + base64.b64encode(b"other").decode() + "?="},
    {"mcp-name": "=?base64?!!!!?="},
    {"mcp-name": "=?base64?" + base64.b64encode(b"\xff\xfe").decode() + "?="},
    {"mcp-param-region": "mars"},
]


@pytest.mark.parametrize("lie", DISAGREEMENTS, ids=str)
async def test_headers_that_disagree_with_the_body_are_refused(box: Box, lie: Mutation) -> None:
    name = "myserver.mirrored" if "mcp-param-region" in lie else "myserver.get_info"
    params = stateless("tools/call", {"name": name, "arguments": {"region": "earth"}})
    headers = {k: v for k, v in {**GOOD, "mcp-name": name, **lie}.items() if v is not None}
    answer = await box.post(request("tools/call", params), headers)
    assert (answer.status_code, last(answer)["error"]["code"]) == (400, -32020)
    assert last(answer)["id"] == 1


async def test_headers_that_agree_in_another_spelling_are_accepted(box: Box) -> None:
    name = "myserver.get_info"
    coded = "=?base64?" + base64.b64encode(name.encode()).decode() + "?="
    answer = await box.modern("tools/call", _call("x"), headers={"mcp-name": coded})
    assert text_of(answer["result"]) == "x"
    mirrored = {"name": "myserver.mirrored", "arguments": {"region": "earth"}}
    assert "result" in await box.modern("tools/call", mirrored, headers={"mcp-param-region": "earth"})
    assert (await box.modern("tools/call", mirrored))["error"]["code"] == -32020  # a client must mirror


@pytest.mark.parametrize(
    "twice",
    [
        ("mcp-method", "tools/call"),
        ("mcp-name", "myserver.get_info"),
        ("mcp-protocol-version", MODERN),
        ("mcp-protocol-version", "2025-06-18"),
        ("mcp-param-region", "earth"),
    ],
    ids=str,
)
async def test_a_routing_header_sent_twice_is_refused(box: Box, twice: tuple[str, str]) -> None:
    name = "myserver.mirrored" if twice[0] == "mcp-param-region" else "myserver.get_info"
    params = stateless("tools/call", {"name": name, "arguments": {"region": "earth"}})
    raw = httpx2.Headers([*{**GOOD, "mcp-name": name, "mcp-param-region": "earth"}.items(), twice])
    body = json.dumps(request("tools/call", params)).encode()
    answer = await box.http.post(box.path, content=body, headers=raw, params={"api-version": "v1"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({}, -32602),
        ({"io.modelcontextprotocol/protocolVersion": MODERN}, -32602),
        (
            {
                "io.modelcontextprotocol/protocolVersion": "2025-11-25",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
            -32020,
        ),
    ],
)
async def test_a_stateless_request_says_who_it_is_in_the_body_too(box: Box, meta: dict[str, Any], code: int) -> None:
    answer = await box.post(request("tools/list", {"_meta": meta}), routing("tools/list", {}))
    assert (answer.status_code, last(answer)["error"]["code"]) == (400, code)


async def test_a_version_in_the_body_alone_is_a_disagreement(box: Box) -> None:
    answer = await box.post(request("tools/list", stateless("tools/list")))
    assert (answer.status_code, last(answer)["error"]["code"]) == (400, -32020)
