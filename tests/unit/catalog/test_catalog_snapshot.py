from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolcrib import errors
from toolcrib.catalog import entries, health, records, tools
from toolcrib.catalog.arguments import Validators
from toolcrib.catalog.assembly import Contribution, assemble
from toolcrib.catalog.snapshot import Snapshot, sources_meta
from toolcrib.domain import SourceStatus
from toolcrib.upstreams.upstream import Listing

Json = dict[str, Any]


def a_tool(name: str, **more: Any) -> Json:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more}


def entry(label: str, **more: Any) -> Json:
    return {"type": "mcp", "server_label": label, "server_url": f"http://{label}.test/mcp", **more}


def contribution(raw: Json, *listings: Listing, failure: errors.SourceError | None = None) -> Contribution:
    read = entries.read(raw)
    record = None
    for at, listing in enumerate(listings):
        record = records.merge(record, listing, read.policy, 100 + at)
    if record is not None:  # what is served is what was stored
        record = records.decode(records.encode(record))
    prepared = tools.prepare(read, record) if record else ()
    state = health.state_of(read, record, prepared, failure, asked=True, now=100)
    return Contribution(read, state, record, prepared)


def snapshot(*sources: tuple[Json, Listing]) -> Snapshot:
    return assemble([contribution(raw, listing) for raw, listing in sources])


def listed(made: Snapshot, form: Any = "dot") -> list[Json]:
    return msgspec.json.decode(b"[" + made.encoded_tools(form) + b"]")


def test_tools_are_listed_in_entry_order_then_by_name_under_each_form() -> None:
    made = snapshot(
        (entry("zeta"), Listing(tools=(a_tool("b"), a_tool("a")))),
        (entry("alpha"), Listing(tools=(a_tool("c"),))),
    )
    assert [tool["name"] for tool in listed(made)] == ["zeta.a", "zeta.b", "alpha.c"]
    assert [tool["name"] for tool in listed(made, "triple")] == ["zeta___a", "zeta___b", "alpha___c"]
    assert [tool["name"] for tool in listed(made, "safe")] == ["zeta_a", "zeta_b", "alpha_c"]
    assert made.tool("alpha___c").upstream_name == "c"
    assert made.tool("c").label == "alpha"


def test_the_configuration_is_shown_without_secrets_or_keywords() -> None:
    raw = entry(
        "gh",
        server_url="https://user:pw@gh.test/mcp?api_key=hunter2",
        require_approval="always",
        server_description="Code",
        allowed_tools=["x"],
        headers={"X-Key": "sealed:abc"},
        authorization="sealed:def",
        tool_configs={"*": {"additional_search_text": "repository forge"}},
        surprise="kept, not shown",
    )
    (shown,) = listed(snapshot((raw, Listing(tools=(a_tool("x"),)))))
    assert shown["_meta"] == {
        "tool_configuration": {
            "type": "mcp",
            "server_label": "gh",
            "server_url": "https://gh.test/mcp",
            "server_description": "Code",
            "require_approval": "always",
            "allowed_tools": ["x"],
        }
    }
    assert shown["inputSchema"] == {"type": "object", "properties": {}}
    everything = msgspec.json.encode(shown).decode()
    assert not any(secret in everything for secret in ("sealed", "hunter2", "pw@", "forge", "surprise"))


def test_a_long_filter_is_not_repeated_in_every_tool() -> None:
    raw = entry("big", allowed_tools=[f"tool_{n}" for n in range(2_000)])
    (shown,) = listed(snapshot((raw, Listing(tools=(a_tool("tool_1"), a_tool("other"))))))
    assert shown["name"] == "big.tool_1"
    assert len(msgspec.json.encode(shown["_meta"])) < 5_000


def test_upstream_meta_is_kept_and_ours_wins() -> None:
    foreign = {
        "vendor/x": 1,
        "tool_configuration": {"type": "fake"},
        "anthropic/alwaysLoad": True,
        "io.toolcrib/pin": 1,
    }
    (shown,) = listed(snapshot((entry("a"), Listing(tools=(a_tool("x", _meta=foreign),)))))
    assert shown["_meta"].keys() == {"vendor/x", "tool_configuration"}
    assert shown["_meta"]["tool_configuration"]["type"] == "mcp"


