"""Seed 002, sentence by sentence: when schemas are held back, what stays visible, and what a search reveals."""

import json
from typing import Any

import pytest

from toolcrib.client import Call, DeferrablePolicy, DeferredTools, Found, Tool
from toolcrib.errors import InvalidPayload, NotFound

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def tool(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description or f"Does {name}.", "inputSchema": SCHEMA, **more}


def many(count: int) -> list[dict[str, Any]]:
    return [tool(f"tool_{number:02}") for number in range(count)]


def stubs(deferred: DeferredTools, session: str = "s", **how: Any) -> set[str]:
    return {listed.name for listed in deferred.turn(session).listed(**how) if listed.is_stub}


@pytest.mark.parametrize(("count", "is_active"), [(14, False), (15, True), (16, True)])
def test_deferral_starts_when_the_agents_own_tools_meet_the_threshold(count: int, is_active: bool) -> None:
    deferred = DeferredTools(many(count))
    assert deferred.is_active is is_active
    assert len(stubs(deferred)) == (count if is_active else 0)


def test_below_the_threshold_the_list_is_sent_unchanged_and_nothing_is_said() -> None:
    deferred = DeferredTools(many(3))
    assert [listed.as_mcp() for listed in deferred.turn("s").listed()] == many(3)
    assert deferred.note == ""


def test_a_stub_keeps_name_and_description_and_tool_search_keeps_its_schema() -> None:
    *listed, search = DeferredTools(many(15)).turn("s").listed()
    assert [(t.name, t.description) for t in listed] == [(t["name"], t["description"]) for t in many(15)]
    assert all(t.schema == {"type": "object", "properties": {}} for t in listed)
    assert search.name == "tool_search"
    assert search.schema["required"] == ["query"]


def test_policies_decide_per_tool() -> None:
    tools = [*many(15), tool("todos", deferrable="never"), tool("rare", deferrable=DeferrablePolicy.ALWAYS)]
    assert stubs(DeferredTools(tools)) == {t["name"] for t in many(15)} | {"rare"}
    assert stubs(DeferredTools(tools, threshold=100)) == {"rare"}


def test_pinned_tools_of_a_toolbox_stay_loaded() -> None:
    pinned = [
        tool("a", _meta={"com.microsoft.foundry/tool_visibility": "auto_pinned"}),
        tool("b", _meta={"anthropic/alwaysLoad": True}),
    ]
    assert not stubs(DeferredTools([*many(15), *pinned])) & {"a", "b"}


def test_never_defer_acts_like_the_never_policy() -> None:
    assert "tool_03" not in stubs(DeferredTools(many(15), never_defer=["tool_03"]))


def test_a_search_reveals_what_it_returns_for_the_rest_of_that_session_only() -> None:
    deferred = DeferredTools(many(15), ranking="keyword")
    found = deferred.turn("a").search("tool_03")
    assert [t.schema for t in found.tools] == [SCHEMA]
    assert stubs(deferred, "a") == stubs(deferred, "b") - {"tool_03"}
    deferred.turn("a").search("tool_04")
    assert stubs(deferred, "a") == stubs(deferred, "b") - {"tool_03", "tool_04"}


def test_one_note_tells_the_model_to_query_the_exact_name_and_stubs_do_not() -> None:
    deferred = DeferredTools(many(15))
    assert "exact name" in deferred.note
    assert not any("tool_search" in json.dumps(t.as_mcp()) for t in deferred.turn("s").listed()[:-1])


def test_search_considers_only_the_tools_visible_this_turn(ranking: Any) -> None:
    turn = DeferredTools(many(15), ranking=ranking).turn("s", visible=["tool_01", "tool_02"])
    assert {t.name for t in turn.search("tool").tools} <= {"tool_01", "tool_02"}
    assert turn.search("").names == ("tool_01", "tool_02")
    with pytest.raises(NotFound):
        turn.route("tool_03", {})


@pytest.fixture(params=["keyword", "engine"])
def ranking(request: pytest.FixtureRequest) -> str:
    return request.param


def test_an_empty_query_lists_names_and_reveals_nothing(ranking: Any) -> None:
    deferred = DeferredTools(many(15), ranking=ranking)
    answer = json.loads(deferred.turn("s").search("  ").text)
    assert answer["tools"] == []
    assert answer["available_tools"] == [t["name"] for t in many(15)]
    assert len(stubs(deferred)) == 15


