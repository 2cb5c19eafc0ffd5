"""The two tools we add, `tool_search` and `call_tool`: their definitions, their answers, their common misuses.

It says what the model reads and understands what the model meant. It does not rank, remember reveals or execute.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from toolcrib.client.tool import DeferrablePolicy, Tool

SEARCH = "tool_search"
CALL = "call_tool"

# A browsing answer must not bring back what deferral saved: 400 names are about 2,000 tokens.
MAX_NAMES = 400
_NAMES_IN_DESCRIPTION = 40

NOTE: dict[str, str] = {
    "reveal": (
        "To save context, most of your tools are listed without their parameters. Before you call such a tool, call "
        f"`{SEARCH}` with its exact name, or with a few words about what you need; the answer brings the full "
        "parameters, and from then on you call the tool directly. Tools listed with parameters need no search."
    ),
    "bridge": (
        f"You have more tools than are listed. Call `{SEARCH}` with a tool's exact name, or with a few words about "
        f"what you need, to get matching tools with their parameters; then run one with `{CALL}`. Search before you "
        "say that you cannot help."
    ),
    "referenced": (
        f"You have more tools than are listed. Call `{SEARCH}` with a tool's exact name, or with a few words about "
        "what you need, to load matching tools; then call them directly. Search before you say that you cannot help."
    ),
}

_QUERY: dict[str, object] = {
    "type": "string",
    "description": "A tool's exact name, or words about the task. Empty: list names.",
}


def search_tool(hidden: Sequence[str] = ()) -> Tool:
    """`tool_search`. In bridge mode `hidden` names what is behind it: a search tool that does not say is not called."""
    description = "Search the available tools and load their full parameter schemas."
    if hidden:
        shown = ", ".join(hidden[:_NAMES_IN_DESCRIPTION])
        rest = len(hidden) - _NAMES_IN_DESCRIPTION
        description += f" Behind it: {shown}" + (f" and {rest} more." if rest > 0 else ".")
    schema = {"type": "object", "properties": {"query": _QUERY}, "required": ["query"]}
    return Tool(SEARCH, description, schema, DeferrablePolicy.NEVER)


def call_tool() -> Tool:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": f"A tool found with {SEARCH}."},
            "arguments": {"type": "object", "description": "Its arguments, as its inputSchema says."},
        },
        "required": ["name", "arguments"],
    }
    return Tool(CALL, f"Call a tool found with {SEARCH}.", schema, DeferrablePolicy.NEVER)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search answers: tools with their schemas, or names to choose from and a sentence why."""

    tools: tuple[Tool, ...] = ()
    names: tuple[str, ...] = ()
    message: str = ""

    def as_json(self) -> dict[str, object]:
        body: dict[str, object] = {"tools": [tool.as_mcp() for tool in self.tools]}
        if self.message:
            body["message"] = self.message
            body["available_tools"] = list(self.names[:MAX_NAMES])
        return body

    @property
    def text(self) -> str:
        return json.dumps(self.as_json(), ensure_ascii=False, separators=(",", ":"))


def browse(names: Sequence[str]) -> Found:
    return Found(names=tuple(names), message=f"{_counted(names)} Search by name to load one.")


def nothing_found(query: str, names: Sequence[str]) -> Found:
    return Found(names=tuple(names), message=f"No tool matches {query!r}. {_counted(names)} Try one of them.")


def _counted(names: Sequence[str]) -> str:
    if len(names) > MAX_NAMES:
        return f"The first {MAX_NAMES} of {len(names)} tools are named here."
    return f"{len(names)} tools are available."


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of the agent's own tools, as the model meant it."""

    name: str
    arguments: dict[str, object]


def read_arguments(arguments: object) -> dict[str, object]:
    """Arguments as an object. Models also send them as JSON text, or not at all."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            return {}
    return dict(cast("Mapping[str, object]", arguments)) if isinstance(arguments, Mapping) else {}


def read_call(arguments: dict[str, object]) -> Call:
    """What `call_tool` was asked to call. A name nested inside `arguments`, a common slip, is lifted out; arguments
    left beside the name are taken as meant. The name is empty when there is none."""
    rest = dict(arguments)
    name = rest.pop("name", None) or rest.pop("tool_name", None)
    inner = read_arguments(rest.pop("arguments", None))
    if not name:
        name = inner.pop("name", None) or inner.pop("tool_name", None)
        if "arguments" in inner:
            inner = read_arguments(inner["arguments"])
    return Call(str(name or ""), inner or rest)
