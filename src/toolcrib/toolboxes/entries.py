"""What an entry of `tools[]` may say: one frozen shape per type, and the identity rule across entries.

Validation reads a copy: the entry itself is stored as it was sent, unknown fields included (they earn a warning,
because a newer SDK must not break). Knows nothing of upstreams: whether an entry works is found out later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from toolcrib.domain import JsonObject
from toolcrib.errors import InvalidPayload

Label = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
EntryName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,128}\Z")]
NonEmpty = Annotated[str, Meta(min_length=1, max_length=2048)]
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
DIRECTIVES = ("toolbox_search_preview", "toolbox_search")
RESERVED_NAMES = ("tool_search", "call_tool")
IDENTITY_RULE = (
    "Multiple tools without identifiers found. All tools except a single tool must have unique identifiers"
    " ('name' or 'server_label')"
)


class ToolConfig(msgspec.Struct, frozen=True):
    pin: bool | None = None
    additional_search_text: Annotated[str, Meta(max_length=1000)] | None = None


class OwnSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What only toolcrib reads, under the entry's `toolcrib` key."""

    drift: Literal["follow", "pin", "quarantine"] | None = None
    autopin: Literal["on", "off"] | None = None


class Entry(msgspec.Struct, frozen=True):
    """Fields every entry may carry."""

    type: str
    name: EntryName | None = None
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    tool_configs: dict[str, ToolConfig] | None = None
    toolcrib: OwnSettings | None = None


class Secrets(msgspec.Struct, frozen=True):
    """What is sealed in an entry of any type, known to the type or not."""

    authorization: str | None = None
    headers: dict[str, str] | None = None


class ToolFilter(msgspec.Struct, frozen=True):
    tool_names: list[str] | None = None
    read_only: bool | None = None


class Approvals(msgspec.Struct, frozen=True):
    always: ToolFilter | None = None
    never: ToolFilter | None = None


Approval = Literal["always", "never"] | Approvals
Caller = Literal["direct", "programmatic"]


class McpEntry(Entry, frozen=True, kw_only=True):
    server_label: Label
    server_url: NonEmpty | None = None
    connector_id: NonEmpty | None = None
    tunnel_id: NonEmpty | None = None
    project_connection_id: NonEmpty | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    server_description: str | None = None
    allowed_tools: list[str] | ToolFilter | None = None
    require_approval: Approval | None = None
    allowed_callers: list[Caller] | None = None
    defer_loading: bool | None = None


class ConnectionScheme(msgspec.Struct, frozen=True):
    project_connection_id: NonEmpty


class IdentityScheme(msgspec.Struct, frozen=True):
    audience: NonEmpty


class AnonymousAuth(msgspec.Struct, frozen=True, tag="anonymous", tag_field="type"):
    pass


class ProjectConnectionAuth(msgspec.Struct, frozen=True, tag="project_connection", tag_field="type"):
    security_scheme: ConnectionScheme


class ConnectionAuth(msgspec.Struct, frozen=True, tag="connection", tag_field="type"):
    """Another spelling in use for the same thing."""

    connection_id: NonEmpty


class ManagedIdentityAuth(msgspec.Struct, frozen=True, tag="managed_identity", tag_field="type"):
    security_scheme: IdentityScheme | None = None
    audience: NonEmpty | None = None


class OpenApiBody(msgspec.Struct, frozen=True):
    name: EntryName
    spec: JsonObject
    auth: AnonymousAuth | ProjectConnectionAuth | ConnectionAuth | ManagedIdentityAuth
    description: str | None = None
    default_params: list[str] | None = None
    functions: list[JsonObject] | None = None


class OpenApiEntry(Entry, frozen=True, kw_only=True):
    openapi: OpenApiBody


class DomainFilter(msgspec.Struct, frozen=True):
    allowed_domains: list[str] | None = None


class CustomSearch(msgspec.Struct, frozen=True):
    project_connection_id: NonEmpty
    instance_name: NonEmpty


