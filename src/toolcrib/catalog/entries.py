"""What the catalog reads of an entry: its label, which of its tools are wanted, and what of it may be shown.

An entry comes here as it was stored, unknown fields and sealed secrets included; only fields named below leave it.
Deliberately neither validates entries (they were, at create) nor knows where they lead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from toolcrib.catalog.drift import Policy
from toolcrib.domain import Json, JsonObject, SourceStatus

DIRECTIVES = frozenset({"toolbox_search", "toolbox_search_preview"})
MAX_CONFIGURATION = 4_096

# Shown to every agent. `headers`, `authorization` and `tool_configs` are absent on purpose.
_SHOWN = (
    *("name", "server_label", "server_url", "connector_id", "tunnel_id", "server_description", "project_connection_id"),
    *("require_approval", "allowed_tools", "allowed_callers", "defer_loading"),
)
_DROPPED_WHEN_LONG = ("allowed_tools", "require_approval", "server_description")


@dataclass(frozen=True, slots=True)
class ToolConfig:
    pin: bool = False
    keywords: str = ""


@dataclass(frozen=True, slots=True)
class Unserved:
    """Why an entry contributes nothing, before anything was asked of it."""

    status: SourceStatus
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Entry:
    label: str
    type: str
    raw: JsonObject
    policy: Policy
    tool_names: frozenset[str] | None
    read_only: bool
    configs: Mapping[str, ToolConfig]
    configuration: JsonObject
    unserved: Unserved | None

    def admits(self, tool: str, annotations: JsonObject) -> bool:
        """Whether `allowed_tools` lets this upstream tool in; names are compared exactly."""
        if self.tool_names is not None and tool not in self.tool_names:
            return False
        return not self.read_only or annotations.get("readOnlyHint") is True

    def config(self, tool: str) -> ToolConfig:
        return self.configs.get(tool) or self.configs.get("*") or ToolConfig()


def read_all(entries: Iterable[JsonObject]) -> tuple[Entry, ...]:
    """The sources among the entries, in order; a search directive is not a source."""
    return tuple(read(entry) for entry in entries if entry.get("type") not in DIRECTIVES)


def read(entry: JsonObject) -> Entry:
    kind = str(entry.get("type", ""))
    names, read_only = _allowed(entry.get("allowed_tools"))
    return Entry(
        label=label_of(entry),
        type=kind,
        raw=entry,
        policy=_policy(entry),
        tool_names=names,
        read_only=read_only,
        configs=_configs(entry.get("tool_configs")),
        configuration=_configuration(entry, kind),
        unserved=_unserved(entry, kind),
    )


def label_of(entry: JsonObject) -> str:
    """The one name by which an entry is known inside its version: `server_label`, `name`, or else its type."""
    openapi = _object(entry.get("openapi")).get("name")
    candidates = (entry.get("server_label"), entry.get("name"), openapi, entry.get("type"))
    return next((value for value in candidates if isinstance(value, str) and value), "")


def identity(entry: JsonObject) -> str:
    """What decides where an entry leads: entries that agree in it share one fetch."""
    leads = ("type", "server_label", "name", "server_url", "project_connection_id", "headers", "authorization")
    said = {field: entry[field] for field in leads if field in entry}
    return hashlib.sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()[:32]


def _policy(entry: JsonObject) -> Policy:
    said = _object(entry.get("toolcrib")).get("drift")
    return cast(Policy, said) if said in ("follow", "pin", "quarantine") else "default"


def _allowed(said: Json) -> tuple[frozenset[str] | None, bool]:
    if isinstance(said, dict):
        given = cast(JsonObject, said)
        names = given.get("tool_names")
        return (None if names is None else _strings(names)), given.get("read_only") is True
    return (_strings(said), False) if isinstance(said, list) else (None, False)


def _configs(said: Json) -> Mapping[str, ToolConfig]:
    found: dict[str, ToolConfig] = {}
    for name, value in _object(said).items():
        given = _object(value)
        keywords = given.get("additional_search_text")
        found[name] = ToolConfig(given.get("pin") is True, keywords if isinstance(keywords, str) else "")
    return found


def _configuration(entry: JsonObject, kind: str) -> JsonObject:
    """`_meta.tool_configuration`: the type and those of its fields that are nobody's secret."""
    shown: JsonObject = {"type": kind}
    for field in _SHOWN if kind == "mcp" else ("name",):
        value = entry.get(field)
        if value is not None and not _is_sealed(value):
            shown[field] = _without_query(value) if field == "server_url" and isinstance(value, str) else value
    # It stands in every tool: a list of ten thousand names must not be repeated ten thousand times.
    for field in _DROPPED_WHEN_LONG:
        if field in shown and len(msgspec.json.encode(shown)) > MAX_CONFIGURATION:
            del shown[field]
    return shown


def _without_query(url: str) -> str:
    """Addresses may carry keys in the user or query part; nobody needs those to know where a tool lives."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _is_sealed(value: Json) -> bool:
    return b'"sealed:' in msgspec.json.encode(value)


def _unserved(entry: JsonObject, kind: str) -> Unserved | None:
    if kind != "mcp":
        reason = f"Entries of type '{kind}' are stored, but not served by this release."
        return Unserved(SourceStatus.unsupported, reason, "Remove the entry, or wait for a release that serves it.")
    if entry.get("server_url"):
        return None
    for field in ("connector_id", "tunnel_id"):
        if entry.get(field):
            reason = f"'{field}' names a service that only its maker's cloud can reach."
            return Unserved(SourceStatus.unsupported, reason, "Give the entry a server_url instead.")
    return Unserved(SourceStatus.not_configured, "The entry has no server_url.", "Give the entry a server_url.")


def _object(value: Json) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def _strings(value: Json) -> frozenset[str]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return frozenset(item for item in items if isinstance(item, str))
