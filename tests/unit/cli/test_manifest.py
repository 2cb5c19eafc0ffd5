"""The manifest is read strictly, and each category of connection becomes the entry that serves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from toolcrib import wire
from toolcrib.cli import manifest

YAML = """
description: Tools of the night shift
connections:
  - name: crm
skills:
  - name: review
    version: 2
  - name: tone
tools:
  - type: mcp
    server_label: files
    server_url: http://127.0.0.1:9000/mcp
    a_field_of_tomorrow: kept
policies:
  rai_config:
    name: strict
"""


def connection(category: str) -> wire.Connection:
    return wire.Connection(
        "crm", "/x/connections/crm", category, "https://crm.example/mcp", False, {"type": "None"}, {}
    )


def write(folder: Path, text: str, name: str = "toolbox.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_manifest_becomes_the_body_of_create_version(tmp_path: Path) -> None:
    content = manifest.content(manifest.read(write(tmp_path, YAML)), lambda _: connection("RemoteTool"))
    assert content == wire.CreateVersion(
        description="Tools of the night shift",
        tools=[
            {
                "type": "mcp",
                "server_label": "files",
                "server_url": "http://127.0.0.1:9000/mcp",
                "a_field_of_tomorrow": "kept",
            },
            {
                "type": "mcp",
                "name": "crm",
                "server_label": "crm",
                "server_url": "https://crm.example/mcp",
                "project_connection_id": "/x/connections/crm",
            },
        ],
        skills=[wire.SkillReference(name="review", version="2"), wire.SkillReference(name="tone")],
        policies={"rai_config": {"rai_policy_name": "strict"}},
    )


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    text = '{"description": "d", "tools": [{"type": "web_search"}]}'
    read = [manifest.read(write(tmp_path, text, f"m{suffix}")) for suffix in (".json", ".yaml", ".yml")]
    assert read[0] == read[1] == read[2]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name: ops", "name"),
        ("connections: [{name: a, url: b}]", "connections"),
        ("tools: {}", "tools"),
        ("policies: {rai_config: {nom: a}}", "rai_config"),
        ("tools: [", "cannot read"),
        ("- a", "cannot read"),
    ],
)
def test_what_nobody_knows_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(click.UsageError, match=named):
        manifest.read(write(tmp_path, text))


def test_only_json_and_yaml_are_read(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="neither"):
        manifest.read(write(tmp_path, "", "toolbox.toml"))


@pytest.mark.parametrize(
    ("category", "use", "entry"),
    [
        (
            "RemoteA2A",
            manifest.ConnectionUse("crm"),
            {
                "type": "a2a_preview",
                "name": "crm",
                "base_url": "https://crm.example/mcp",
                "project_connection_id": "/x/connections/crm",
            },
        ),
        (
            "CognitiveSearch",
            manifest.ConnectionUse("crm", index="docs"),
            {
                "type": "azure_ai_search",
                "name": "crm",
                "azure_ai_search": {
                    "indexes": [{"project_connection_id": "/x/connections/crm", "index_name": "docs"}],
                },
            },
        ),
        (
            "GroundingWithCustomSearch",
            manifest.ConnectionUse("crm", instance_name="news"),
            {
                "type": "web_search",
                "name": "crm",
                "custom_search_configuration": {
                    "project_connection_id": "/x/connections/crm",
                    "instance_name": "news",
                },
            },
        ),
    ],
)
def test_a_connection_becomes_the_entry_of_its_category(
    category: str, use: manifest.ConnectionUse, entry: dict[str, Any]
) -> None:
    assert manifest.expand(use, connection(category)) == entry


@pytest.mark.parametrize(
    ("category", "said"), [("CognitiveSearch", "needs `index`"), ("ApiKey", "no entry type serves category ApiKey")]
)
def test_a_connection_that_cannot_become_an_entry_says_why(category: str, said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        manifest.expand(manifest.ConnectionUse("crm"), connection(category))
