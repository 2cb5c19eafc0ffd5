"""What an entry may say, type by type: the least that is valid, every field that is missing or of a wrong type."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolcrib.domain import Content, Version
from toolcrib.errors import InvalidPayload
from toolcrib.toolboxes.compare import compare
from toolcrib.toolboxes.entries import ENTRY_TYPES, IDENTITY_RULE, check_entries, identity

URL = "https://a.example/mcp"
CONNECTION = {"connection": {"project_connection_id": "c"}}
OPENAPI = {"name": "pets", "spec": {"openapi": "3.0.0"}, "auth": {"type": "anonymous"}}

# The least each type needs.
LEAST: dict[str, dict[str, Any]] = {
    "mcp": {"server_label": "a", "server_url": URL},
    "openapi": {"openapi": OPENAPI},
    "web_search": {},
    "file_search": {},
    "azure_ai_search": {"azure_ai_search": {"indexes": [{"index_name": "i"}]}},
    "code_interpreter": {},
    "a2a": {"a2a_version": "1.0"},
    "a2a_preview": {},
    "browser_automation": {"browser_automation": CONNECTION},
    "browser_automation_preview": {"browser_automation_preview": CONNECTION},
    "work_iq_preview": {"project_connection_id": "c"},
    "fabric_iq_preview": {"project_connection_id": "c"},
    "web_iq_preview": {"project_connection_id": "c"},
    "shell": {"environment": {"type": "container_auto"}},
    "reminder_preview": {},
    "toolbox_search": {},
    "toolbox_search_preview": {},
}

# Everything each type may say besides.
MORE: dict[str, dict[str, Any]] = {
    "mcp": {
        "project_connection_id": "c",
        "authorization": "t",
        "headers": {"A": "b"},
        "server_description": "d",
        "allowed_tools": ["x"],
        "require_approval": "never",
        "allowed_callers": ["direct", "programmatic"],
        "defer_loading": True,
    },
    "web_search": {
        "filters": {"allowed_domains": ["a.example"]},
        "user_location": {"type": "approximate"},
        "search_context_size": "high",
        "external_web_access": False,
        "custom_search_configuration": {"project_connection_id": "c", "instance_name": "i"},
    },
    "file_search": {"vector_store_ids": ["v"], "max_num_results": 5, "ranking_options": {}, "filters": {}},
    "code_interpreter": {"container": {"type": "auto"}, "allowed_callers": ["direct"]},
    "a2a": {
        "base_url": URL,
        "agent_card_path": "/card",
        "project_connection_id": "c",
        "send_credentials_for_agent_card": True,
    },
    "fabric_iq_preview": {"server_label": "f", "server_url": URL, "require_approval": "always"},
    "web_iq_preview": {"server_label": "w", "require_approval": "always"},
    "shell": {"allowed_callers": ["direct"]},
}

# (type, field, a value it cannot have)
WRONG: list[tuple[str, str, Any]] = [
    ("mcp", "server_label", 5),
    ("mcp", "server_label", "a.b"),
    ("mcp", "server_label", "x" * 65),
    ("mcp", "server_url", ""),
    ("mcp", "server_url", "ftp://a.example"),
    ("mcp", "server_url", "a.example/mcp"),
    ("mcp", "server_url", "http://[::1"),
    ("mcp", "headers", {"a": None}),
    ("mcp", "authorization", 1),
    ("mcp", "allowed_tools", "x"),
    ("mcp", "allowed_tools", {"tool_names": "x"}),
    ("mcp", "require_approval", "sometimes"),
    ("mcp", "require_approval", {"always": []}),
    ("mcp", "allowed_callers", ["nobody"]),
    ("mcp", "defer_loading", "yes"),
    ("openapi", "openapi", []),
    ("openapi", "openapi", {**OPENAPI, "auth": {"type": "magic"}}),
    ("openapi", "openapi", {**OPENAPI, "auth": {"type": "project_connection"}}),
    ("openapi", "openapi", {**OPENAPI, "spec": "openapi: 3.0.0"}),
    ("openapi", "openapi", {**OPENAPI, "name": "a/b"}),
    ("web_search", "search_context_size", "huge"),
    ("web_search", "filters", {"allowed_domains": "a.example"}),
    ("file_search", "vector_store_ids", "v"),
    ("file_search", "max_num_results", 0),
    ("file_search", "max_num_results", 51),
    ("file_search", "max_num_results", "5"),
    ("azure_ai_search", "azure_ai_search", {"indexes": []}),
    ("azure_ai_search", "azure_ai_search", {"indexes": [{"query_type": "psychic"}]}),
    ("azure_ai_search", "azure_ai_search", {"indexes": [{"top_k": 0}]}),
    ("code_interpreter", "container", 5),
    ("a2a", "a2a_version", 1.0),
    ("a2a_preview", "send_credentials_for_agent_card", "no"),
    ("browser_automation", "browser_automation", {}),
    ("work_iq_preview", "project_connection_id", ""),
    ("fabric_iq_preview", "server_label", "a b"),
    ("shell", "environment", "bash"),
    ("reminder_preview", "name", "a/b"),
    ("toolbox_search", "description", 5),
    *[(kind, "name", 5) for kind in LEAST],
    *[(kind, "name", "a.b") for kind in LEAST],
    *[(kind, "description", "x" * 10_001) for kind in LEAST],
    *[(kind, "tool_configs", []) for kind in LEAST],
    *[(kind, "tool_configs", {"*": {"pin": "yes"}}) for kind in LEAST],
    *[(kind, "tool_configs", {"a": {"additional_search_text": "x" * 1001}}) for kind in LEAST],
    *[(kind, "toolcrib", {"drift": "ignore"}) for kind in LEAST],
    *[(kind, "toolcrib", {"dirft": "pin"}) for kind in LEAST],
]


def entry(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **LEAST[kind], **fields}


def refused(*entries: dict[str, Any]) -> InvalidPayload:
    with pytest.raises(InvalidPayload) as refusal:
        check_entries(entries)
    return refusal.value


def test_the_tables_know_every_type_the_server_knows() -> None:
    assert set(LEAST) == set(ENTRY_TYPES)


@pytest.mark.parametrize("kind", LEAST)
def test_the_least_and_the_most_are_accepted_without_a_warning(kind: str) -> None:
    assert check_entries([entry(kind)]) == []
    configs = {"*": {"pin": True}, "x": {"additional_search_text": "x" * 1000}}
    everything = {"name": "n", "description": "d", "tool_configs": configs, "toolcrib": {"drift": "pin"}}
    assert check_entries([entry(kind, **everything, **MORE.get(kind, {}))]) == []


@pytest.mark.parametrize(("kind", "field"), [(k, f) for k, fields in LEAST.items() for f in fields])
def test_every_required_field_is_missed_by_name(kind: str, field: str) -> None:
    without = {k: v for k, v in entry(kind).items() if k != field}
    error = refused(without)
    assert field in error.message
    assert str(error.param).startswith("tools[0]")
    assert field in refused({**without, field: None}).message


@pytest.mark.parametrize(("kind", "field", "value"), WRONG)
def test_every_wrong_value_is_refused_by_the_path_of_its_field(kind: str, field: str, value: Any) -> None:
    error = refused({"type": "web_search", "name": "before"}, entry(kind, **{field: value}))
    assert str(error.param).startswith(f"tools[1].{field}")
    assert "x" * 100 not in error.message


def test_an_unknown_type_lists_the_known_ones() -> None:
    error = refused({"type": "teleport"})
    assert error.param == "tools[0].type"
    assert all(kind in error.message for kind in ENTRY_TYPES)
    assert refused({"type": "t" * 5000}).message.count("t") < 1000


@pytest.mark.parametrize("kind", LEAST)
def test_unknown_fields_are_kept_and_warned_about(kind: str) -> None:
    assert check_entries([entry(kind, brand_new={"a": 1})]) == [
        f"tools[0].brand_new is not a field of type {kind}; it is kept and has no effect."
    ]


@pytest.mark.parametrize("kind", LEAST)
def test_optional_fields_may_be_null(kind: str) -> None:
    optional = set(ENTRY_TYPES[kind].__struct_fields__) - set(LEAST[kind]) - {"type"}
    assert check_entries([entry(kind, **dict.fromkeys(optional))]) == []


@pytest.mark.parametrize(
    "where", [{}, {"server_url": URL, "connector_id": "c"}, {"connector_id": "c", "tunnel_id": "t"}]
)
def test_an_mcp_entry_says_exactly_once_where_it_is(where: dict[str, str]) -> None:
    error = refused({"type": "mcp", "server_label": "a", **where})
    assert "exactly one of server_url, connector_id, tunnel_id" in error.message


@pytest.mark.parametrize("place", [{"connector_id": "c"}, {"tunnel_id": "t"}, {"server_url": "stdio://clock"}])
def test_each_place_alone_is_enough(place: dict[str, str]) -> None:
    assert check_entries([{"type": "mcp", "server_label": "a", **place}]) == []


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "anonymous"},
        {"type": "project_connection", "security_scheme": {"project_connection_id": "c"}},
        {"type": "managed_identity", "security_scheme": {"audience": "https://a"}},
        {"type": "managed_identity", "audience": "https://a"},
        {"type": "connection", "connection_id": "c"},
    ],
)
def test_both_spellings_of_openapi_auth_are_read(auth: dict[str, Any]) -> None:
    assert check_entries([entry("openapi", openapi={**OPENAPI, "auth": auth})]) == []


@pytest.mark.parametrize(
    "approval", ["always", "never", {"always": {"tool_names": ["a"]}, "never": {"read_only": True}}, {}]
)
def test_every_form_of_approval_is_read(approval: Any) -> None:
    assert check_entries([entry("mcp", require_approval=approval)]) == []


# --- the identity rule -----------------------------------------------------------------------------------------------

CLASHES: dict[str, list[dict[str, Any]]] = {
    "two unnamed of one type": [entry("web_search"), entry("web_search")],
    "three, two of them unnamed": [entry("web_search"), entry("web_search", name="a"), entry("web_search")],
    "one label twice": [entry("mcp"), entry("mcp")],
    "one name twice": [entry("web_search", name="a"), entry("code_interpreter", name="a")],
    "a name that is a label": [entry("mcp"), entry("web_search", name="a")],
    "a label that is a name": [entry("web_search", name="a"), entry("mcp")],
    "names that differ in case only": [entry("web_search", name="A"), entry("mcp")],
    "one openapi name twice": [entry("openapi"), entry("openapi")],
    "an openapi name that is a label": [entry("openapi"), entry("mcp", server_label="pets")],
    "a label that is the type of an unnamed entry": [entry("web_search"), entry("mcp", server_label="web_search")],
}


@pytest.mark.parametrize("clash", CLASHES)
def test_entries_that_cannot_be_told_apart_are_refused_in_the_known_words(clash: str) -> None:
    error = refused(*CLASHES[clash])
    assert error.message.startswith(IDENTITY_RULE)
    assert error.message.startswith(
        "Multiple tools without identifiers found. All tools except a single tool must have unique identifiers"
        " ('name' or 'server_label')"
    )
    assert str(error.param).startswith("tools[")


FRIENDS: dict[str, list[dict[str, Any]]] = {
    "one unnamed of each type": [entry(k) for k in ("web_search", "file_search", "code_interpreter", "a2a_preview")],
    "one unnamed beside a named one": [entry("web_search"), entry("web_search", name="b")],
    "label and name of one entry": [entry("mcp", name="a")],
    "labels that differ": [entry("mcp"), entry("mcp", server_label="b")],
    "the directive beside everything": [entry("toolbox_search_preview"), entry("web_search"), entry("mcp")],
    "a directive that shares a name": [entry("toolbox_search", name="a"), entry("mcp")],
    "a directive named like its tool": [entry("toolbox_search", name="tool_search")],
}


@pytest.mark.parametrize("friends", FRIENDS)
def test_entries_that_can_be_told_apart_are_accepted(friends: str) -> None:
    assert check_entries(FRIENDS[friends]) == []


@pytest.mark.parametrize("pair", [("toolbox_search", "toolbox_search"), ("toolbox_search", "toolbox_search_preview")])
def test_two_directives_are_refused(pair: tuple[str, str]) -> None:
    assert refused(*map(entry, pair)).param == "tools[1]"


@pytest.mark.parametrize("name", ["tool_search", "call_tool"])
def test_the_names_of_the_search_are_nobody_elses(name: str) -> None:
    assert refused(entry("web_search", name=name)).param == "tools[0].name"


def test_every_entry_has_one_name_inside_its_version() -> None:
    for friends in FRIENDS.values():
        names = [identity(e) for e in friends]
        assert len(set(names)) == len(names)


# --- differences -----------------------------------------------------------------------------------------------------


def version(number: int, *tools: dict[str, Any], **rest: Any) -> Version:
    return Version("p", "box", number, f"tb_1:{number}", 0, "sha256:0", Content(tools, **rest))


def test_a_difference_is_told_by_entry_field_and_skill() -> None:
    before = version(
        1,
        entry("mcp", allowed_tools=["x"], tool_configs={"a/b": {"pin": True}, "gone": {}}),
        entry("web_search"),
        description="old",
        metadata={"team": "a"},
        skills=({"name": "stay"}, {"name": "leave"}, {"name": "move", "version": "1"}),
    )
    after = version(
        2,
        entry("code_interpreter"),
        entry("mcp", allowed_tools=["x", "y"], tool_configs={"a/b": {"pin": False}}, server_description="new"),
        description="new",
        metadata={"team": "a", "tier": "1"},
        skills=({"name": "stay"}, {"name": "move", "version": "2"}, {"name": "come"}),
    )
    told = msgspec.to_builtins(compare(before, after))
    entries = {e["entry"]: e for e in told["entries"]}
    assert {k: v["change"] for k, v in entries.items()} == {
        "a": "changed",
        "web_search": "removed",
        "code_interpreter": "added",
    }
    assert {(f["path"], f["change"]) for f in entries["a"]["fields"]} == {
        ("/allowed_tools", "changed"),
        ("/tool_configs/a~1b/pin", "changed"),
        ("/tool_configs/gone", "removed"),
        ("/server_description", "added"),
    }
    assert {(s["skill"], s["change"], s["before"], s["after"]) for s in told["skills"]} == {
        ("leave", "removed", "default", None),
        ("come", "added", None, "default"),
        ("move", "changed", "1", "2"),
    }
    assert {(f["path"], f["change"]) for f in told["fields"]} == {
        ("/description", "changed"),
        ("/metadata/tier", "added"),
    }
    assert (told["from_version"], told["to_version"]) == ("1", "2")


def test_order_is_no_difference() -> None:
    one, two = entry("mcp"), entry("web_search")
    told = compare(version(1, one, two), version(2, two, one))
    assert (told.entries, told.skills, told.fields) == ([], [], [])
