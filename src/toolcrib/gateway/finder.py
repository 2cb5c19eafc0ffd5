"""`tool_search` and `call_tool`: the two tools that stand for all the others.

A search never ends in nothing: without a match it names near names, the sources there are, and every blocked one with
its remedy. A call through `call_tool` keeps the inner tool's identity. Ranking is `search`'s business, rights are the
opened toolbox's; this only reads arguments and words answers.
"""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
from msgspec import Raw

from toolcrib.catalog.snapshot import Snapshot, sources_meta
from toolcrib.catalog.tools import Tool
from toolcrib.domain import JsonObject, NameForm, SourceStatus, Version
from toolcrib.errors import BadAnswer, InvalidArguments, NotFound
from toolcrib.gateway import eras
from toolcrib.gateway.metatools import CALL_TOOL, DEFAULT_LIMIT, LARGEST_LIMIT, TOOL_SEARCH, definitions
from toolcrib.search import Hit
from toolcrib.toolboxes.opened import OpenToolbox, has_search

META_TOOLS = (TOOL_SEARCH, CALL_TOOL)
_SAMPLE_NAMES = 8
_MOST_SOURCES = 12
_encode = msgspec.json.Encoder().encode
_read_object = msgspec.json.Decoder(JsonObject).decode


class InnerCall(msgspec.Struct, frozen=True):
    """What `call_tool` was asked to call."""

    name: str
    arguments: bytes


def is_offered(toolbox: OpenToolbox) -> bool:
    return toolbox.expose == "search" or has_search(toolbox.version)


async def listed(toolbox: OpenToolbox, names: NameForm) -> bytes:
    """The whole tool list under search: the two meta tools, then what is pinned."""
    pinned = await toolbox.pinned_tools(names)
    both = await toolbox.remembered("finder", definitions)
    return both + (b"," + pinned if pinned else b"")


# --- tool_search -----------------------------------------------------------------------------------------------------


async def search(toolbox: OpenToolbox, arguments: bytes, names: NameForm) -> bytes:
    """A search, as the JSON text of a tool result."""
    given = _arguments(arguments)
    query = given.get("query")
    query = query.strip() if isinstance(query, str) else ""
    limit = _limit(given.get("limit"))
    kinds = _kinds(given.get("kinds"))
    skills = await toolbox.search_skills(query, limit) if "skills" in kinds else []
    if "tools" not in kinds:
        return _result({"tools": [], "skills": skills})
    snapshot = await toolbox.snapshot()
    if not query:
        return _result({**_overview(snapshot, toolbox, names), "skills": skills})
    hits = await toolbox.search(query, limit)
    if not hits:
        return _result({**await _no_match(snapshot, toolbox, query, names), "skills": skills})
    return _hits(snapshot, hits, skills, names, brief=given.get("detail") == "brief")


def _hits(
    snapshot: Snapshot, hits: list[tuple[Tool, Hit]], skills: list[JsonObject], names: NameForm, *, brief: bool
) -> bytes:
    """Definitions are joined from their stored text; a model reads the text, a program the structured content."""
    more = b',"skills":' + _encode(skills) if skills else b""
    shown = [(snapshot.name_of(tool, names), tool, hit) for tool, hit in hits]
    if brief:
        text = b'{"tools":' + _encode([_brief(name, tool) for name, tool, _ in shown]) + more + b"}"
        tools = b",".join(_encode({**_brief(name, tool), "_meta": _why(hit)}) for name, tool, hit in shown)
    else:
        text = b'{"tools":[' + b",".join(tool.plain(name) for name, tool, _ in shown) + b"]" + more + b"}"
        tools = b",".join(_with_why(tool.encoded(name), hit) for name, tool, hit in shown)
    blocked = _blocked(snapshot)
    held = b',"blocked":' + _encode(blocked) if blocked else b""
    structured = b'{"tools":[' + tools + b"]" + more + held + b"}"
    content = _encode([{"type": "text", "text": text.decode()}])
    return b'{"content":' + content + b',"structuredContent":' + structured + b',"isError":false}'


def _overview(snapshot: Snapshot, toolbox: OpenToolbox, names: NameForm) -> JsonObject:
    """What an empty query gets: every source, with how many tools it has and some of their names."""
    by_label: dict[str, list[str]] = {}
    for name, tool in snapshot.tools.named(names, toolbox.may_use):
        by_label.setdefault(tool.label, []).append(name)
    sources = [
        {
            "source": state.label,
            "status": state.status.value,
            "tools": len(by_label.get(state.label, [])),
            "names": by_label.get(state.label, [])[:_SAMPLE_NAMES],
        }
        for state in snapshot.sources
    ]
    total = sum(len(found) for found in by_label.values())
    return {
        "tools": [],
        "message": f"{total} tools. Search with a query that says what you want to do.",
        "sources": sources,
        "blocked": _blocked(snapshot),
    }


async def _no_match(snapshot: Snapshot, toolbox: OpenToolbox, query: str, names: NameForm) -> JsonObject:
    near = await toolbox.near_names(query)
    exposed = [snapshot.name_of(t, names) for n in near if (t := snapshot.find(n)) is not None]
    return {
        "tools": [],
        "message": f"No tool matches. Try other words{', one of the near names,' if exposed else ''}"
        " or an empty query to browse.",
        "near": exposed,
        "sources": [{"source": s.label, "status": s.status.value, "tools": s.tools} for s in snapshot.sources],
        "blocked": _blocked(snapshot),
    }


