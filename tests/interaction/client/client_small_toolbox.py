"""A small MCP server that answers as a toolcrib toolbox does: with its own search, or with everything by `expose=all`.

It stands where the gateway will; it asks for a bearer token and notes what it was asked with.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import mcp_types as types
import uvicorn
from client_scripts import NAMES, SCHEMA, describe, run
from mcp.server.lowlevel import Server

TOKEN = "secret-for-tests"
SEARCH_SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["query"],
}
CALL_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["name"],
}


@dataclass
class SmallToolbox:
    url: str = ""
    queries: list[dict[str, list[str]]] = field(default_factory=list[dict[str, list[str]]])
    called: list[str] = field(default_factory=list[str])


def _own_tools() -> list[types.Tool]:
    return [types.Tool(name=name, description=describe(name), input_schema=SCHEMA) for name in NAMES]


def server_with(tools: list[types.Tool], called: list[str], page_size: int = 0) -> Server[Any]:
    async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        start = int(params.cursor) if params and params.cursor else 0
        end = start + (page_size or len(tools))
        return types.ListToolsResult(tools=tools[start:end], next_cursor=str(end) if end < len(tools) else None)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        called.append(params.name)
        arguments: dict[str, Any] = params.arguments or {}
        if params.name == "tool_search":
            found = [t for t in _own_tools() if t.name == arguments["query"]]
            return _text(json.dumps({"tools": [t.model_dump(by_alias=True, exclude_none=True) for t in found]}))
        if params.name == "call_tool":
            return _text(run(arguments["name"], arguments["arguments"]))
        return _text(run(params.name, arguments))

    return Server("small", on_list_tools=list_tools, on_call_tool=call_tool)


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


def own_server(called: list[str], page_size: int = 0) -> Server[Any]:
    """All twenty tools, listed; also in pages."""
    return server_with(_own_tools(), called, page_size)


@contextmanager
def small_toolbox() -> Generator[SmallToolbox]:
    box = SmallToolbox()
    search = [
        types.Tool(name="tool_search", description="Search the toolbox.", input_schema=SEARCH_SCHEMA),
        types.Tool(name="call_tool", description="Call a tool.", input_schema=CALL_SCHEMA),
    ]
    everything = own_server(box.called, page_size=7).streamable_http_app(json_response=True, stateless_http=True)
    by_search = server_with(search, box.called).streamable_http_app(json_response=True, stateless_http=True)
    stack = AsyncExitStack()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send, stack, [everything, by_search])
            return
        query = parse_qs(scope["query_string"].decode())
        box.queries.append(query)
        if dict(scope["headers"]).get(b"authorization") != f"Bearer {TOKEN}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})
            return
        await (everything if query.get("expose") == ["all"] else by_search)(scope, receive, send)

    with _served(app) as port:
        box.url = f"http://127.0.0.1:{port}/mcp"
        yield box


async def _live(receive: Any, send: Any, stack: AsyncExitStack, apps: list[Any]) -> None:
    await receive()
    for app in apps:
        await stack.enter_async_context(app.router.lifespan_context(app))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await stack.aclose()
    await send({"type": "lifespan.shutdown.complete"})


@contextmanager
def _served(app: Any) -> Generator[int]:
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", ws="none", lifespan="on")
    ready = threading.Event()

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            ready.set()

    server = Announcing(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(30), "the small toolbox did not start"
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