def test_pins_and_keywords_follow_the_exact_name_before_the_star() -> None:
    configs = {"*": {"pin": True, "additional_search_text": "all"}, "x": {"pin": False}}
    made = snapshot((entry("a", tool_configs=configs), Listing(tools=(a_tool("x"), a_tool("y")))))
    assert (made.tool("a.x").pin, made.tool("a.x").keywords) == (False, "")
    assert (made.tool("a.y").pin, made.tool("a.y").keywords) == (True, "all")
    x, y = listed(made)
    assert "com.microsoft.foundry/tool_visibility" not in x["_meta"]
    assert y["_meta"]["com.microsoft.foundry/tool_visibility"] == "pinned"
    assert y["_meta"]["anthropic/alwaysLoad"] is True
    auto = msgspec.json.decode(made.tool("a.x").encoded("a.x", "auto_pinned"))
    assert auto["_meta"]["com.microsoft.foundry/tool_visibility"] == "auto_pinned"


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (None, ["Get", "get", "put"]),
        (["get"], ["get"]),
        ([], []),
        ({"tool_names": ["put", "Get"]}, ["Get", "put"]),
        ({"read_only": True}, ["get"]),
        ({"tool_names": ["put"], "read_only": True}, []),
        ({}, ["Get", "get", "put"]),
    ],
)
def test_allowed_tools_filters_by_exact_upstream_name(allowed: Any, expected: list[str]) -> None:
    reading = a_tool("get", annotations={"readOnlyHint": True})
    raw = entry("a") | ({} if allowed is None else {"allowed_tools": allowed})
    made = contribution(raw, Listing(tools=(a_tool("put"), reading, a_tool("Get"))))
    assert [tool.upstream_name for tool in made.tools] == expected


def test_hidden_characters_never_reach_the_model() -> None:
    nasty = a_tool("x", title="a\u200bb", description="run \x1b[8mthis\x1b[0m\u202e")
    nasty["inputSchema"] = {"type": "object", "properties": {"q": {"type": "string", "description": "t\U000e0041ag"}}}
    made = snapshot((entry("a"), Listing(tools=(nasty,))))
    (shown,) = listed(made)
    assert (shown["title"], shown["description"]) == ("ab", "run this")
    assert shown["inputSchema"]["properties"]["q"]["description"] == "tag"
    (drifted,) = made.drift
    assert (drifted.state, drifted.grade) == ("flagged", "suspicious")
    assert "\\u200b" in " ".join(change.sentence for change in drifted.changes)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a\u200bb": {}}},
        {"properties": {"a": {"enum": ["x\u200b"]}}},
        {"$ref": "https://x.test/s.json"},
        {"enum": list(range(9_000))},
    ],
)
def test_what_cannot_be_made_safe_is_quarantined_with_its_reason(schema: Json) -> None:
    made = snapshot((entry("a"), Listing(tools=(a_tool("bad", inputSchema=schema), a_tool("good")))))
    assert [tool["name"] for tool in listed(made)] == ["a.good"]
    with pytest.raises(errors.Quarantined) as caught:
        made.tool("a.bad")
    assert caught.value.source == "a"
    assert len(made.drift) == 1
    (state,) = made.sources
    assert state.status is SourceStatus.quarantined
    assert "bad" in state.reason


def test_a_second_bearer_of_a_name_is_refused_loudly() -> None:
    made = snapshot(
        (entry("git"), Listing(tools=(a_tool("x"), a_tool("X"), a_tool("x")))),
        (entry("g\u0456t"), Listing(tools=(a_tool("x"),))),
    )
    assert [tool["name"] for tool in listed(made)] == ["git.X"]
    assert [refused.kind for refused in made.refused] == ["tool", "tool"]
    assert all("confusable" in refused.reason and "git." in refused.reason for refused in made.refused)


def test_an_upstream_tool_called_like_ours_is_reached_by_its_label_only() -> None:
    made = snapshot((entry("a"), Listing(tools=(a_tool("tool_search"),))))
    assert made.tool("a.tool_search").upstream_name == "tool_search"
    with pytest.raises(errors.NotFound):
        made.tool("tool_search")


def test_an_unknown_name_gets_the_nearest_and_an_ambiguous_one_its_candidates() -> None:
    made = snapshot(
        (entry("a"), Listing(tools=(a_tool("get_info"),))), (entry("b"), Listing(tools=(a_tool("get_info"),)))
    )
    with pytest.raises(errors.NotFound) as ambiguous:
        made.tool("get_info")
    assert ambiguous.value.info["nearest"] == ["a.get_info", "b.get_info"]
    with pytest.raises(errors.NotFound) as unknown:
        made.tool("c.get_info", "triple")
    assert unknown.value.info["nearest"] == ["a___get_info", "b___get_info"]


