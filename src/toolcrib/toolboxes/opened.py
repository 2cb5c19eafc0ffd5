"""OpenToolbox: one version, opened for one principal. Every door lists, searches, calls and reads through it.

It is the single waist: whatever takes reach away from a principal does so here, so that list, search and call can
never disagree. Lists and lookups come from the stored catalog; only calls and reads go upstream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from toolcrib import wire
from toolcrib.catalog.arguments import Validators, Violation
from toolcrib.catalog.refresh import Catalogs
from toolcrib.catalog.snapshot import Snapshot, sources_meta
from toolcrib.catalog.tools import Tool
from toolcrib.domain import JsonObject, NameForm, Principal, Version
from toolcrib.errors import InvalidArguments, InvalidPayload, SourceError, ToolcribError
from toolcrib.storage.records_connections import Connection
from toolcrib.toolboxes.calls import CallLog
from toolcrib.toolboxes.entries import DIRECTIVES
from toolcrib.toolboxes.plumbing import Plumbing
from toolcrib.upstreams.upstream import Background, Complete, Exchange, Outcome, Upstream

Expose = Literal["search", "all"]
_MOST_LISTS = 256


class _Verdict(msgspec.Struct, frozen=True):
    isError: bool = False  # noqa: N815 - the wire's spelling


_read_verdict = msgspec.json.Decoder(_Verdict).decode
_read_arguments = msgspec.json.Decoder(JsonObject).decode


class Counter:
    """What opening a toolbox needs, and what all opened ones share."""

    def __init__(self, catalogs: Catalogs, plumbing: Plumbing, calls: CallLog) -> None:
        self.catalogs = catalogs
        self.plumbing = plumbing
        self.calls = calls
        self.validators = Validators()
        self.lists: dict[tuple[str, ...], bytes] = {}
        self._looking: set[asyncio.Future[Snapshot]] = set()

    def open(self, version: Version, principal: Principal, expose: Expose | None = None) -> OpenToolbox:
        return OpenToolbox(self, version, principal, expose)

    def look_at(self, version: Version) -> None:
        """A version was created: start asking its sources, without anybody waiting for it."""
        task = asyncio.ensure_future(self.catalogs.snapshot(version))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def try_connection(self, connection: Connection, principal: Principal) -> wire.ConnectionTest:
        """Ask the target of a connection for its tools, with the connection's own credentials."""
        if not connection.target:
            return wire.ConnectionTest("not_configured", 0, "The connection has no target.", "Give it one.")
        upstream = self.plumbing.upstream_at(connection)
        try:
            listing = await upstream.fetch(Background(principal))
        except SourceError as error:
            return wire.ConnectionTest(error.code, 0, error.message, error.hint or "")
        return wire.ConnectionTest("ok", len(listing.tools))


