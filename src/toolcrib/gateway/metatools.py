"""How `tool_search` and `call_tool` are described to a model.

The description names what is behind the search (the sources and what their tools are about), because models never call
a search tool that says nothing. Bounded, and the same bytes for the same catalog.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from toolcrib.catalog.snapshot import Snapshot
from toolcrib.domain import JsonObject, Version
from toolcrib.toolboxes.entries import DIRECTIVES

TOOL_SEARCH, CALL_TOOL = "tool_search", "call_tool"
DEFAULT_LIMIT, LARGEST_LIMIT = 5, 10
_MOST_SOURCES = 12
_MOST_AREAS = 4
_LONGEST_DESCRIPTION = 1500
_VERBS = """
    get list create update delete search find add remove set read write fetch query show describe run make send check
    count move copy by to of for in on the a all and with from is
"""
_NOT_AREAS = frozenset(_VERBS.split())
_encode = msgspec.json.Encoder().encode


def definitions(snapshot: Snapshot, version: Version) -> bytes:
    meta = {"com.microsoft.foundry/tool_visibility": "system_pinned", "anthropic/alwaysLoad": True}
    tools = [
        {
            "name": TOOL_SEARCH,
            "title": "Tool Search",
            "description": _description(snapshot, version),
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "What you want to do, in your own words, or a tool's name. Empty to browse.",
                    },
                    "limit": {"type": "integer", "minimum": 1, "maximum": LARGEST_LIMIT, "default": DEFAULT_LIMIT},
                    "detail": {
                        "type": "string",
                        "enum": ["full", "brief"],
                        "default": "full",
                        "description": "brief answers with signatures instead of full schemas.",
                    },
                    "kinds": {
                        "type": "array",
                        "items": {"type": "string", "enum": ["tools", "skills"]},
                        "default": ["tools"],
                        "description": "Name skills too to be told of guides that fit, to be read as resources.",
                    },
                },
                "required": ["query"],
            },
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
            "_meta": {"tool_configuration": {"type": _directive(version).get("type", DIRECTIVES[0])}, **meta},
        },
        {
            "name": CALL_TOOL,
            "title": "Call Tool",
            "description": "Call a tool that tool_search found, by its name, with arguments that fit its inputSchema.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The tool's name as tool_search returned it."},
                    "arguments": {"type": "object", "additionalProperties": True},
                },
                "required": ["name"],
            },
            "_meta": {"tool_configuration": {"type": _directive(version).get("type", DIRECTIVES[0])}, **meta},
        },
    ]
    return _encode(tools)[1:-1]


def _description(snapshot: Snapshot, version: Version) -> str:
    """Names what is behind the search, because models never call a search tool that says nothing."""
    own = str(_directive(version).get("description") or "").strip()
    sources = [f"{label} ({areas})" if areas else label for label, areas in _areas(snapshot)]
    more = f" and {len(sources) - _MOST_SOURCES} more sources" if len(sources) > _MOST_SOURCES else ""
    total = sum(1 for _ in snapshot.listed())
    text = (
        f"Find tools by describing what you want to do. {total} tools are available from: "
        f"{'; '.join(sources[:_MOST_SOURCES])}{more}. They are not in your tool list: search before you say that"
        " something cannot be done, then use call_tool."
    )
    return f"{own} {text}".strip()[:_LONGEST_DESCRIPTION]


def _areas(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Each source with what its tools are about: the most frequent words of their names that are not verbs."""
    words: dict[str, Counter[str]] = {}
    for _, tool in snapshot.listed():
        counted = words.setdefault(tool.label, Counter())
        counted.update(w for w in _split(tool.upstream_name) if w not in _NOT_AREAS and len(w) > 2)
    return [
        (label, ", ".join(w for w, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_MOST_AREAS]))
        for label, found in words.items()
    ]


def _split(name: str) -> list[str]:
    spaced = "".join(f" {c.lower()}" if c.isupper() else c if c.isalnum() else " " for c in name)
    return spaced.split()


def _directive(version: Version) -> JsonObject:
    return next((entry for entry in version.content.tools if entry["type"] in DIRECTIVES), JsonObject())
