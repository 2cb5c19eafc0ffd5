"""The unmodified `azure-ai-projects` SDK against a running server, on both engines."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from azure.ai.projects import AIProjectClient, models
from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
)
from azure.core.pipeline.policies import AzureKeyCredentialPolicy
from tests.kit.running import Server


class AnyCredential:
    """The constructor insists on one; the policy below is what speaks."""

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        return AccessToken("unused", 1 << 40)


def sdk(server: Server, token: str | None = None, project: str = "default") -> AIProjectClient:
    key = AzureKeyCredential(server.token if token is None else token)
    policy = AzureKeyCredentialPolicy(key, "Authorization", prefix="Bearer")
    return AIProjectClient(server.project(project), AnyCredential(), authentication_policy=policy)


@pytest.fixture
def client(either_server: Server) -> Iterator[AIProjectClient]:
    with sdk(either_server) as it:
        yield it


@pytest.fixture
def name() -> str:
    return f"sdk-{uuid.uuid4().hex[:12]}"


def mcp(label: str = "github", **fields: Any) -> models.MCPToolboxTool:
    return models.MCPToolboxTool(server_label=label, server_url="https://mcp.example/mcp", **fields)


def test_a_toolbox_lives_and_dies_through_the_sdk(client: AIProjectClient, name: str) -> None:
    first = client.toolboxes.create_version(name, tools=[mcp()], description="one", metadata={"team": "a"})
    assert (first.name, first.version, first.description) == (name, "1", "one")
    assert first.metadata == {"team": "a"}
    assert isinstance(first.created_at, int) or first.created_at is not None
    second = client.toolboxes.create_version(name, tools=[mcp(), models.ToolSearchToolboxTool()])
    assert second.version == "2"

    box = client.toolboxes.get(name)
    assert (box.default_version, box.versions.latest.version) == ("1", "2")
    assert client.toolboxes.update(name, default_version="2").default_version == "2"
    assert client.toolboxes.get(name).default_version == "2"
    assert client.toolboxes.get_version(name, "1").tools[0]["server_label"] == "github"

    client.toolboxes.delete_version(name, "1")
    assert [v.version for v in client.toolboxes.list_versions(name)] == ["2"]
    client.toolboxes.delete(name)
    with pytest.raises(ResourceNotFoundError):
        client.toolboxes.get(name)


def test_lists_end_and_hold_every_item_once_past_one_page(client: AIProjectClient, name: str) -> None:
    for _ in range(25):
        client.toolboxes.create_version(name, tools=[mcp()])
    numbers = [int(v.version) for v in client.toolboxes.list_versions(name)]
    assert numbers == list(range(25, 0, -1))
    for limit in (1, 7, 24, 25, 26, 100):
        assert [int(v.version) for v in client.toolboxes.list_versions(name, limit=limit, order="asc")] == list(
            range(1, 26)
        )
    boxes = {f"{name}-{i}" for i in range(23)}
    for box in boxes:
        client.toolboxes.create_version(box, tools=[mcp()])
    seen = [b.name for b in client.toolboxes.list(limit=5) if b.name.startswith(f"{name}-")]
    assert sorted(seen) == sorted(boxes)
    pages = list(client.toolboxes.list(limit=10).by_page())
    assert len(pages) >= 3


def test_the_before_cursor_of_the_sdk_gives_the_items_before(client: AIProjectClient, name: str) -> None:
    versions = [client.toolboxes.create_version(name, tools=[mcp()]) for _ in range(6)]
    before = client.toolboxes.list_versions(name, order="asc", limit=2, before=versions[4].id)
    assert [v.version for v in before] == ["3", "4"]


def every_kind_of_tool() -> list[models.ToolboxTool]:
    return [
        mcp(
            "docs",
            headers={"X-Trace": "on"},
            require_approval="never",
            allowed_tools=["search"],
            tool_configs={
                "*": models.ToolConfig(additional_search_text="documentation"),
                "search": models.ToolConfig(pin=True),
            },
        ),
        models.OpenApiToolboxTool(
            openapi=models.OpenApiFunctionDefinition(
                name="pets",
                spec={"openapi": "3.0.0", "info": {"title": "pets", "version": "1"}, "paths": {}},
                auth=models.OpenApiAnonymousAuthDetails(),
            )
        ),
        models.WebSearchToolboxTool(name="web"),
        models.FileSearchToolboxTool(name="files", vector_store_ids=["vs_1"]),
        models.AzureAISearchToolboxTool(
            name="search",
            azure_ai_search=models.AzureAISearchToolResource(
                indexes=[models.AISearchIndexResource(project_connection_id="c", index_name="i")]
            ),
        ),
        models.CodeInterpreterToolboxTool(name="code"),
        models.A2APreviewToolboxTool(name="peer", base_url="https://agent.example"),
        models.WorkIQPreviewToolboxTool(name="work", project_connection_id="c"),
        models.FabricIQPreviewToolboxTool(name="fabric", project_connection_id="c"),
        models.ToolboxSearchPreviewToolboxTool(),
    ]


def test_every_tool_class_of_the_sdk_is_stored_and_read_back(client: AIProjectClient, name: str) -> None:
    tools = every_kind_of_tool()
    content = models.SkillInlineContent(description="How to review", instructions="Look twice.")
    skills = [client.beta.skills.create("review", inline_content=content) for _ in range(2)]
    created = client.toolboxes.create_version(
        name,
        tools=tools,
        skills=[models.ToolboxSkillReference(name="review", version=skills[1].version)],
        policies=models.ToolboxPolicies(rai_config=models.RaiConfig(rai_policy_name="Default")),
    )
    read = client.toolboxes.get_version(name, created.version)
    assert [type(t) for t in read.tools] == [type(t) for t in tools]
    assert read.tools[0].tool_configs["search"].pin is True
    assert read.tools[0].headers["X-Trace"].startswith("sealed:")
    assert read.skills[0]["name"] == "review"
    assert read.policies.rai_config.rai_policy_name == "Default"


def test_the_directive_spelt_by_hand_reads_as_the_sdks_class(client: AIProjectClient, name: str) -> None:
    body = {"tools": [{"type": "toolbox_search_preview"}, {"type": "web_search"}]}
    client.toolboxes.create_version(name, body)
    tools = client.toolboxes.get(name).versions.latest.tools
    assert isinstance(tools[0], models.ToolboxSearchPreviewToolboxTool)
    assert isinstance(tools[1], models.WebSearchToolboxTool)


def test_failures_become_the_sdks_exceptions(either_server: Server, name: str) -> None:
    with sdk(either_server) as client:
        for call in (
            lambda: client.toolboxes.get(name),
            lambda: client.toolboxes.get_version(name, "1"),
            lambda: client.toolboxes.delete(name),
            lambda: list(client.toolboxes.list_versions(name)),
        ):
            with pytest.raises(ResourceNotFoundError) as missing:
                call()
            assert missing.value.error is not None
            assert missing.value.error.code == "not_found"
        client.toolboxes.create_version(name, tools=[mcp()])
        client.toolboxes.create_version(name, tools=[mcp()])
        with pytest.raises(HttpResponseError) as refused:
            client.toolboxes.delete_version(name, "1")
        assert refused.value.status_code == 400
        assert refused.value.error is not None
        assert refused.value.error.code == "bad_request"
        with pytest.raises(HttpResponseError) as invalid:
            client.toolboxes.create_version(name, tools=[mcp(), mcp()])
        assert invalid.value.error is not None
        assert invalid.value.error.code == "invalid_payload"
        assert "Multiple tools without identifiers found" in invalid.value.message
    with sdk(either_server, token="nobody-issued-this") as stranger, pytest.raises(ClientAuthenticationError):
        stranger.toolboxes.get(name)
    with sdk(either_server, project="nowhere") as lost, pytest.raises(ResourceNotFoundError):
        list(lost.toolboxes.list())