def test_no_match_returns_the_catalogue_of_names_without_schemas(ranking: Any) -> None:
    answer = json.loads(DeferredTools(many(15), ranking=ranking).turn("s").search("zqxj").text)
    assert answer["tools"] == []
    assert len(answer["available_tools"]) == 15
    assert "No tool matches 'zqxj'" in answer["message"]


def test_a_catalogue_too_long_to_read_is_cut_and_says_so() -> None:
    answer = json.loads(DeferredTools(many(500)).turn("s").search("").text)
    assert len(answer["available_tools"]) == 400
    assert "400 of 500" in answer["message"]


def test_at_most_eight_tools_are_returned_and_revealed(ranking: Any) -> None:
    deferred = DeferredTools(many(30), ranking=ranking)
    assert len(deferred.turn("s").search("does tool").tools) <= 8
    assert len(stubs(deferred)) >= 22


def test_the_tool_a_request_forces_is_sent_whole() -> None:
    assert stubs(DeferredTools(many(15)), forced="tool_03") == stubs(DeferredTools(many(15))) - {"tool_03"}


def test_without_a_callable_loader_everything_is_sent_whole() -> None:
    listed = DeferredTools(many(15)).turn("s").listed(can_search=False)
    assert [t.as_mcp() for t in listed] == many(15)


def test_a_list_that_brings_its_own_tool_search_is_left_alone() -> None:
    deferred = DeferredTools([*many(20), tool("tool_search"), tool("call_tool")])
    assert not deferred.is_active
    assert "`call_tool`" in deferred.note
    assert deferred.turn("s").route("call_tool", {"name": "x"}) == Call("call_tool", {"name": "x"})


def test_ten_thousand_sessions_stay_within_the_bound_and_the_oldest_are_forgotten() -> None:
    deferred = DeferredTools(many(15), ranking="keyword", max_sessions=4096)
    deferred.turn("kept").search("tool_00")
    for number in range(10_000):
        deferred.turn(f"s{number}").search("tool_01")
        deferred.turn("kept").listed()
    assert len(deferred.revealed) == 4096
    assert "tool_00" not in stubs(deferred, "kept")
    assert "tool_01" in stubs(deferred, "s0")
    assert "tool_01" not in stubs(deferred, "s9999")


def test_looking_at_a_session_does_not_create_one() -> None:
    deferred = DeferredTools(many(15))
    deferred.turn("s").listed()
    assert len(deferred.revealed) == 0


# --- the bridge ---------------------------------------------------------------------------------------------------


def test_a_bridge_lists_the_same_bytes_whatever_was_searched() -> None:
    deferred = DeferredTools(many(15), never_defer=["tool_03"], mode="bridge", ranking="keyword")
    before = [t.as_mcp() for t in deferred.turn("s").listed()]
    assert [t["name"] for t in before] == ["tool_03", "tool_search", "call_tool"]
    deferred.turn("s").search("tool_01")
    assert [t.as_mcp() for t in deferred.turn("s").listed()] == before


def test_a_bridges_search_says_what_is_behind_it_and_nothing_that_is_not_visible() -> None:
    deferred = DeferredTools(many(60), mode="bridge")
    assert "tool_00, tool_01" in deferred.turn("s").listed()[0].description
    assert "and 20 more" in deferred.turn("s").listed()[0].description
    seen = deferred.turn("s", visible=["tool_05", "tool_06"]).listed()[0].description
    assert "tool_05, tool_06." in seen
    assert "tool_00" not in seen


def test_a_watched_tool_is_never_hidden_behind_the_bridge() -> None:
    watched = Tool("pay", "Pays.", SCHEMA, is_watched=True)
    assert "pay" in {t.name for t in DeferredTools([*many(15), watched], mode="bridge").turn("s").listed()}
    assert "pay" in stubs(DeferredTools([*many(15), watched]))


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "tool_01", "arguments": {"path": "p"}},
        {"name": "tool_01", "arguments": '{"path": "p"}'},
        '{"name": "tool_01", "arguments": {"path": "p"}}',
        {"tool_name": "tool_01", "arguments": {"path": "p"}},
        {"arguments": {"name": "tool_01", "arguments": {"path": "p"}}},
        {"arguments": {"tool_name": "tool_01", "path": "p"}},
        {"arguments": '{"name": "tool_01", "path": "p"}'},
        {"name": "tool_01", "path": "p"},
    ],
)
def test_call_tool_understands_the_common_slips(arguments: Any) -> None:
    deferred = DeferredTools(many(15), mode="bridge")
    assert deferred.turn("s").route("call_tool", arguments) == Call("tool_01", {"path": "p"})


