"""Skills as agents meet them: in resources/list beside what upstreams offer, by URI, and by the skills extension."""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import socket
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skill_kit import ERAS, attach, create, md, read, rpc

from conformance.upstream import fixture_upstream
from kit.running import Server, running
from toolcrib.demo import commands

EXTENSION = "io.modelcontextprotocol/skills"


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with fixture_upstream() as url:
        yield url


@pytest.mark.parametrize("era", ERAS)
def test_the_list_names_each_skill_and_the_index_beside_what_upstreams_offer(
    client: httpx2.Client, name: str, upstream: str, era: str
) -> None:
    create(client, name, description="When to use it.")
    entry = {"type": "mcp", "server_label": "fixture", "server_url": upstream}
    attach(client, name, name, tools=[entry])
    listed = rpc(client, name, "resources/list", era=era)["result"]["resources"]
    by_uri = {resource["uri"]: resource for resource in listed}
    assert by_uri["skill://index.json"]["mimeType"] == "application/json"
    skill = by_uri[f"skill://{name}/SKILL.md"]
    assert (skill["name"], skill["description"], skill["mimeType"]) == (name, "When to use it.", "text/markdown")
    assert any(not uri.startswith("skill://") for uri in by_uri)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("directive", [[], [{"type": "toolbox_search"}]], ids=["plain", "under search"])
def test_skills_are_seen_whether_or_not_tools_are_hidden(
    client: httpx2.Client, name: str, era: str, directive: list[dict[str, Any]]
) -> None:
    create(client, name)
    attach(client, name, name, tools=directive)
    listed = rpc(client, name, "resources/list", era=era)["result"]["resources"]
    assert [r["uri"] for r in listed] == ["skill://index.json", f"skill://{name}/SKILL.md"]
    assert len(rpc(client, name, "tools/list", era=era)["result"]["tools"]) == (2 if directive else 0)


@pytest.mark.parametrize("era", ERAS)
def test_the_index_says_what_the_contract_says_with_digests_that_hold(
    client: httpx2.Client, name: str, era: str
) -> None:
    single, several = f"{name}-1", f"{name}-2"
    create(client, single, {"SKILL.md": md(single, "One file.")})
    create(client, several, {"SKILL.md": md(several, "Two files."), "references/a.md": b"A"})
    attach(client, name, single, several)
    content = read(client, name, "skill://index.json", era)
    assert content["mimeType"] == "application/json"
    index = json.loads(content["text"])
    assert index["$schema"] == "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
    one, two = index["skills"]
    assert (one["name"], one["type"], one["description"]) == (single, "skill-md", "One file.")
    assert "archive" not in one
    assert two["archive"]["url"] == f"skill://{several}.zip"
    for entry in (one, two):
        text = read(client, name, entry["url"], era)["text"]
        assert digest(text.encode()) == entry["digest"]
    blob = read(client, name, two["archive"]["url"], era)
    packed = base64.b64decode(blob["blob"])
    assert (blob["mimeType"], digest(packed), len(packed)) == (
        "application/zip",
        two["archive"]["digest"],
        two["archive"]["size"],
    )
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.namelist() == ["SKILL.md", "references/a.md"]
    assert packed == client.get(f"/skills/{several}/content").content


FILES = {
    "references/guide.md": b"# Guide\r\n",
    "scripts/run.py": b"print('hi')\n",
    "data/table.json": b'{"a": 1}',
    "assets/logo.png": b"\x89PNG\r\n\x1a\n\0\0",
    "assets/not text.bin": b"\xff\xfe",
    "notes/größe #1.txt": "ä".encode(),
    "LICENSE": b"Free.",
    "empty.txt": b"",
}


@pytest.mark.parametrize("era", ERAS)
def test_every_file_of_a_skill_can_be_read_and_has_the_digest_and_size_it_is_listed_with(
    client: httpx2.Client, name: str, era: str
) -> None:
    files = {"SKILL.md": md(name, more="license: MIT\nallowed-tools: a b\nmetadata:\n  v: '1'\n"), **FILES}
    create(client, name, files)
    attach(client, name, name)
    entries = rpc(client, name, "skills/list", era=era)["result"]["skills"]
    assert [e["uri"] for e in entries] == [f"skill://{name}/SKILL.md"]
    got = rpc(client, name, "skills/get", {"uri": entries[0]["uri"]}, era)["result"]["skill"]
    assert got == entries[0]
    assert got["frontmatter"] == {
        "name": name,
        "description": "For tests.",
        "license": "MIT",
        "allowed-tools": "a b",
        "metadata": {"v": "1"},
    }
    assert len(got["resources"]) == len(files)
    for resource, data in zip(got["resources"], (files[path] for path in sorted(files)), strict=True):
        content = read(client, name, resource["uri"], era)
        served = content["text"].encode() if "text" in content else base64.b64decode(content["blob"])
        assert (content["uri"], served) == (resource["uri"], data)
        assert (digest(served), len(served)) == (resource["digest"], resource["size"])
    unescaped = read(client, name, f"skill://{name}/notes/größe #1.txt", era)
    assert unescaped["uri"] == f"skill://{name}/notes/gr%C3%B6%C3%9Fe%20%231.txt"


