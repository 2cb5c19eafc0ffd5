"""Deferred tools over MCP: wrap any `mcp.ClientSession`, or open a toolcrib toolbox.

`DeferredSession` is used where a session was: its `list_tools` holds schemas back and its `call_tool` answers searches.
The only client module that knows the MCP SDK; it does not know what the server behind the session is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Unpack

import httpx2
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent
from mcp_types import Tool as McpTool

from toolcrib.client.adapters.options import DeferralOptions, LiveTools
from toolcrib.client.conversation import Outcome
from toolcrib.client.finder import Found
from toolcrib.client.tool import Tool, read_tool
from toolcrib.client.toolbox import Expose, ToolboxAddress, toolbox_address
from toolcrib.errors import NotFound

# A server may hold an answer open while a tool works.
_TIMEOUT = httpx2.Timeout(30.0, read=300.0)


class DeferredSession:
    """A `ClientSession` whose tools are deferred; everything else is the session's own."""

    def __init__(self, session: ClientSession, key: Hashable, options: DeferralOptions) -> None:
        self._session = session
        self._key = key
        self._live = LiveTools(options)
        self._turn = self._live.turn(key, ())
        self._listed: dict[str, McpTool] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def list_tools(self) -> ListToolsResult:
        """Every page of the session's tools as one list, schemas the model has not asked for held back."""
        self._listed = {tool.name: tool for tool in await list_all(self._session)}
        self._turn = self._live.turn(self._key, (read_mcp_tool(tool) for tool in self._listed.values()))
        return ListToolsResult(tools=[self._render(tool) for tool in self._turn.listed()])

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *args: Any, **kwargs: Any
    ) -> CallToolResult:
        """Answer a search here; send everything else, bridged or direct, to the session."""
        if not self._turn.deferred.is_active:
            return await self._session.call_tool(name, arguments, *args, **kwargs)
        try:
            routed = self._turn.route(name, arguments or {})
        except NotFound as error:
            return CallToolResult(content=[TextContent(text=f"{error.message}. {error.hint}")], is_error=True)
        if isinstance(routed, Found):
            return CallToolResult(content=[TextContent(text=routed.text)], structured_content=routed.as_json())
        return await self._session.call_tool(routed.name, dict(routed.arguments), *args, **kwargs)

    def _render(self, tool: Tool) -> McpTool:
        schema = dict(tool.schema)
        listed = self._listed.get(tool.name)
        if listed is not None:
            return listed.model_copy(update={"input_schema": schema}) if tool.is_stub else listed
        return McpTool(name=tool.name, description=tool.description, input_schema=schema)


def defer(session: ClientSession, key: Hashable = "session", **options: Unpack[DeferralOptions]) -> DeferredSession:
    """Wrap a session. One MCP session usually serves one conversation; give each its own `key` if it serves more."""
    return DeferredSession(session, key, options)


@asynccontextmanager
async def toolbox(
    endpoint: str | None = None,
    *,
    expose: Expose | None = None,
    key: Hashable = "session",
    **options: Unpack[DeferralOptions],
) -> AsyncGenerator[DeferredSession]:
    """A deferred session with a toolcrib toolbox, by default the one in `TOOLBOX_ENDPOINT`."""
    async with connected(toolbox_address(endpoint, expose=expose)) as box:
        yield DeferredSession(box.client.session, key, options)


@dataclass(frozen=True, slots=True)
class Toolbox:
    """An open toolbox: its tools as listed when it was opened, and a way to run them."""

    client: Client
    tools: tuple[Tool, ...]

    async def run(self, name: str, arguments: Mapping[str, object]) -> Outcome:
        return read_result(await self.client.call_tool(name, dict(arguments)))


@asynccontextmanager
async def connected(address: ToolboxAddress) -> AsyncGenerator[Toolbox]:
    async with (
        httpx2.AsyncClient(headers=address.headers, timeout=_TIMEOUT) as http,
        Client(streamable_http_client(address.url, http_client=http)) as client,
    ):
        yield Toolbox(client, tuple(read_mcp_tool(tool) for tool in await list_all(client.session)))


async def list_all(session: ClientSession) -> list[McpTool]:
    """Every page of `tools/list`."""
    page = await session.list_tools()
    tools = list(page.tools)
    while page.next_cursor:
        page = await session.list_tools(params=PaginatedRequestParams(cursor=page.next_cursor))
        tools += page.tools
    return tools


def read_mcp_tool(tool: McpTool) -> Tool:
    return read_tool(tool.model_dump(by_alias=True, exclude_none=True))


def read_result(result: CallToolResult) -> Outcome:
    """A tool's result as the model reads it: its text blocks, and other blocks as JSON."""
    blocks = [b.text if isinstance(b, TextContent) else b.model_dump_json(exclude_none=True) for b in result.content]
    return Outcome("\n".join(blocks), is_error=result.is_error)
