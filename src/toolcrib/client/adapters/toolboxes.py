"""Opening a toolcrib toolbox for any adapter: where it is, and a plain word when the MCP SDK is not installed.

The bare install does not bring that SDK. What an MCP session is, only `mcp_session` knows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolcrib.client.toolbox import Expose, toolbox_address
from toolcrib.errors import BadSettings

if TYPE_CHECKING:
    from toolcrib.client.adapters.mcp_session import Toolbox


@asynccontextmanager
async def open_toolbox(endpoint: str | None = None, *, expose: Expose | None = None) -> AsyncGenerator[Toolbox]:
    """Connect to a toolbox, by default the one in `TOOLBOX_ENDPOINT`, and list it.

    With its own search it lists `tool_search` and `call_tool`, and deferral here steps aside; with `expose="all"` it
    lists everything, to be deferred here.
    """
    address = toolbox_address(endpoint, expose=expose)
    try:
        from toolcrib.client.adapters.mcp_session import connected
    except ModuleNotFoundError as error:
        raise BadSettings(
            f"a toolbox is reached over MCP, and the package {error.name!r} is not installed",
            hint="Install it: pip install 'mcp>=2.3,<3'.",
        ) from error
    async with connected(address) as box:
        yield box