def _blocked(snapshot: Snapshot) -> list[JsonObject]:
    """Sources whose tools cannot be used now, and tools held back; each with its reason and remedy."""
    working = (SourceStatus.ok, SourceStatus.stale)
    sources = sources_meta(state for state in snapshot.sources if state.status not in working)
    held = [
        {"tool": d.name, "status": "quarantined", "reason": d.reason, "remedy": "toolcrib toolbox drift --accept"}
        for d in snapshot.drift
        if d.state == "quarantined"
    ]
    return sources + held[:_MOST_SOURCES]


def _brief(name: str, tool: Tool) -> JsonObject:
    definition = tool.definition
    schema = cast("JsonObject", definition.get("inputSchema") or {})
    required = set(cast("list[str]", schema.get("required") or []))
    properties = cast("JsonObject", schema.get("properties") or {})
    arguments = [f"{p}{'' if p in required else '?'}: {_type(spec)}" for p, spec in properties.items()]
    first = str(definition.get("description") or "").strip().partition("\n")[0].partition(". ")[0]
    return {"name": name, "signature": f"({', '.join(arguments)})", "description": first[:300]}


def _type(spec: Any) -> str:
    if not isinstance(spec, dict):
        return "any"
    known = cast("JsonObject", spec)
    if isinstance(known.get("enum"), list):
        return " | ".join(_encode(v).decode() for v in known["enum"][:8])
    kind = known.get("type", "any")
    if kind == "array":
        return f"{_type(known.get('items'))}[]"
    return " | ".join(map(str, cast("list[Any]", kind))) if isinstance(kind, list) else str(kind)


def _why(hit: Hit) -> JsonObject:
    found = hit.explain()
    signals = {name: round(value, 4) for name, value in found.signals.items()}
    return {
        "io.toolcrib/why": {
            "score": round(hit.score, 4),
            "terms": list(found.terms),
            "fields": list(found.fields),
            "signals": signals,
        }
    }


def _with_why(encoded: bytes, hit: Hit) -> bytes:
    return encoded[:-2] + b"," + _encode(_why(hit))[1:-1] + b"}}"


def _result(body: JsonObject) -> bytes:
    """Empty lists say nothing, but for the tools: that there are none is the answer."""
    said = {key: value for key, value in body.items() if value != [] or key == "tools"}
    text = _encode(said).decode()
    return _encode({"content": [{"type": "text", "text": text}], "structuredContent": said, "isError": False})


def _kinds(given: object) -> frozenset[str]:
    """What to search: tools unless skills are asked for, in whatever form a model sends that."""
    asked = (
        given.split(",") if isinstance(given, str) else cast("list[object]", given) if isinstance(given, list) else []
    )
    known = {str(kind).strip().lower() for kind in asked} & {"tools", "skills"}
    return frozenset(known or {"tools"})


def _limit(given: object) -> int:
    """Whatever was sent becomes a number from 1 to 10; a search is not refused for its limit."""
    if isinstance(given, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", given):
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        return DEFAULT_LIMIT
    return max(1, min(LARGEST_LIMIT, int(given)))


# --- call_tool -------------------------------------------------------------------------------------------------------


def read_call(arguments: bytes) -> InnerCall:
    """What to call, from the shapes models send: arguments as a JSON string, the name nested, arguments left flat."""
    given = _arguments(arguments)
    inner: Any = given.get("arguments")
    if isinstance(inner, str):
        inner = _parsed(inner)
    name = given.get("name")
    if not isinstance(name, str) and isinstance(inner, dict):
        nested = cast("JsonObject", inner)
        name, inner = nested.get("name"), nested.get("arguments", {k: v for k, v in nested.items() if k != "name"})
    if not isinstance(name, str) or not name.strip():
        raise InvalidArguments(
            "call_tool needs `name`, the name of the tool to call, and its `arguments`.",
            param="name",
            hint=f"send {_encode({'name': 'label.tool', 'arguments': {}}).decode()}",
        )
    if inner is None:
        inner = {key: value for key, value in given.items() if key not in ("name", "arguments")}
    if isinstance(inner, str):
        inner = _parsed(inner)
    return InnerCall(name.strip().strip("`\"'"), _encode(inner))


async def find(toolbox: OpenToolbox, name: str, names: NameForm) -> Tool:
    """The inner tool; an unknown name comes back with the nearest ones, as something the model can act on."""
    try:
        return await toolbox.tool(name, names)
    except NotFound as error:
        raise InvalidArguments(
            error.message, param="name", hint=error.hint or "use tool_search to find the right name", info=error.info
        ) from None


def identified(result: bytes, tool: Tool, version: Version) -> bytes:
    """The inner tool's result, saying whose it is."""
    head = _read_meta(result)
    identity = {
        "io.toolcrib/tool": {
            "name": tool.name.dotted,
            "source": tool.label,
            "tool": tool.upstream_name,
            "version": str(version.number),
            "digest": tool.digest,
            "annotations": dict(tool.annotations),
        }
    }
    if not bytes(head.meta):
        return eras.insert(result, b'"_meta":' + _encode(identity) + b",")
    try:
        whole = _read_object(result)
    except (msgspec.DecodeError, RecursionError):
        raise BadAnswer(f"{tool.label!r} sent a result that cannot be read.", source=tool.label) from None
    return _encode({**whole, "_meta": {**(whole.get("_meta") or {}), **identity}})


class _Head(msgspec.Struct, frozen=True, rename={"meta": "_meta"}):
    meta: Raw = Raw()


_read_meta = msgspec.json.Decoder(_Head).decode


def _arguments(raw: bytes) -> JsonObject:
    try:
        return _read_object(raw) if raw and raw != b"null" else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidArguments("The arguments must be a JSON object.", param="arguments") from None


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
