"""The official SDK's server, run as a process: the oracle for both eras and every transport."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel


class Name(BaseModel):
    name: str


def who_is_it() -> Elicit[Name]:
    return Elicit("Who?", Name)


def build() -> MCPServer:
    server = MCPServer("oracle", version="1.2.3", instructions="Be kind.", log_level="CRITICAL")

    @server.tool()
    def echo(text: str) -> str:
        """Echo."""
        return text

    @server.tool()
    async def steps(ctx: Context[Any, Any]) -> str:
        """Three steps."""
        for step in range(3):
            await ctx.report_progress(step + 1, 3, f"step {step + 1}")
        return "done"

    @server.tool()
    async def ask(who: Annotated[Name, Resolve(who_is_it)]) -> str:
        """Ask the person."""
        return f"accept:{who.name}"

    @server.tool()
    def fails() -> str:
        """Fails."""
        raise ValueError("no")

    @server.resource("oracle://note")
    def note() -> str:
        """A note."""
        return "a note"

    @server.prompt()
    def greet(name: str) -> str:
        """Greet."""
        return f"Hello {name}"

    return server


def app(kind: str) -> Any:
    server = build()
    if kind == "sse":
        return server.sse_app()
    return server.streamable_http_app(json_response=kind == "json", stateless_http=kind == "stateless")


async def serve(ports: list[str]) -> None:
    """Every kind of HTTP server, one process: starting Python four times is what takes long."""
    configs = [
        uvicorn.Config(app(kind), port=int(port), log_level="critical", access_log=False)
        for kind, port in (given.split("=") for given in ports)
    ]
    await asyncio.gather(*(uvicorn.Server(config).serve() for config in configs))


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        build().run("stdio")
    else:
        asyncio.run(serve(sys.argv[1:]))
