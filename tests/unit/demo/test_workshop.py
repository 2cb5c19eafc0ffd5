"""The demo toolbox: what it names must exist, and its body must be one the server takes."""

import re

import jsonschema_rs
import msgspec
import pytest

from toolcrib.demo import catalogue, commands, toolbox
from toolcrib.demo.sources import LABELS, open_source
from toolcrib.toolboxes.entries import check_entries
from toolcrib.wire import CreateVersion


def test_the_body_is_accepted_without_a_warning() -> None:
    name, body = toolbox()
    read = msgspec.json.decode(msgspec.json.encode(body), type=CreateVersion)
    assert name == "workshop"
    assert check_entries(read.tools) == []
    assert [entry["type"] for entry in read.tools].count("toolbox_search_preview") == 1


def test_every_entry_names_a_declared_command_and_every_config_a_tool() -> None:
    _, body = toolbox()
    entries = [entry for entry in body["tools"] if entry["type"] == "mcp"]
    assert [entry["server_label"] for entry in entries] == list(LABELS)
    assert {entry["server_url"].removeprefix("stdio://") for entry in entries} == commands().keys()
    for entry in entries:
        known = {*open_source(entry["server_label"]).tools, "*"}
        assert entry.get("tool_configs", {}).keys() <= known


def test_some_tools_are_pinned_and_some_carry_keywords() -> None:
    configs = [config for entry in toolbox()[1]["tools"] for config in entry.get("tool_configs", {}).values()]
    assert any(config.get("pin") for config in configs)
    assert any(config.get("additional_search_text") for config in configs)


@pytest.mark.parametrize("tool", catalogue(), ids=lambda tool: tool["name"])
def test_each_tool_is_well_defined(tool: dict[str, object]) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9_]{1,40}", str(tool["name"]))
    assert len(str(tool["description"])) >= 8
    schema = tool["inputSchema"]
    assert isinstance(schema, dict)
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    jsonschema_rs.Draft202012Validator(schema)
    assert set(schema.get("required", [])) <= schema["properties"].keys()
    hints = tool["annotations"]
    assert isinstance(hints, dict)
    assert not (hints["readOnlyHint"] and hints["destructiveHint"])