class WebSearchEntry(Entry, frozen=True, kw_only=True):
    filters: DomainFilter | None = None
    user_location: JsonObject | None = None
    search_context_size: Literal["low", "medium", "high"] | None = None
    external_web_access: bool | None = None
    custom_search_configuration: CustomSearch | None = None


class FileSearchEntry(Entry, frozen=True, kw_only=True):
    vector_store_ids: list[str] | None = None
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: JsonObject | None = None
    filters: JsonObject | None = None


class SearchIndex(msgspec.Struct, frozen=True):
    project_connection_id: NonEmpty | None = None
    index_name: NonEmpty | None = None
    query_type: Literal["simple", "semantic", "vector", "vector_simple_hybrid", "vector_semantic_hybrid"] | None = None
    top_k: Annotated[int, Meta(ge=1)] | None = None
    filter: str | None = None
    index_asset_id: NonEmpty | None = None


class SearchIndexes(msgspec.Struct, frozen=True):
    indexes: Annotated[list[SearchIndex], Meta(min_length=1)]


class AzureAiSearchEntry(Entry, frozen=True, kw_only=True):
    azure_ai_search: SearchIndexes


class CodeInterpreterEntry(Entry, frozen=True, kw_only=True):
    container: str | JsonObject | None = None
    allowed_callers: list[Caller] | None = None


class A2aPreviewEntry(Entry, frozen=True, kw_only=True):
    base_url: NonEmpty | None = None
    agent_card_path: str | None = None
    project_connection_id: NonEmpty | None = None
    send_credentials_for_agent_card: bool | None = None


class A2aEntry(A2aPreviewEntry, frozen=True, kw_only=True):
    a2a_version: NonEmpty


class BrowserConnection(msgspec.Struct, frozen=True):
    connection: ConnectionScheme


class BrowserEntry(Entry, frozen=True, kw_only=True):
    browser_automation: BrowserConnection


class BrowserPreviewEntry(Entry, frozen=True, kw_only=True):
    browser_automation_preview: BrowserConnection


class WorkIqEntry(Entry, frozen=True, kw_only=True):
    project_connection_id: NonEmpty


class FabricIqEntry(Entry, frozen=True, kw_only=True):
    project_connection_id: NonEmpty
    server_label: Label | None = None
    server_url: NonEmpty | None = None
    require_approval: Approval | None = None


class WebIqEntry(Entry, frozen=True, kw_only=True):
    project_connection_id: NonEmpty
    server_label: Label | None = None
    require_approval: Approval | None = None


class ShellEntry(Entry, frozen=True, kw_only=True):
    environment: JsonObject
    allowed_callers: list[Caller] | None = None


ENTRY_TYPES: dict[str, type[Entry]] = {
    "mcp": McpEntry,
    "openapi": OpenApiEntry,
    "web_search": WebSearchEntry,
    "file_search": FileSearchEntry,
    "azure_ai_search": AzureAiSearchEntry,
    "code_interpreter": CodeInterpreterEntry,
    "a2a": A2aEntry,
    "a2a_preview": A2aPreviewEntry,
    "browser_automation": BrowserEntry,
    "browser_automation_preview": BrowserPreviewEntry,
    "work_iq_preview": WorkIqEntry,
    "fabric_iq_preview": FabricIqEntry,
    "web_iq_preview": WebIqEntry,
    "shell": ShellEntry,
    "reminder_preview": Entry,
    "toolbox_search": Entry,
    "toolbox_search_preview": Entry,
}


def check_entries(entries: Sequence[JsonObject]) -> list[str]:
    """Refuse what cannot be stored; the warnings about what can."""
    warnings = [w for i, entry in enumerate(entries) for w in _check_entry(entry, f"tools[{i}]")]
    directives = [i for i, entry in enumerate(entries) if entry["type"] in DIRECTIVES]
    if len(directives) > 1:
        raise InvalidPayload(
            f"A version takes one tool search directive; tools{directives} are directives all.",
            param=f"tools[{directives[1]}]",
        )
    _check_identities(entries)
    return warnings


def identity(entry: JsonObject) -> str:
    """The one name by which an entry is known inside its version."""
    return next(_identifiers(entry), str(entry["type"]))


