"""An upstream as people write them: the official SDK's low-level server with one tool, over stateless JSON.

`uvicorn bench.sdk_upstream:app`.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from bench.raw_apps import _ECHO

_TOOL = types.Tool(name="echo", description=_ECHO["description"], input_schema=_ECHO["inputSchema"])


async def _list(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[_TOOL])


async def _call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = str((params.arguments or {}).get("text", ""))
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


app = Server("bench", version="1", on_list_tools=_list, on_call_tool=_call).streamable_http_app(
    json_response=True, stateless_http=True
)
