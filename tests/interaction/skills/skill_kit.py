"""What the tests of skills share: making skills, attaching them, and asking a toolbox over MCP in either era."""

from __future__ import annotations

import base64
from typing import Any

import httpx2

MODERN = "2026-07-28"
ERAS = ("session", "stateless")


def md(name: str, description: str = "For tests.", body: str = "Body.", more: str = "") -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n\n{body}\n".encode()


def create(client: httpx2.Client, name: str, files: dict[str, bytes] | None = None, **inline: Any) -> dict[str, Any]:
    """A new default version, from files or inline."""
    if files is not None:
        form = [("files", (path, data)) for path, data in files.items()]
        answer = client.post(f"/skills/{name}/versions", files=form, data={"default": "true"})
    else:
        content = {"description": "For tests.", "instructions": "Body.", **inline}
        answer = client.post(f"/skills/{name}/versions", json={"inline_content": content, "default": True})
    assert answer.status_code == 200, answer.text
    return answer.json()


def attach(client: httpx2.Client, toolbox: str, *skills: str, tools: list[dict[str, Any]] | None = None) -> None:
    """A new version of a toolbox with these skills (`name` or `name@version`), made its default."""
    entries = []
    for text in skills:
        name, _, version = text.partition("@")
        entries.append({"type": "skill_reference", "name": name} | ({"version": version} if version else {}))
    made = client.post(f"/toolboxes/{toolbox}/versions", json={"tools": tools or [], "skills": entries})
    assert made.status_code == 200, made.text
    client.patch(f"/toolboxes/{toolbox}", json={"default_version": made.json()["version"]}).raise_for_status()


def rpc(
    client: httpx2.Client, toolbox: str, method: str, params: dict[str, Any] | None = None, era: str = "session"
) -> dict[str, Any]:
    """The whole JSON-RPC answer."""
    params = dict(params or {})
    headers: dict[str, str] = {"accept": "application/json, text/event-stream"}
    if era == "stateless":
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers |= {"mcp-protocol-version": MODERN, "mcp-method": method}
        if method == "resources/read":
            headers["mcp-name"] = _header(params["uri"])
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return client.post(f"/toolboxes/{toolbox}/mcp", json=message, headers=headers).json()


def read(client: httpx2.Client, toolbox: str, uri: str, era: str = "session") -> dict[str, Any]:
    """The one content behind a URI."""
    contents = rpc(client, toolbox, "resources/read", {"uri": uri}, era)["result"]["contents"]
    assert len(contents) == 1
    return contents[0]


def _header(value: str) -> str:
    if value.isascii() and value == value.strip() and value.isprintable():
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