def test_the_stateless_era_says_how_long_an_answer_may_be_kept_and_declares_the_extension(
    client: httpx2.Client, name: str
) -> None:
    create(client, name)
    attach(client, name, name)
    for method, params in (
        ("skills/list", {}),
        ("skills/get", {"uri": f"skill://{name}/SKILL.md"}),
        ("resources/read", {"uri": "skill://index.json"}),
    ):
        result = rpc(client, name, method, params, "stateless")["result"]
        assert result["resultType"] == "complete"
        assert result["ttlMs"] >= 0
        assert result["cacheScope"] == "private"
    capabilities = rpc(client, name, "server/discover", era="stateless")["result"]["capabilities"]
    assert capabilities["extensions"] == {EXTENSION: {}}
    assert "resources" in capabilities


@pytest.mark.parametrize("era", ERAS)
def test_what_is_not_there_is_not_found(client: httpx2.Client, name: str, era: str) -> None:
    missing = -32602 if era == "stateless" else -32002
    client.post(f"/toolboxes/{name}/versions", json={"tools": [{"type": "web_search"}]})
    assert rpc(client, name, "resources/list", era=era)["result"]["resources"] == []
    assert rpc(client, name, "skills/list", era=era)["result"]["skills"] == []
    refused = rpc(client, name, "resources/read", {"uri": "skill://index.json"}, era)["error"]
    assert (refused["code"], refused["data"]) == (missing, {"uri": "skill://index.json"})
    refused = rpc(client, name, "skills/get", {"uri": "skill://nobody/SKILL.md"}, era)["error"]
    assert refused["code"] == -32602


# --- X2: tricks with URIs --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(server: Server) -> Iterator[httpx2.Client]:
    """A toolbox `guarded` with the skill `shown`, pinned to version 1, beside things it must not show."""
    with server.client() as client:
        client.post(f"{server.address}/api/projects", json={"name": "strangers"}).raise_for_status()
        with server.client() as stranger:
            stranger.base_url = httpx2.URL(server.project("strangers"))
            create(stranger, "foreign", {"SKILL.md": md("foreign", "SECRET")})
            create(stranger, "shown", {"SKILL.md": md("shown", "SECRET"), "secret.md": b"SECRET"})
        create(client, "hidden", {"SKILL.md": md("hidden", "SECRET"), "secret.md": b"SECRET"})
        create(client, "shown", {"SKILL.md": md("shown"), "a/b.md": b"B"})
        create(client, "shown", {"SKILL.md": md("shown", "SECRET"), "secret.md": b"SECRET"})
        attach(client, "guarded", "shown@1")
        yield client


PARTS = st.sampled_from(
    [
        "..",
        ".",
        "%2e%2e",
        "%2E.",
        "..%2f",
        "%2F",
        "\\",
        "%5c",
        "shown",
        "hidden",
        "foreign",
        "strangers",
        "secret.md",
        "SKILL.md",
        "a",
        "b.md",
        "index.json",
        "versions",
        "2",
        "@2",
        "?version=2",
        "#x",
        "%00",
        "shown.zip",
        "hidden.zip",
        "",
    ]
)
URIS = st.builds(
    lambda scheme, parts: scheme + "/".join(parts),
    st.sampled_from(["skill://", "skill:", "SKILL://", "skill:///"]),
    st.lists(PARTS, min_size=1, max_size=6),
)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(URIS, min_size=100, max_size=100))
def test_no_trick_with_a_uri_reads_what_is_not_attached(guarded: httpx2.Client, uris: list[str]) -> None:
    """50 × 100 URIs: whatever answers is one of the four things that are there."""
    batch = [
        {"jsonrpc": "2.0", "id": at, "method": "resources/read", "params": {"uri": uri}} for at, uri in enumerate(uris)
    ]
    answer = guarded.post("/toolboxes/guarded/mcp", json=batch)
    assert "SECRET" not in answer.text
    for item in answer.json():
        if "result" in item:
            uri = item["result"]["contents"][0]["uri"]
            assert uri in ("skill://index.json", "skill://shown/SKILL.md", "skill://shown/a/b.md", "skill://shown.zip")
            assert uris[item["id"]] == uri


