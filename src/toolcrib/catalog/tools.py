"""A tool as a version offers it: its definition as JSON text, ready to be joined into a list under any name.

Text is encoded once and shared where it repeats; decoding waits until somebody asks. Knows one source's entry and
record; deliberately not the other sources, so it does not know whether its name can be served.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from toolcrib.catalog import definitions, schemas
from toolcrib.catalog.entries import Entry
from toolcrib.catalog.names import Name
from toolcrib.catalog.records import Held, Noted, Record
from toolcrib.domain import Json, JsonObject

Visibility = Literal["", "pinned", "auto_pinned", "system_pinned"]

VISIBILITY_KEY = "com.microsoft.foundry/tool_visibility"
DRIFT_KEY = "io.toolcrib/drift"

_OURS = ("tool_configuration", "com.microsoft.foundry/", "anthropic/alwaysLoad", "io.toolcrib/")
# Shared: ten thousand tools without annotations need no dictionaries of their own.
_NO_HEADERS: Mapping[tuple[str, ...], str] = {}
_NO_ANNOTATIONS: Mapping[str, Any] = {}


def meta_of(visibility: Visibility) -> bytes:
    """The fields of `_meta` that say a tool is pinned, to be joined after others; empty when it is not."""
    if not visibility:
        return b""
    return b',"%b":"%b","anthropic/alwaysLoad":true' % (VISIBILITY_KEY.encode(), visibility.encode())


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of a version. `body` is its definition without name and `_meta`, `meta` its `_meta` left open."""

    name: Name
    type: str
    body: bytes = field(repr=False)
    meta: bytes = field(repr=False)
    digest: str
    schema_digest: bytes = field(repr=False)
    headers: Mapping[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str], hash=False)
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    pin: bool = False
    keywords: str = ""
    described: bool = True
    quarantine: str = ""
    blocked: str = ""

    @property
    def label(self) -> str:
        return self.name.label

    @property
    def upstream_name(self) -> str:
        return self.name.tool

    @property
    def is_listed(self) -> bool:
        return not self.quarantine

    @property
    def is_repeatable(self) -> bool:
        """Whether its upstream says that calling it twice is as good as calling it once."""
        return self.annotations.get("readOnlyHint") is True or self.annotations.get("idempotentHint") is True

    @property
    def input_schema(self) -> JsonObject:
        return cast(JsonObject, self.definition["inputSchema"])

    @property
    def definition(self) -> JsonObject:
        """The definition as exposed, without name and `_meta`; decoded anew each time."""
        return cast(JsonObject, msgspec.json.decode(b"{" + self.body[1:] + b"}"))

    def plain(self, name: str) -> bytes:
        """The JSON text of the tool without `_meta`: all that a model needs."""
        return b'{"name":%b%b}' % (msgspec.json.encode(name), self.body)

    def encoded(self, name: str, visibility: Visibility | None = None) -> bytes:
        """The JSON text of the tool under one of its names; pinned as the version says, or as `visibility` does."""
        shown: Visibility = visibility if visibility is not None else "pinned" if self.pin else ""
        spelled = msgspec.json.encode(name)
        return b'{"name":%b%b,"_meta":%b%b}}' % (spelled, self.body, self.meta, meta_of(shown))


def prepare(entry: Entry, record: Record) -> tuple[Tool, ...]:
    """The tools this entry brings, by upstream name; quarantined ones too, so that a call can be told why."""
    configuration = _open_object({"tool_configuration": entry.configuration})
    return tuple(_tools(entry, record, configuration))


def _tools(entry: Entry, record: Record, configuration: bytes) -> Iterator[Tool]:
    for held in record.tools:
        raw = held.accepted or held.offered
        if raw is None:
            if entry.admits(held.name, {}) and not entry.read_only:
                yield _unseen(entry, held, configuration)
            continue
        shown = definitions.cleaned(bytes(raw))
        annotations = _object(shown.get("annotations"))
        if entry.admits(held.name, annotations):
            yield _tool(entry, held, shown, annotations, configuration)


def _tool(entry: Entry, held: Held, shown: JsonObject, annotations: JsonObject, configuration: bytes) -> Tool:
    foreign = _object(shown.pop("_meta", None))
    shown.pop("name", None)
    found = schemas.particulars(cast(JsonObject, shown["inputSchema"]))
    body = b"," + msgspec.json.encode(shown)[1:-1]
    meta = _meta(configuration, foreign, held)
    config = entry.config(held.name)
    hidden = held.state == "quarantined" or held.accepted is None
    return Tool(
        name=Name(entry.label, held.name),
        type=entry.type,
        body=body,
        meta=meta,
        digest=hashlib.sha256(b"%b\0%b" % (body, meta)).hexdigest()[:32],
        schema_digest=found.digest,
        headers=found.headers or _NO_HEADERS,
        annotations=annotations or _NO_ANNOTATIONS,
        pin=config.pin,
        keywords=config.keywords,
        described=bool(shown.get("description")),
        quarantine=_why(held) if hidden else "",
        blocked=held.reason if held.blocks and not hidden else "",
    )


def _unseen(entry: Entry, held: Held, configuration: bytes) -> Tool:
    """A tool whose only definition we refused to hold: it has a name and a reason."""
    return Tool(Name(entry.label, held.name), entry.type, b"", configuration, "", b"", quarantine=_why(held))


def _why(held: Held) -> str:
    return held.reason or "It changed in a way that nobody has accepted yet."


def _meta(configuration: bytes, foreign: JsonObject, held: Held) -> bytes:
    """The upstream's `_meta` with ours on top. Most tools have nothing of their own and share one text."""
    own: JsonObject = {key: value for key, value in foreign.items() if not key.startswith(_OURS)}
    if held.state or held.noted:
        own[DRIFT_KEY] = {"state": held.state or "flagged", "changes": noted(held.noted)}
    if not own:
        return configuration
    return configuration + b"," + msgspec.json.encode(own)[1:-1]


def noted(changes: Iterable[Noted]) -> list[JsonObject]:
    return [{"grade": change.grade, "path": change.path, "change": change.sentence} for change in changes]


def _open_object(value: JsonObject) -> bytes:
    return msgspec.json.encode(value)[:-1]


def _object(value: Json) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}