def test_a_tools_own_argument_called_name_is_not_taken_for_the_tools_name() -> None:
    deferred = DeferredTools(many(15), mode="bridge")
    call = {"name": "tool_01", "arguments": {"name": "tool_02"}}
    assert deferred.turn("s").route("call_tool", call) == Call("tool_01", {"name": "tool_02"})


@pytest.mark.parametrize("arguments", [{}, {"name": "tool_1"}, "not json", [], None, {"arguments": "not json"}])
def test_a_call_of_no_known_tool_is_refused_with_the_way_out(arguments: Any) -> None:
    with pytest.raises(NotFound) as caught:
        DeferredTools(many(15), mode="bridge").turn("s").route("call_tool", arguments)
    assert caught.value.hint == "Call tool_search to see what is available."


def test_a_hidden_tool_may_still_be_called_by_its_name() -> None:
    turn = DeferredTools(many(15), mode="bridge").turn("s")
    assert turn.route("tool_01", '{"path": "p"}') == Call("tool_01", {"path": "p"})
    assert isinstance(turn.route("tool_search", {}), Found)


# --- construction and configuration -------------------------------------------------------------------------------


def test_the_seeds_configuration_is_taken_verbatim() -> None:
    assert DeferredTools.from_config('{ "capabilities": ["tool_search"]}', many(15)).is_active
    config = """{ "capabilities": { "tool_search": { "threshold": 20, "never_defer":
        ["read_file", "write_file", "edit_file", "list_directory", "grep_files", "bash"] } }}"""
    tools = [*many(14), *(tool(name) for name in ("read_file", "bash", "grep_files", "edit_file", "list_directory"))]
    assert not DeferredTools.from_config(config, tools).is_active
    assert stubs(DeferredTools.from_config(config, [*tools, tool("write_file")])) == {t["name"] for t in many(14)}


def test_the_allowlists_of_code_and_configuration_are_merged() -> None:
    config = {"capabilities": {"tool_search": {"never_defer": ["tool_01"]}}}
    deferred = DeferredTools.from_config(config, many(15), never_defer=["tool_02"])
    assert not stubs(deferred) & {"tool_01", "tool_02"}


def test_without_the_capability_nothing_is_deferred() -> None:
    tools = [*many(15), tool("rare", deferrable="always")]
    assert not DeferredTools.from_config({"capabilities": ["other"]}, tools).is_active
    assert not DeferredTools.from_config({}, tools).is_active


@pytest.mark.parametrize(
    "config",
    [
        "not json",
        {"capabilities": "tool_search"},
        {"capabilities": {"tool_search": {"treshold": 3}}},
        {"capabilities": {"tool_search": {"threshold": "many"}}},
        {"capabilities": {"tool_search": {"threshold": -1}}},
        {"capabilities": {"tool_search": {"mode": "other"}}},
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(config: Any) -> None:
    with pytest.raises(InvalidPayload, match="tool_search configuration"):
        DeferredTools.from_config(config, many(15))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tools": [tool("a"), tool("a")]}, "two tools are named 'a'"),
        ({"tools": [{"description": "nameless"}]}, "without a name"),
        ({"tools": [tool("a", deferrable="sometimes")]}, "unknown deferrable policy 'sometimes'"),
        ({"tools": [], "mode": "other"}, "unknown mode"),
        ({"tools": [], "ranking": "other"}, "unknown ranking"),
        ({"tools": [], "max_sessions": 0}, "at least 1"),
    ],
)
def test_what_cannot_work_is_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPayload, match=message):
        DeferredTools(**arguments)


def test_tools_are_read_in_every_wire_spelling() -> None:
    chat = {"type": "function", "function": {"name": "a", "description": "A.", "parameters": SCHEMA}}
    responses = {"type": "function", "name": "a", "description": "A.", "parameters": SCHEMA}
    anthropic = {"name": "a", "description": "A.", "input_schema": SCHEMA}
    mcp = {"name": "a", "description": "A.", "inputSchema": SCHEMA}
    read = [DeferredTools([source]).tools[0] for source in (chat, responses, anthropic, mcp)]
    assert read == [Tool("a", "A.", SCHEMA)] * 4


def test_the_same_list_keeps_its_index_and_another_keeps_the_reveals() -> None:
    deferred = DeferredTools(many(15), ranking="keyword")
    deferred.turn("s").search("tool_01")
    assert deferred.with_tools(many(15)) is deferred
    assert "tool_01" not in stubs(deferred.with_tools(many(16)))