def _check_entry(entry: JsonObject, where: str) -> Iterator[str]:
    kind = entry.get("type")
    shape = ENTRY_TYPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        known = ", ".join(sorted(ENTRY_TYPES))
        shown = repr(kind[:100]) if isinstance(kind, str) else "missing"
        raise InvalidPayload(f"{where}.type is {shown}; known types are: {known}.", param=f"{where}.type")
    try:
        parsed = msgspec.convert(entry, shape)
        _check_secrets(msgspec.convert(entry, Secrets), where)
    except msgspec.ValidationError as error:
        raise _invalid(where, error) from None
    if isinstance(parsed, McpEntry):
        _check_mcp(parsed, where)
    if parsed.name in RESERVED_NAMES and kind not in DIRECTIVES:
        raise InvalidPayload(f"{where}.name {parsed.name!r} is a name of the tool search.", param=f"{where}.name")
    unknown = sorted(set(entry) - set(shape.__struct_fields__))
    for field in unknown:
        yield f"{where}.{field[:100]} is not a field of type {kind}; it is kept and has no effect."


def _check_mcp(entry: McpEntry, where: str) -> None:
    places = [f for f in ("server_url", "connector_id", "tunnel_id") if getattr(entry, f) is not None]
    if len(places) != 1:
        found = " and ".join(places) or "none of them"
        raise InvalidPayload(
            f"{where} needs exactly one of server_url, connector_id, tunnel_id; it has {found}.",
            param=f"{where}.server_url",
        )
    if entry.server_url is not None:
        _check_url(entry.server_url, f"{where}.server_url")


def _check_secrets(entry: Secrets, where: str) -> None:
    if not _HEADER_VALUE.fullmatch(entry.authorization or ""):
        raise InvalidPayload(f"{where}.authorization cannot be sent over HTTP.", param=f"{where}.authorization")
    for name, value in (entry.headers or {}).items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise InvalidPayload(
                f"{where}.headers has a name or value that HTTP cannot carry.", param=f"{where}.headers"
            )


def _check_url(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidPayload(f"{where} is not a URL.", param=where) from None
    if parts.scheme not in ("http", "https", "stdio") or not host or not url.isprintable() or " " in url:
        raise InvalidPayload(
            f"{where} must be an http:// or https:// URL, or stdio://NAME of a command the operator declared.",
            param=where,
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidPayload(
            f"{where} carries a user name or password.",
            param=where,
            hint="use `headers`, `authorization` or a connection",
        )


def _check_identities(entries: Sequence[JsonObject]) -> None:
    claimed: dict[str, int] = {}
    unnamed: dict[str, int] = {}
    for i, entry in enumerate(entries):
        if entry["type"] in DIRECTIVES:
            continue
        names = set(_identifiers(entry))
        if not names and (other := unnamed.setdefault(entry["type"], i)) != i:
            raise _not_unique(f"tools[{other}] and tools[{i}] are both an unnamed {entry['type']}", i)
        for name in sorted(names or {entry["type"]}):  # the unnamed one is known by its type
            if (other := claimed.setdefault(name.casefold(), i)) != i:
                raise _not_unique(f"tools[{other}] and tools[{i}] are both known as {name!r}", i)


def _identifiers(entry: JsonObject) -> Iterator[str]:
    if entry["type"] in DIRECTIVES:
        return
    body = cast("JsonObject", entry["openapi"]) if isinstance(entry.get("openapi"), dict) else {}
    for value in (entry.get("server_label"), entry.get("name"), body.get("name")):
        if isinstance(value, str):
            yield value


def _not_unique(what: str, index: int) -> InvalidPayload:
    return InvalidPayload(f"{IDENTITY_RULE}: {what}.", param=f"tools[{index}]")


def _invalid(where: str, error: msgspec.ValidationError) -> InvalidPayload:
    """msgspec says `… - at `$.a.b``; we name the field from the body's root."""
    what, _, at = str(error).partition(" - at `$")
    param = where + at.rstrip("`")
    return InvalidPayload(f"{param}: {what}.", param=param)