class OpenToolbox:
    """Made per request; holds nothing but references."""

    __slots__ = ("_counter", "_snapshot", "expose", "principal", "version")

    def __init__(self, counter: Counter, version: Version, principal: Principal, expose: Expose | None) -> None:
        self._counter = counter
        self.version = version
        self.principal = principal
        self.expose: Expose = expose or ("search" if has_search(version) else "all")
        self._snapshot: Snapshot | None = None

    @property
    def project(self) -> str:
        return self.version.project

    @property
    def name(self) -> str:
        return self.version.toolbox

    @property
    def instructions(self) -> str:
        description = self.version.content.description
        return description or f"The toolbox {self.name!r}, version {self.version.number}."

    @property
    def sources_meta(self) -> bytes:
        states = self._snapshot.sources if self._snapshot is not None else ()
        return msgspec.json.encode({"io.toolcrib/sources": sources_meta(states)})

    async def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = await self._counter.catalogs.snapshot(self.version)
        return self._snapshot

    async def tools(self, names: NameForm) -> bytes:
        """The tool list as the JSON text of an array, encoded once per content and name form."""
        snapshot = await self.snapshot()
        snapshot.require_known()
        return self._encoded(("tools", snapshot.tools_digest, names), lambda: snapshot.encoded_tools(names))

    async def resources(self) -> bytes:
        snapshot = await self.snapshot()
        return self._encoded(
            ("resources", snapshot.resources_digest),
            lambda: b",".join(r.encoded for r in snapshot.resources.values()),
        )

    async def resource_templates(self) -> bytes:
        snapshot = await self.snapshot()
        return b"[" + b",".join(t.encoded for t in snapshot.templates) + b"]"

    async def prompts(self, names: NameForm) -> bytes:
        snapshot = await self.snapshot()
        return self._encoded(
            ("prompts", snapshot.prompts_digest, names),
            lambda: b",".join(p.encoded(name) for name, p in snapshot.prompts.named(names)),
        )

    async def tool(self, called: str, names: NameForm) -> Tool:
        """The tool that a name means to this principal; every way to a tool leads through here."""
        return (await self.snapshot()).tool(called, names)

    async def call(self, tool: Tool, arguments: bytes, exchange: Exchange, extra: JsonObject) -> Outcome:
        """Call a tool. Arguments are checked before anything leaves the house."""
        started = time.perf_counter()
        given: Any = None
        outcome = "failed"
        try:
            given = self._checked(tool, arguments)
            params = {"name": tool.upstream_name, "arguments": msgspec.Raw(arguments or b"{}"), **extra}
            answer = await self._upstream(tool.label).request(
                "tools/call", params, exchange, safe_to_retry=tool.is_repeatable, mirror=tool.headers or None
            )
            outcome = _outcome_of(answer)
            return answer
        except ToolcribError as error:
            outcome = error.code
            raise
        finally:
            self._counter.calls.add(
                self.version, self.principal, tool.label, tool.upstream_name, outcome, started, given
            )

    async def read(self, uri: str, exchange: Exchange, extra: JsonObject) -> Outcome:
        resource = (await self.snapshot()).resource(uri)
        params = {"uri": uri, **extra}
        return await self._upstream(resource.label).request("resources/read", params, exchange)

    async def prompt(self, called: str, arguments: bytes, exchange: Exchange, extra: JsonObject) -> Outcome:
        prompt = (await self.snapshot()).prompt(called)
        params: JsonObject = {"name": prompt.name.tool, **extra}
        if arguments:
            params["arguments"] = msgspec.Raw(arguments)
        return await self._upstream(prompt.name.label).request("prompts/get", params, exchange)

    async def complete(
        self, ref: JsonObject, argument: JsonObject, context: JsonObject | None, exchange: Exchange
    ) -> Complete:
        label, ref = await self._completes(ref)
        params: JsonObject = {"ref": ref, "argument": argument}
        if context is not None:
            params["context"] = context
        outcome = await self._upstream(label).request("completion/complete", params, exchange)
        if not isinstance(outcome, Complete):
            raise InvalidPayload("The upstream asked for input while completing an argument.")
        return outcome

    async def subscribe(self, uri: str, exchange: Exchange) -> None:
        await self._upstream((await self.snapshot()).resource(uri).label).subscribe(uri, exchange)

    async def unsubscribe(self, uri: str, exchange: Exchange) -> None:
        await self._upstream((await self.snapshot()).resource(uri).label).unsubscribe(uri, exchange)

    async def _completes(self, ref: JsonObject) -> tuple[str, JsonObject]:
        """The source behind a completion reference, and the reference as that source knows it."""
        snapshot = await self.snapshot()
        if ref.get("type") == "ref/prompt" and isinstance(ref.get("name"), str):
            prompt = snapshot.prompt(ref["name"])
            return prompt.name.label, {**ref, "name": prompt.name.tool}
        if ref.get("type") == "ref/resource" and isinstance(ref.get("uri"), str):
            template = next((t for t in snapshot.templates if t.uri == ref["uri"]), None)
            return (template or snapshot.resource(ref["uri"])).label, ref
        raise InvalidPayload("ref must be a ref/prompt with name or a ref/resource with uri.", param="ref")

    def _checked(self, tool: Tool, arguments: bytes) -> JsonObject:
        try:
            given = _read_arguments(arguments) if arguments and arguments != b"null" else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidArguments(
                f"The arguments of {tool.name.dotted} must be a JSON object.", param="arguments"
            ) from None
        violation = self._counter.validators.check(tool.schema_digest, tool, given)
        if violation is not None:
            raise _does_not_fit(tool, violation)
        return given

    def _upstream(self, label: str) -> Upstream:
        return self._counter.plumbing.upstream_of(self.version, label)

    def _encoded(self, key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
        lists = self._counter.lists
        found = lists.get(key)
        if found is None:
            if len(lists) >= _MOST_LISTS:
                lists.pop(next(iter(lists)))
            found = lists[key] = b"[" + make() + b"]"
        return found


def has_search(version: Version) -> bool:
    return any(entry["type"] in DIRECTIVES for entry in version.content.tools)


def _outcome_of(answer: Outcome) -> str:
    if not isinstance(answer, Complete):
        return "input_required"
    return "tool_error" if _read_verdict(answer.result).isError else "ok"


def _does_not_fit(tool: Tool, violation: Violation) -> InvalidArguments:
    where = f"arguments{violation.pointer}"
    return InvalidArguments(
        f"The arguments do not fit {tool.name.dotted}: {where}: {violation.message}",
        param=where,
        hint=f"the schema there is {msgspec.json.encode(violation.fragment).decode()}",
        info={"pointer": violation.pointer, "schema": violation.fragment},
    )
