"""`toolcrib tool`: list, search and call the tools of a toolbox, as an agent would, over its MCP endpoint.

Plain JSON-RPC through the REST client; no session, no MCP library.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import click
import msgspec

from toolcrib import errors, wire
from toolcrib.cli import printing
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, ToolboxName, pairs, remote
from toolcrib.client.rest import Client

_version = click.option("--version", metavar="VERSION", help="Use this version instead of the default one.")
JsonObject = wire.JsonObject


@click.group(cls=NounGroup)
def tool() -> None:
    """List, search and call the tools of a toolbox."""


@tool.command("list")
@click.argument("toolbox", type=ToolboxName())
@_version
@click.option("--all", "everything", is_flag=True, help="Also the tools that search hides from the list.")
@remote
def list_(remote: Remote, toolbox: str, version: str | None, everything: bool) -> None:
    """List the tools an agent sees."""
    with remote.open() as client:
        tools = _list(client, toolbox, version, "all" if everything else None)
    if not remote.answers({"tools": tools}):
        _print_tools(tools)


@tool.command()
@click.argument("toolbox", type=ToolboxName())
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 10), default=5, show_default=True, help="How many at most.")
@_version
@remote
def search(remote: Remote, toolbox: str, query: str, limit: int, version: str | None) -> None:
    """Find the tools that fit QUERY, as the `tool_search` tool answers agents."""
    with remote.open() as client:
        result = _call(client, toolbox, "tool_search", {"query": query, "limit": limit}, version)
    found = cast("JsonObject", result.get("structuredContent", {}))
    if not remote.answers(found):
        if found.get("tools"):
            _print_tools(found["tools"])
        else:
            click.echo(found.get("message", "No tool matches."))


@tool.command()
@click.argument("toolbox", type=ToolboxName())
@click.argument("name")
@click.argument("arguments", required=False)
@click.option("--arg", "single", multiple=True, metavar="NAME=VALUE", help="One argument; JSON, else text. Repeatable.")
@_version
@remote
def call(
    remote: Remote, toolbox: str, name: str, arguments: str | None, single: tuple[str, ...], version: str | None
) -> None:
    """Call a tool. ARGUMENTS is a JSON object, @FILE, or - for stdin."""
    given = {**_arguments(arguments), **{key: _value(text) for key, text in pairs(single, "--arg").items()}}
    with remote.open() as client:
        result = _call(client, toolbox, name, given, version)
    if not remote.answers(result):
        for part in cast("list[JsonObject]", result.get("content", [])):
            printing.text(_readable(part))


def _list(client: Client, toolbox: str, version: str | None, expose: str | None) -> list[JsonObject]:
    tools: list[JsonObject] = []
    params: JsonObject = {}
    while True:
        page = client.rpc(toolbox, "tools/list", params, version=version, expose=expose)
        tools.extend(page["tools"])
        if not page.get("nextCursor"):
            return tools
        params = {"cursor": page["nextCursor"]}


def _call(client: Client, toolbox: str, name: str, arguments: JsonObject, version: str | None) -> JsonObject:
    """The tool's result; a result that says it is an error fails the command."""
    result = client.rpc(toolbox, "tools/call", {"name": name, "arguments": arguments}, version=version)
    if result.get("isError"):
        said = "\n".join(_readable(part) for part in cast("list[JsonObject]", result.get("content", [])))
        raise errors.SourceError(f"tool `{name}` failed: " + printing.clean(said, keep="\n\t"), source=name)
    return result


def _arguments(given: str | None) -> JsonObject:
    text = sys.stdin.read() if given == "-" else given or "{}"
    try:
        if text.startswith("@"):
            text = Path(text[1:]).read_text()
        return msgspec.json.decode(text, type=JsonObject)
    except (msgspec.DecodeError, OSError) as error:
        raise click.BadParameter(f"not a JSON object: {error}", param_hint="ARGUMENTS") from error


def _value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _readable(part: JsonObject) -> str:
    return str(part["text"]) if part.get("type") == "text" else msgspec.json.encode(part).decode()


def _print_tools(tools: list[JsonObject]) -> None:
    printing.table(("tool", "description"), ((t["name"], printing.shorten(t.get("description", ""))) for t in tools))