def test_resources_are_served_verbatim_and_the_second_of_a_uri_is_refused() -> None:
    def res(uri: str) -> Json:
        return {"uri": uri, "name": uri}

    made = snapshot(
        (entry("a"), Listing(resources=(res("file:///x"), res("skill://mine/SKILL.md"), res("file:///x")))),
        (entry("b"), Listing(resources=(res("file:///x"), res("file:///y")))),
    )
    assert {uri: each.label for uri, each in made.resources.items()} == {"file:///x": "a", "file:///y": "b"}
    assert [(refused.label, refused.name) for refused in made.refused] == [
        ("a", "skill://mine/SKILL.md"),
        ("b", "file:///x"),
    ]
    with pytest.raises(errors.NotFound):
        made.resource("file:///z")


def test_a_template_finds_its_source() -> None:
    def template(uri: str) -> Json:
        return {"uriTemplate": uri, "name": uri}

    made = snapshot(
        (entry("a"), Listing(resource_templates=(template("db://{table}/row/{id}"), template("x://{a}")))),
        (entry("b"), Listing(resource_templates=(template("db://{table}"), template("x://{b}"), template("x://{a}")))),
    )
    assert made.resource("db://users/row/7").label == "a"
    assert made.resource("db://users").label == "b"
    with pytest.raises(errors.NotFound):
        made.resource("x://both")
    assert [(refused.label, refused.kind) for refused in made.refused] == [("b", "resource template")]


def test_prompts_are_named_like_tools() -> None:
    made = snapshot((entry("a"), Listing(prompts=({"name": "greet", "description": "Hi\u200b"},))))
    assert made.prompt("a___greet").name.tool == "greet"
    assert msgspec.json.decode(made.prompt("greet").encoded("a.greet")) == {"name": "a.greet", "description": "Hi"}
    with pytest.raises(errors.NotFound):
        made.prompt("nope")


def test_the_digest_names_the_content() -> None:
    one = snapshot((entry("a"), Listing(tools=(a_tool("x"),), prompts=({"name": "p"},))))
    same = snapshot((entry("a"), Listing(tools=(a_tool("x"),), prompts=({"name": "p"},))))
    other = snapshot((entry("a"), Listing(tools=(a_tool("x", title="New"),), prompts=({"name": "p"},))))
    assert one.digest == same.digest
    assert one.digest != other.digest
    assert one.prompts_digest == other.prompts_digest
    assert one.tools_digest != other.tools_digest


def test_nothing_known_is_an_error_not_an_empty_list() -> None:
    unknown = assemble([contribution(entry("a")), contribution({"type": "web_search"})])
    with pytest.raises(errors.CatalogUnknown) as caught:
        unknown.require_known()
    assert caught.value.retry_after_s
    with pytest.raises(errors.CatalogUnknown):
        unknown.tool("a.x")
    assemble([contribution({"type": "web_search"})]).require_known()
    assemble([contribution(entry("a"), Listing())]).require_known()


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ({"type": "web_search"}, SourceStatus.unsupported),
        ({"type": "mcp", "server_label": "a", "connector_id": "c"}, SourceStatus.unsupported),
        ({"type": "mcp", "server_label": "a", "tunnel_id": "t"}, SourceStatus.unsupported),
        ({"type": "mcp", "server_label": "a"}, SourceStatus.not_configured),
    ],
)
def test_entries_that_cannot_be_served_say_why(raw: Json, status: SourceStatus) -> None:
    (state,) = assemble([contribution(raw)]).sources
    assert state.status is status
    assert state.reason
    assert state.remedy
    assert sources_meta([state])[0]["status"] == status.value


def test_a_search_directive_is_no_source() -> None:
    assert entries.read_all([{"type": "toolbox_search_preview"}, {"type": "toolbox_search"}]) == ()


