"""Skills meet search: asked for by `kinds`, they come beside tools; unasked, they stay out of the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.kit.running import Server


@pytest.fixture
def client(server: Server) -> Iterator[httpx2.Client]:
    with server.client() as client:
        for name, about in (
            ("invoice-chasing", "How to remind late payers politely."),
            ("lathe-safety", "Safe turning."),
        ):
            body = {"inline_content": {"description": about, "instructions": "Do it well."}}
            client.post(f"/skills/{name}/versions", json=body).raise_for_status()
        references = [{"type": "skill_reference", "name": name} for name in ("invoice-chasing", "lathe-safety")]
        body = {"tools": [{"type": "toolbox_search_preview"}], "skills": references}
        client.post("/toolboxes/guides/versions", json=body).raise_for_status()
        yield client
        client.delete("/toolboxes/guides").raise_for_status()
        for name in ("invoice-chasing", "lathe-safety"):
            client.delete(f"/skills/{name}").raise_for_status()


def search(client: httpx2.Client, **arguments: Any) -> dict[str, Any]:
    params = {"name": "tool_search", "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = client.post("/toolboxes/guides/mcp", json=body).raise_for_status().json()
    return answer["result"]["structuredContent"]


def test_a_skill_is_found_when_skills_are_asked_for(client: httpx2.Client) -> None:
    found = search(client, query="a customer pays late", kinds=["skills"])
    assert found["skills"][0]["name"] == "invoice-chasing"
    assert found["skills"][0]["uri"] == "skill://invoice-chasing/SKILL.md"
    assert found["tools"] == []


def test_skills_stay_out_unless_asked_for(client: httpx2.Client) -> None:
    assert "skills" not in search(client, query="a customer pays late")


def test_an_empty_query_lists_the_skills(client: httpx2.Client) -> None:
    found = search(client, query="", kinds="tools, skills")
    assert [skill["name"] for skill in found["skills"]] == ["invoice-chasing", "lathe-safety"]
