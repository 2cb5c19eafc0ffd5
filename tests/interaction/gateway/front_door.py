"""The gateway as its clients see it: plain HTTP and JSON-RPC, in both eras, without any MCP library in between."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from tests.kit.http_twin import FaultyUpstream
from tests.kit.running import Server

MODERN = "2026-07-28"
LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
BOTH = "application/json, text/event-stream"
GUARD_S = 30.0
META = "io.modelcontextprotocol"
_numbers = itertools.count(1)
Message = dict[str, Any]


def entry(label: str, upstream: FaultyUpstream | str, **fields: Any) -> Message:
    url = upstream if isinstance(upstream, str) else upstream.url
    return {"type": "mcp", "server_label": label, "server_url": url, "require_approval": "never", **fields}


def request(method: str, params: Message | None = None, id: int | str = 1) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def stateless(method: str, params: Message | None = None, capabilities: Message | None = None) -> Message:
    meta = {f"{META}/protocolVersion": MODERN, f"{META}/clientCapabilities": capabilities or {}}
    given = params or {}
    return {**given, "_meta": {**meta, **given.get("_meta", {})}}


def routing(method: str, params: Message) -> dict[str, str]:
    """The headers of the stateless era for one request."""
    named = params.get("uri") if method == "resources/read" else params.get("name")
    headers = {"mcp-protocol-version": MODERN, "mcp-method": method, "accept": BOTH}
    if method in ("tools/call", "prompts/get", "resources/read") and named is not None:
        headers["mcp-name"] = named
    return headers


RECORD_FIELDS = ("at", "version", "principal", "label", "tool", "outcome", "duration_us", "arguments")


@dataclass(slots=True)
class Box:
    """One toolbox of a running server, spoken to as one principal."""

    server: Server
    name: str
    http: httpx2.AsyncClient
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def path(self) -> str:
        return f"toolboxes/{self.name}/mcp"

    @property
    def url(self) -> str:
        return f"{self.server.endpoint}/{self.path}?api-version=v1"

    def seen_by(self, user: str) -> Box:
        return Box(self.server, self.name, self.http, {**self.headers, "x-toolcrib-user": user})

    async def post(
        self, body: Message | list[Message] | bytes, headers: dict[str, str] | None = None, **query: str
    ) -> httpx2.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json", **self.headers, **(headers or {})}
        return await self.http.post(self.path, content=raw, headers=sent, params={"api-version": "v1", **query})

    async def legacy(
        self, method: str, params: Message | None = None, *, headers: dict[str, str] | None = None, **query: str
    ) -> Message:
        answer = await self.post(request(method, params), headers, **query)
        assert answer.status_code == 200, answer.text
        return last(answer)

    async def modern(
        self,
        method: str,
        params: Message | None = None,
        *,
        capabilities: Message | None = None,
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> Message:
        given = stateless(method, params, capabilities)
        sent = {**routing(method, given), **(headers or {})}
        return last(await self.post(request(method, given), sent, **query))

    async def call(self, name: str, arguments: Message | None = None, **query: str) -> Message:
        return (await self.legacy("tools/call", {"name": name, "arguments": arguments or {}}, **query))["result"]

    async def tools(self, **query: str) -> list[Message]:
        return (await self.legacy("tools/list", **query))["result"]["tools"]

    async def session(self, capabilities: Message | None = None, version: str = "2025-11-25") -> dict[str, str]:
        """Headers of a session that has been initialized."""
        hello = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        answer = await self.post(request("initialize", hello), {"accept": BOTH})
        assert answer.status_code == 200, answer.text
        return {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": version, "accept": BOTH}

    @asynccontextmanager
    async def events(
        self, body: Message | None, headers: dict[str, str], method: str = "POST"
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """An open event stream; iterate over its messages."""
        sent = {"content-type": "application/json", **self.headers, **headers}
        content = None if body is None else json.dumps(body).encode()
        async with self.http.stream(
            method, self.path, content=content, headers=sent, params={"api-version": "v1"}
        ) as answer:
            assert answer.status_code == 200, (answer.status_code, await answer.aread())
            if answer.headers["content-type"].startswith("application/json"):
                whole = json.loads(await answer.aread())
                yield _one(whole)
                return
            yield _messages(answer)

    async def sources(self) -> dict[str, Message]:
        answer = await self.http.get(f"toolboxes/{self.name}/sources", params={"api-version": "v1"})
        return {source["label"]: source for source in answer.json()["sources"]}

    async def refresh(self) -> dict[str, Message]:
        answer = await self.http.post(f"toolboxes/{self.name}/sources/refresh", params={"api-version": "v1"})
        assert answer.status_code == 200, answer.text
        return {source["label"]: source for source in answer.json()["sources"]}

    async def drift(self) -> dict[str, Message]:
        answer = await self.http.get(f"toolboxes/{self.name}/drift", params={"api-version": "v1"})
        return {tool["tool"]: tool for tool in answer.json()["tools"]}

    def records(self) -> list[Message]:
        """The call records of this toolbox, read from the database file itself."""
        file = self.server.data / "toolcrib.sqlite3"
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
            sql = "SELECT project, records FROM call_batches WHERE toolbox = ? ORDER BY last_at, rowid"
            batches = db.execute(sql, (self.name,)).fetchall()
        db.close()
        return [
            {"project": project, "toolbox": self.name, **dict(zip(RECORD_FIELDS, record, strict=True))}
            for project, records in batches
            for record in json.loads(records)
        ]


@dataclass(slots=True)
class Gate:
    """A running server and one HTTP client of its operator."""

    server: Server
    http: httpx2.AsyncClient

    async def box(self, *entries: Message, search: bool = False, name: str | None = None, **more: Any) -> Box:
        name = name or f"gate-{next(_numbers)}"
        tools = [*([{"type": "toolbox_search_preview"}] if search else []), *entries]
        answer = await self.http.post(
            f"toolboxes/{name}/versions", json={"tools": tools, **more}, params={"api-version": "v1"}
        )
        assert answer.status_code == 200, answer.text
        return Box(self.server, name, self.http)

    async def key(self, role: str = "agent", *, act_for_users: bool = False) -> tuple[str, str]:
        """(id, token) of a new API key."""
        body = {"role": role, "act_for_users": act_for_users}
        answer = await self.http.post("keys", json=body, params={"api-version": "v1"})
        assert answer.status_code in (200, 201), answer.text
        return answer.json()["id"], answer.json()["key"]

    async def with_key(self, box: Box, role: str = "agent", *, act_for_users: bool = False) -> Box:
        _, token = await self.key(role, act_for_users=act_for_users)
        return Box(box.server, box.name, box.http, {"authorization": f"Bearer {token}"})


@asynccontextmanager
async def gate(server: Server, **options: Any) -> AsyncIterator[Gate]:
    limits = httpx2.Limits(max_connections=400, max_keepalive_connections=50)
    async with httpx2.AsyncClient(
        base_url=server.endpoint,
        headers={"authorization": f"Bearer {server.token}"},
        trust_env=False,
        timeout=GUARD_S,
        limits=limits,
        **options,
    ) as http:
        yield Gate(server, http)


def parsed(answer: httpx2.Response) -> list[Message]:
    """All messages of an answer, JSON or events."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    found = answer.json()
    return found if isinstance(found, list) else [found]


def last(answer: httpx2.Response) -> Message:
    return parsed(answer)[-1]


def text_of(result: Message) -> str:
    return result["content"][0]["text"]


def names_of(tools: Iterable[Message]) -> list[str]:
    return [tool["name"] for tool in tools]


async def until(condition: Callable[[], Any], within_s: float = GUARD_S) -> Any:
    """Wait for something that has no event of its own; bounded."""
    async with asyncio.timeout(within_s):
        while not (found := condition()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


async def eventually(ask: Callable[[], Any], within_s: float = GUARD_S) -> Any:
    """The same for something that has to be asked for."""
    async with asyncio.timeout(within_s):
        while not (found := await ask()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


async def _one(message: Message) -> AsyncIterator[Message]:
    yield message


async def _messages(answer: httpx2.Response) -> AsyncIterator[Message]:
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])