def test_headers_and_hints_are_at_hand_for_a_call() -> None:
    schema = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "Region"}}, "required": ["r"]}
    made = snapshot(
        (entry("a"), Listing(tools=(a_tool("x", inputSchema=schema, annotations={"idempotentHint": True}),)))
    )
    tool = made.tool("a.x")
    assert tool.headers == {("r",): "Region"}
    assert tool.is_repeatable
    assert Validators().check(tool.schema_digest, tool, {"r": "eu"}) is None
    assert Validators().check(tool.schema_digest, tool, {}) is not None


def drift(policy: str | None, before: Json | None, after: Json | None) -> Snapshot:
    own = {} if policy is None else {"toolcrib": {"drift": policy}}
    other = a_tool("other")
    listings = [Listing(tools=(other, *([each] if each else []))) for each in (before, after)]
    return assemble([contribution(entry("a", **own), *listings)])


def test_a_followed_change_is_served() -> None:
    made = drift(None, a_tool("x"), a_tool("x") | {"description": "Better words."})
    assert made.tool("a.x").definition["description"] == "Better words."
    assert made.drift == ()


def test_a_risky_change_is_held_back_until_somebody_looks() -> None:
    made = drift(None, a_tool("x"), a_tool("x", inputSchema={"type": "object", "required": ["k"]}))
    assert [tool["name"] for tool in listed(made)] == ["a.other"]
    with pytest.raises(errors.Quarantined, match="'k' is now required"):
        made.tool("a.x")


def test_a_pinned_tool_is_served_as_accepted_and_blocked_when_it_would_lie() -> None:
    words = drift("pin", a_tool("x"), a_tool("x") | {"description": "Other."})
    assert words.tool("a.x").definition["description"] == "Does x."
    lie = drift("pin", a_tool("x"), a_tool("x", inputSchema={"type": "object", "required": ["k"]}))
    assert [tool["name"] for tool in listed(lie)] == ["a.other", "a.x"]
    assert listed(lie)[1]["_meta"]["io.toolcrib/drift"]["state"] == "pinned"
    with pytest.raises(errors.Quarantined):
        lie.tool("a.x")


def test_under_pin_a_new_tool_is_not_served() -> None:
    made = drift("pin", None, a_tool("x"))
    assert [tool["name"] for tool in listed(made)] == ["a.other"]
    assert made.drift[0].grade == "added"


def test_a_removed_tool_is_held_back_or_gone() -> None:
    assert [tool["name"] for tool in listed(drift(None, a_tool("x"), None))] == ["a.other"]
    assert drift(None, a_tool("x"), None).drift[0].grade == "removed"
    assert drift("follow", a_tool("x"), None).find("a.x") is None


def test_a_partial_answer_removes_nothing() -> None:
    first, second = Listing(tools=(a_tool("x"), a_tool("y"))), Listing(tools=(a_tool("x"),), partial="cut at 1 tool")
    made = assemble([contribution(entry("a"), first, second)])
    assert [tool["name"] for tool in listed(made)] == ["a.x", "a.y"]
    assert "cut at 1 tool" in made.sources[0].reason


def test_an_unsafe_change_is_never_followed_nor_accepted() -> None:
    bomb = a_tool("x", inputSchema={"$ref": "http://x.test/"})
    record = records.merge(None, Listing(tools=(a_tool("x"),)), "follow", 1)
    changed = records.merge(record, Listing(tools=(bomb,)), "follow", 2)
    assert changed.tools[0].state == "quarantined"
    with pytest.raises(errors.BadRequest):
        records.accept(changed, "x", 3)
    back = records.merge(changed, Listing(tools=(a_tool("x"),)), "follow", 4)
    assert back.tools[0].state == ""


def test_accepting_makes_the_offer_the_measure_of_the_next_change() -> None:
    changed = a_tool("x", inputSchema={"type": "object", "required": ["k"]})
    record = records.merge(None, Listing(tools=(a_tool("x"),)), "default", 1)
    record = records.merge(record, Listing(tools=(changed,)), "default", 2)
    record = records.accept(record, "x", 3)
    assert records.merge(record, Listing(tools=(changed,)), "default", 4) is record
    with pytest.raises(errors.NotFound):
        records.accept(record, "x", 5)
    again = records.merge(record, Listing(tools=(a_tool("x"),)), "default", 6)
    assert again.tools[0].grade == "optional_argument" or again.tools[0].state == ""


def test_an_unreadable_record_is_as_good_as_none() -> None:
    assert records.decode(b"not json") is None
    assert records.decode(b'{"created_at":1,"changed_at":1,"format":99}') is None
