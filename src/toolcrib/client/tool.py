"""A tool as its author gives it: name, description, parameter schema and deferral policy.

The one neutral shape between the providers' and frameworks' own. It does not know how a tool is executed, nor which
session has seen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import cast

from toolcrib.errors import InvalidPayload

Schema = Mapping[str, object]

# The same field in MCP, Anthropic and OpenAI spelling.
_SCHEMA_FIELDS = ("inputSchema", "input_schema", "parameters")
_PINNED = ("system_pinned", "pinned", "auto_pinned")


class DeferrablePolicy(StrEnum):
    """Whether a tool's schema may be held back. Set by the tool's owner; an embedder overrules with `never_defer`."""

    NEVER = "never"
    AUTOMATIC = "automatic"
    ALWAYS = "always"


def stub_schema() -> dict[str, object]:
    """A fresh one each time, because frameworks edit schemas in place. Nothing shorter is accepted everywhere."""
    return {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str = ""
    schema: Schema = field(default_factory=stub_schema)
    deferrable: DeferrablePolicy = DeferrablePolicy.AUTOMATIC
    server: str = ""
    is_watched: bool = False  # approvals or guardrails know it by name, so the bridge must not hide it
    is_stub: bool = False

    def stub(self) -> Tool:
        """This tool with its parameters held back; name and description survive."""
        return replace(self, schema=stub_schema(), is_stub=True)

    def as_mcp(self) -> dict[str, object]:
        return {"name": self.name, "description": self.description, "inputSchema": dict(self.schema)}


def read_tools(sources: Iterable[Tool | Mapping[str, object]]) -> tuple[Tool, ...]:
    """Read tools in any wire spelling; two of the same name are refused, because a call could not tell them apart."""
    tools = tuple(read_tool(source) for source in sources)
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise InvalidPayload(
                f"two tools are named {tool.name!r}",
                param="tools",
                hint="Rename one of them; the model calls tools by name alone.",
            )
        seen.add(tool.name)
    return tools


def read_tool(source: Tool | Mapping[str, object]) -> Tool:
    """Read an MCP, Anthropic or OpenAI tool mapping (both OpenAI spellings)."""
    if isinstance(source, Tool):
        return source
    nested = source.get("function")
    body = cast("Mapping[str, object]", nested) if isinstance(nested, Mapping) else source
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidPayload("a tool without a name", param="tools", hint="Give every tool a non-empty `name`.")
    return Tool(
        name=name,
        description=str(body.get("description") or ""),
        schema=_schema(body),
        deferrable=_policy(source, name),
        server=str(source.get("server") or ""),
    )


def _schema(body: Mapping[str, object]) -> Schema:
    for key in _SCHEMA_FIELDS:
        if isinstance(schema := body.get(key), Mapping):
            return cast("Schema", schema)
    return stub_schema()


def _policy(source: Mapping[str, object], name: str) -> DeferrablePolicy:
    """The declared policy; else a toolbox's pin, which means the tool must stay loaded."""
    if (declared := source.get("deferrable")) is not None:
        try:
            return DeferrablePolicy(str(declared))
        except ValueError:
            raise InvalidPayload(
                f"tool {name!r} has the unknown deferrable policy {declared!r}",
                param="deferrable",
                hint="Use never, automatic or always.",
            ) from None
    meta = source.get("_meta")
    if isinstance(meta, Mapping):
        pins = cast("Mapping[str, object]", meta)
        if pins.get("anthropic/alwaysLoad") is True or pins.get("com.microsoft.foundry/tool_visibility") in _PINNED:
            return DeferrablePolicy.NEVER
    return DeferrablePolicy.AUTOMATIC
