"""Deferred tools around any `mcp.ClientSession`, in process, against the real SDK."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from client_scripts import ARGUMENTS, NAMES, RESULT, SCHEMA, TARGET
from client_small_toolbox import own_server
from mcp import Client

from toolcrib.client.adapters import mcp_session


@asynccontextmanager
async def session(page_size: int = 0, **options: Any) -> AsyncGenerator[tuple[mcp_session.DeferredSession, list[str]]]:
    called: list[str] = []
    async with Client(own_server(called, page_size)) as client:
        yield mcp_session.defer(client.session, **options), called


async def parameters(deferred: mcp_session.DeferredSession) -> dict[str, set[str]]:
    listed = (await deferred.list_tools()).tools
    return {tool.name: set(tool.input_schema.get("properties", {})) for tool in listed}


async def test_a_deferred_tool_is_found_loaded_and_called() -> None:
    async with session() as (deferred, called):
        before = await parameters(deferred)
        assert set(before) == {*NAMES, "tool_search"}
        assert before[TARGET] == set()
        found = await deferred.call_tool("tool_search", {"query": f"`{TARGET}`"})
        assert found.structured_content["tools"][0]["inputSchema"] == SCHEMA
        after = await parameters(deferred)
        assert after == before | {TARGET: set(ARGUMENTS)}
        assert mcp_session.read_result(await deferred.call_tool(TARGET, ARGUMENTS)).text == RESULT
        assert called == [TARGET]


async def test_the_bridge_lists_the_same_bytes_before_and_after() -> None:
    async with session(mode="bridge") as (deferred, called):
        before = (await deferred.list_tools()).model_dump_json()
        await deferred.call_tool("tool_search", {"query": TARGET})
        result = await deferred.call_tool("call_tool", {"name": TARGET, "arguments": ARGUMENTS})
        assert mcp_session.read_result(result).text == RESULT
        assert (await deferred.list_tools()).model_dump_json() == before
        assert called == [TARGET]


async def test_every_page_is_listed() -> None:
    async with session(page_size=3) as (deferred, _):
        assert len(await parameters(deferred)) == len(NAMES) + 1


async def test_a_wrong_name_is_an_error_result() -> None:
    async with session(mode="bridge") as (deferred, called):
        await deferred.list_tools()
        result = await deferred.call_tool("call_tool", {"name": "book_tabel", "arguments": {}})
        assert result.is_error
        assert "tool_search" in mcp_session.read_result(result).text
        assert called == []


async def test_everything_else_is_the_sessions_own() -> None:
    async with session() as (deferred, _):
        assert deferred.server_capabilities.tools is not None