# --- changes ---------------------------------------------------------------------------------------------------------


class Listening:
    """An open stream of changes; what arrives is collected as it comes."""

    def __init__(self, server: Server, toolbox: str, session: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._arrived = threading.Condition()
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self._connection.connect()
        self._socket = self._connection.sock
        headers = {
            "accept": "text/event-stream",
            "mcp-session-id": session,
            "authorization": f"Bearer {server.token}",
        }
        self._connection.request(
            "GET", f"/api/projects/default/toolboxes/{toolbox}/mcp?api-version=v1", headers=headers
        )
        self._stream = self._connection.getresponse()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Listening:
        assert self._stream.status == 200
        assert self._stream.readline().startswith(b":")  # a comment: from here on nothing is missed
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(30)
        self._stream.close()
        self._connection.close()

    def wait_for(self, method: str, uri: str | None = None) -> None:
        def arrived() -> bool:
            return any(e["method"] == method and e["params"].get("uri") == uri for e in self.events)

        with self._arrived:
            assert self._arrived.wait_for(arrived, timeout=30), self.events

    def _read(self) -> None:
        with suppress(http.client.HTTPException, OSError):
            while line := self._stream.readline():
                if line.startswith(b"data: "):
                    with self._arrived:
                        self.events.append(json.loads(line[6:]))
                        self._arrived.notify_all()


def begin(client: httpx2.Client, toolbox: str) -> str:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    return client.post(f"/toolboxes/{toolbox}/mcp", json=message).headers["mcp-session-id"]


def test_a_changed_skill_is_announced_where_it_is_attached_with_no_republish(
    server: Server, client: httpx2.Client, name: str
) -> None:
    create(client, name)
    attach(client, name, name)
    session = begin(client, name)
    uri = f"skill://{name}/SKILL.md"
    subscribe = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": uri}}
    answer = client.post(f"/toolboxes/{name}/mcp", json=subscribe, headers={"mcp-session-id": session})
    assert answer.json()["result"] == {}
    with Listening(server, name, session) as listening:
        create(client, name, description="Changed.")
        listening.wait_for("notifications/resources/list_changed")
        listening.wait_for("notifications/resources/updated", uri)
        assert "Changed." in read(client, name, uri)["text"]


def test_subscribing_to_a_skill_that_is_not_there_is_refused(client: httpx2.Client, name: str) -> None:
    create(client, name)
    attach(client, name, name)
    session = begin(client, name)
    params = {"uri": f"skill://{name}/nothing.md"}
    message = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": params}
    answer = client.post(f"/toolboxes/{name}/mcp", json=message, headers={"mcp-session-id": session})
    assert "error" in answer.json()


def test_attaching_and_detaching_is_announced_too(server: Server, client: httpx2.Client, name: str) -> None:
    create(client, name)
    attach(client, name, tools=[{"type": "web_search"}])
    with Listening(server, name, begin(client, name)) as listening:
        attach(client, name, name)
        listening.wait_for("notifications/resources/list_changed")


# --- search ----------------------------------------------------------------------------------------------------------


def test_a_skill_that_names_a_tool_makes_it_easy_to_find(tmp_path: Path) -> None:
    """The skill's words are nowhere in the tool's own text."""
    data = tmp_path / "crib"
    data.mkdir()
    command, _, _ = commands()["demo-units"]
    (data / "toolcrib.toml").write_text(f"[stdio.units]\ncommand = {json.dumps(command)}\n")
    with running(data) as server, server.client() as client:
        tools = [
            {"type": "mcp", "server_label": "units", "server_url": "stdio://units"},
            {"type": "toolbox_search"},
        ]
        attach(client, "plain", tools=tools)
        everything = rpc(client, "plain", "tools/call", {"name": "tool_search", "arguments": {"query": ""}})
        names = everything["result"]["structuredContent"]["sources"][0]["names"]
        wanted = names[-1].rpartition(".")[2]
        create(
            client,
            "bread-plan",
            description="Bake sourdough levain overnight for the Zwickau bakery.",
            allowed_tools=[f"mcp__units__{wanted}", "Bash(ls:*)"],
        )
        attach(client, "skilled", "bread-plan", tools=tools)

        def first(toolbox: str) -> str | None:
            arguments = {"query": "sourdough levain Zwickau", "limit": 1}
            answer = rpc(client, toolbox, "tools/call", {"name": "tool_search", "arguments": arguments})
            found = answer["result"]["structuredContent"]["tools"]
            return found[0]["name"] if found else None

        assert first("skilled") == f"units.{wanted}"
        create(client, "bread-plan", description="Nothing about it.", allowed_tools=[f"units.{wanted}"])
        assert first("skilled") == first("plain")
