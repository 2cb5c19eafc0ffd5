"""Clients we did not write: the official Python SDK, Agent Framework's FoundryToolbox, and the seed's curl lines."""

from __future__ import annotations

import io
import json
import subprocess
import uuid
import zipfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from azure.ai.projects import AIProjectClient, models
from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.core.pipeline.policies import AzureKeyCredentialPolicy
from skill_kit import attach, create, md

from kit.running import Server

CURL_S = 60


class Credential:
    """The server's token, as both Azure libraries ask for it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        return AccessToken(self._token, 1 << 40)


@pytest.fixture
def sdk(either_server: Server) -> Iterator[AIProjectClient]:
    policy = AzureKeyCredentialPolicy(AzureKeyCredential(either_server.token), "Authorization", prefix="Bearer")
    with AIProjectClient(
        either_server.endpoint, Credential(either_server.token), authentication_policy=policy
    ) as client:
        yield client


# --- azure-ai-projects -----------------------------------------------------------------------------------------------


def test_a_skill_lives_and_dies_through_the_sdk(sdk: AIProjectClient, name: str) -> None:
    skills = sdk.beta.skills
    content = models.SkillInlineContent(
        description="How we answer.",
        instructions="# Style\n\nBe kind.",
        license="MIT",
        compatibility="any",
        metadata={"team": "support"},
        allowed_tools=["docs.search"],
    )
    first = skills.create(name, inline_content=content)
    assert (first.name, first.version, first.description) == (name, "1", "How we answer.")
    second = skills.create(name, inline_content=content, default=True)
    assert second.version == "2"
    found = skills.get(name)
    assert (found.default_version, found.latest_version, found.description) == ("2", "2", "How we answer.")
    assert skills.update(name, default_version="1").default_version == "1"
    assert [v.version for v in skills.list_versions(name)] == ["2", "1"]
    assert skills.get_version(name, "1").id == first.id
    assert name in [skill.name for skill in skills.list(limit=3)]
    assert skills.delete_version(name, "2").deleted is True
    gone = skills.delete(name)
    assert (gone.name, gone.deleted) == (name, True)
    with pytest.raises(ResourceNotFoundError):
        skills.get(name)


def test_the_sdk_uploads_files_and_archives_and_downloads_what_it_uploaded(sdk: AIProjectClient, name: str) -> None:
    skills = sdk.beta.skills
    files = {"SKILL.md": md(name), "references/a.md": b"# A\n", "scripts/b.py": b"print()\n"}
    body = models.CreateSkillVersionFromFilesBody(files=list(files.items()), default=True)
    made = skills.create_from_files(name, body)
    assert (made.version, skills.get(name).default_version) == ("1", "1")
    packed = b"".join(skills.download(name))
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert {path: archive.read(path) for path in archive.namelist()} == files
    again = skills.create_from_files(
        name,
        models.CreateSkillVersionFromFilesBody(files=[(f"{name}.zip", packed, "application/zip")], default=True),
    )
    assert again["digest"] == made["digest"]
    assert skills.get(name).default_version == "2"
    assert b"".join(skills.download_version(name, "2")) == packed


def test_refusals_reach_the_sdk_as_its_own_exceptions(sdk: AIProjectClient, name: str) -> None:
    skills = sdk.beta.skills
    with pytest.raises(HttpResponseError) as invalid:
        skills.create_from_files(name, models.CreateSkillVersionFromFilesBody(files=[("README.md", b"x")]))
    assert invalid.value.error is not None
    assert invalid.value.error.code == "invalid_payload"
    skills.create(name, inline_content=models.SkillInlineContent(description="d", instructions="i"))
    sdk.toolboxes.create_version(name, tools=[], skills=[models.ToolboxSkillReference(name=name)])
    with pytest.raises(ResourceExistsError) as used:
        skills.delete(name)
    assert used.value.error is not None
    assert used.value.error.code == "skill_in_use"
    assert name in used.value.message
    assert skills.delete(name, params={"force": "true"}).deleted is True


# --- Agent Framework -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guided(server: Server) -> str:
    """The MCP address of a toolbox with a small skill and one that no archive limit of the framework would admit."""
    box = f"guided-{uuid.uuid4().hex[:8]}"
    with server.client() as client:
        create(client, "support-style", description="How we answer support questions.")
        large = {"SKILL.md": md("handbook", "The whole handbook.", "See references/page-29.md.")}
        large |= {f"references/page-{n}.md": f"Page {n}. {'text ' * 10_000}".encode() for n in range(30)}
        create(client, "handbook", large)
        attach(client, box, "support-style", "handbook")
    return f"{server.endpoint}/toolboxes/{box}/mcp?api-version=v1"


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
async def test_agent_framework_discovers_and_loads_skills_through_the_mcp_endpoint(server: Server, guided: str) -> None:
    """What an agent run would do: the provider tells the model of the skills, and its tools load them."""
    from agent_framework import AgentSession, SessionContext
    from agent_framework_foundry_hosting import FoundryToolbox

    async with FoundryToolbox(Credential(server.token), url=guided, load_tools=False) as toolbox:
        provider = toolbox.as_skills_provider()
        context = SessionContext(input_messages=[])
        agent: Any = SimpleNamespace(name="tester")
        await provider.before_run(agent=agent, session=AgentSession(), context=context, state={})
        told = "\n".join(context.instructions)
        assert "How we answer support questions." in told
        assert "The whole handbook." in told
        tools = {tool.name: tool for tool in context.tools}

        async def use(tool: str, **arguments: str) -> str:
            contents = await tools[tool].invoke(arguments=arguments)
            return "".join(content.text or "" for content in contents)

        assert "Body." in await use("load_skill", skill_name="support-style")
        assert "See references/page-29.md." in await use("load_skill", skill_name="handbook")
        page = await use("read_skill_resource", skill_name="handbook", resource_name="references/page-29.md")
        assert "Page 29. " in page
        gone = await use("read_skill_resource", skill_name="handbook", resource_name="references/page-30.md")
        assert "Page 30" not in gone


# --- the seed's curl lines -------------------------------------------------------------------------------------------


def curl(url: str, token: str, body: str) -> Any:
    """As the seed writes it: `curl -s -X POST "$URL" -H … -H … -H … -d …`."""
    command = ["curl", "-s", "-X", "POST", url, "-H", f"Authorization: Bearer {token}"]
    command += ["-H", "Content-Type: application/json", "-H", "Foundry-Features: Toolboxes=V1Preview", "-d", body]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CURL_S, check=True)
    return json.loads(done.stdout)


def test_the_seeds_raw_calls_work_as_written(server: Server, client: httpx2.Client) -> None:
    create(client, "my-skill", description="Mine.", instructions="Do it well.")
    box = f"curl-{uuid.uuid4().hex[:8]}"
    attach(client, box, "my-skill")
    url = f"{server.endpoint}/toolboxes/{box}/mcp?api-version=v1"
    listed = curl(url, server.token, '{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{}}')
    assert listed["id"] == 1
    assert [r["uri"] for r in listed["result"]["resources"]] == ["skill://index.json", "skill://my-skill/SKILL.md"]
    index = curl(
        url, server.token, '{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"skill://index.json"}}'
    )
    assert json.loads(index["result"]["contents"][0]["text"])["skills"][0]["name"] == "my-skill"
    skill = curl(
        url,
        server.token,
        '{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"skill://my-skill/SKILL.md"}}',
    )
    assert (skill["id"], "Do it well." in skill["result"]["contents"][0]["text"]) == (3, True)
