from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.catalog import schemas
from toolcrib.catalog.arguments import MAX_FRAGMENT, MAX_MESSAGE, Validators, Violation
from toolcrib.catalog.schemas import Inspected, inspect, normalized


def deep(levels: int, key: str = "properties") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", key: {"a": schema}} if key == "properties" else {key: schema}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for level in range(1, levels + 1):
        defs[f"d{level}"] = {"allOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    return {"$defs": defs, "properties": {"x": {"$ref": f"#/$defs/d{levels}"}}}


BOMBS: dict[str, tuple[Any, str]] = {
    "depth 10k": (deep(10_000), "nested"),
    "depth 10k of not": (deep(10_000, "not"), "nested"),
    "33 subschemas deep": (deep(40), "deep"),
    "doubling allOf": (doubling(28), "references followed"),
    "long chain of references": (
        {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3_000)} | {"d3000": {}}, "$ref": "#/$defs/d0"},
        "references followed",
    ),
    "reference to itself": ({"$ref": "#"}, "leads back"),
    "reference cycle in place": (
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        "leads back",
    ),
    "100k enum": ({"enum": list(range(100_000))}, "bytes long"),
    "5k enum": ({"properties": {"a": {"enum": list(range(5_000))}}}, "enum has 5000"),
    "megabyte": ({"description": "x" * 1_000_000}, "bytes long"),
    "million values": ({"examples": [[]] * 1_000_000}, "bytes long"),
    "network $ref": ({"$ref": "http://127.0.0.1:9/schema.json"}, "outside"),
    "file $ref": ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "outside"),
    "network $ref in a definition": ({"$defs": {"a": {"$ref": "https://x.test/s"}}}, "outside"),
    "dangling $ref": ({"$ref": "#/$defs/nowhere"}, "outside"),
    "not a schema": ({"type": "strnig"}, "cannot be read"),
    "not an object": ([], "not an object"),
    "not JSON": ({"default": object()}, "not JSON"),
    "header on an object": ({"properties": {"a": {"type": "object", "x-mcp-header": "A"}}}, "x-mcp-header"),
    "header twice": (
        {"properties": {n: {"type": "string", "x-mcp-header": h} for n, h in (("a", "A"), ("b", "a"))}},
        "twice",
    ),
    "header below items": (
        {"properties": {"a": {"items": {"type": "string", "x-mcp-header": "A"}}}},
        "x-mcp-header",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_with_a_reason(bomb: str) -> None:
    schema, reason = BOMBS[bomb]
    found = inspect(schema)
    assert isinstance(found, str)
    assert reason in found


TREE: dict[str, Any] = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
            "required": ["value"],
        }
    },
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
}
ANYOF: dict[str, Any] = {
    "$defs": {
        "n": {
            "anyOf": [
                {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/n"}}},
                {"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}},
            ]
        }
    },
    "properties": {"x": {"$ref": "#/$defs/n"}},
}
HONEST: dict[str, Any] = {
    "plain": {"type": "object", "properties": {"a": {"type": "string"}}},
    "tree": TREE,
    "alternatives that recurse": ANYOF,
    "draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"a": {}},
        "$ref": "#/definitions/a",
    },
    "unknown dialect": {"$schema": "https://example.com/mine", "type": "object"},
    "embedded $id": {"properties": {"a": {"$id": "https://x.test/a"}, "b": {"$ref": "https://x.test/a"}}},
    "anchor": {"$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"},
    "greedy pattern": {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
    "look-ahead": {"properties": {"a": {"type": "string", "pattern": r"^(?!\.)[a-z]+$"}}},
    "30 deep": deep(30),
    "definitions nobody uses": {"$defs": doubling(28)["$defs"] | {"x": {}}, "type": "object"},
    "enum of timezones": {"enum": [str(n) for n in range(600)]},
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_schema_is_held(name: str) -> None:
    before = copy.deepcopy(HONEST[name])
    assert isinstance(inspect(HONEST[name]), Inspected)
    assert HONEST[name] == before


def test_patterns_that_could_backtrack_are_not_run_but_named() -> None:
    schema = {
        "type": "object",
        "properties": {"mail": {"type": "string", "pattern": r"^(?!\.)a+$"}, "twice": {"pattern": r"(a)\1"}},
        "patternProperties": {r"^(?=x)": {"type": "integer"}},
        "additionalProperties": False,
    }
    found = inspect(schema)
    assert isinstance(found, Inspected)
    assert set(found.unchecked) == {r"^(?!\.)a+$", r"(a)\1", r"^(?=x)"}
    assert check(schema, {"mail": "." * 10_000, "x": "anything"}) is None
    assert check(schema, {"mail": 1}) is not None


def test_arguments_mirrored_in_headers_are_found_at_any_depth() -> None:
    schema = {
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "who": {"properties": {"team": {"type": "integer", "x-mcp-header": "Team"}}},
        }
    }
    found = inspect(schema)
    assert isinstance(found, Inspected)
    assert found.headers == {("region",): "Region", ("who", "team"): "Team"}


@pytest.mark.parametrize(
    "given_schema", [None, {}, {"type": "object"}, {"properties": None}, {"properties": {"a": {}}}, []]
)
def test_an_input_schema_always_has_properties(given_schema: Any) -> None:
    made = normalized(given_schema)
    assert isinstance(made["properties"], dict)
    assert made["type"] == "object"


@dataclass(frozen=True)
class Owner:
    input_schema: dict[str, Any]


def check(schema: dict[str, Any], arguments: Any, validators: Validators | None = None) -> Violation | None:
    found = inspect(schema)
    assert isinstance(found, Inspected)
    return (Validators() if validators is None else validators).check(found.digest, Owner(schema), arguments)


def test_a_violation_says_where_what_and_which_rule() -> None:
    schema = {
        "$defs": {"q": {"type": "object", "properties": {"n/m": {"type": "integer", "minimum": 3}}}},
        "properties": {"z": {"$ref": "#/$defs/q"}},
    }
    violation = check(schema, {"z": {"n/m": 1}})
    assert violation is not None
    assert violation.pointer == "/z/n~1m"
    assert "minimum of 3" in violation.message
    assert violation.fragment == {"type": "integer", "minimum": 3}


def test_a_violation_is_bounded_whatever_was_sent() -> None:
    schema = {"properties": {"a": {"enum": [f"value {n}" for n in range(1_000)], "description": "x" * 9_000}}}
    violation = check(schema, {"a": "y" * 100_000})
    assert violation is not None
    assert len(violation.message) <= MAX_MESSAGE + 3
    assert len(str(violation.fragment)) <= 2 * MAX_FRAGMENT


def test_missing_and_unexpected_arguments_are_named() -> None:
    schema = {"properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    missing, unexpected = check(schema, {}), check(schema, {"a": 1, "b": 2})
    assert missing is not None
    assert unexpected is not None
    assert '"a"' in missing.message
    assert "'b'" in unexpected.message


def test_explaining_a_failure_of_recursive_alternatives_does_not_explode() -> None:
    arguments: Any = 5
    for _ in range(60):
        arguments = {"x": arguments}
    violation = check(ANYOF, arguments)
    assert violation is not None
    assert "too deeply" in violation.message
    shallow = check(ANYOF, {"x": {"x": 5}})
    assert shallow is not None
    assert shallow.pointer.startswith("/x")


def test_recursive_data_is_checked() -> None:
    assert check(TREE, {"root": {"value": 1, "left": {"value": 2}}}) is None
    violation = check(TREE, {"root": {"value": 1, "left": {"right": {}}}})
    assert violation is not None
    assert violation.pointer.startswith("/root/left")


def test_the_cache_is_bounded_by_number_and_by_bytes() -> None:
    few = Validators(max_count=3)
    for n in range(10):
        assert check({"title": str(n)}, {}, few) is None
    assert len(few) == 3
    small = Validators(max_bytes=5_000)
    for n in range(10):
        assert check({"title": str(n), "description": "x" * 2_000}, {}, small) is None
    assert len(small) == 2


def test_a_held_validator_does_not_ask_for_the_schema_again() -> None:
    class Once:
        asked = 0

        @property
        def input_schema(self) -> dict[str, Any]:
            self.asked += 1
            return {"required": ["a"]}

    owner, validators = Once(), Validators()
    for _ in range(3):
        assert validators.check(b"digest", owner, {"a": 1}) is None
    assert owner.asked == 1


KEYWORDS = ["properties", "items", "allOf", "anyOf", "not", "$ref", "$defs", "enum", "pattern", "additionalProperties"]
REFERENCES = ["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "http://x.test/", "#a", "", "#/"]


def schema_like() -> st.SearchStrategy[Any]:
    leaf = (
        st.sampled_from(REFERENCES)
        | st.booleans()
        | st.integers(0, 3)
        | st.sampled_from(["^(a+)+$", "(?=a)", "(a)\\1"])
    )
    return st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*KEYWORDS, "a", "b"]), inner, max_size=4)
            | st.fixed_dictionaries({"$ref": st.sampled_from(REFERENCES)})
        ),
        max_leaves=30,
    )


@settings(max_examples=300)
@given(schema_like(), schema_like())
def test_whatever_arrives_is_either_held_within_limits_or_refused(schema: Any, arguments: Any) -> None:
    found = inspect(schema)
    if isinstance(found, str):
        assert found
        return
    assert all(depth <= schemas.MAX_DEPTH for _, depth in schemas.subschemas(schema))
    violation = Validators().check(found.digest, Owner(schema), arguments)
    assert violation is None or len(violation.message) <= MAX_MESSAGE + 3
