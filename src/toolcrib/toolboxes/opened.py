"""OpenToolbox: one version, opened for one principal. Every door lists, searches, calls and reads through it.

It is the single waist: whatever takes reach away from a principal does so here, so that list, search and call can
never disagree. Lists and lookups come from the stored catalog; only calls and reads go upstream.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Literal
from weakref import ref

import msgspec

from toolcrib import wire
from toolcrib.catalog.arguments import Validators
from toolcrib.catalog.indexes import Indexes
from toolcrib.catalog.refresh import Catalogs
from toolcrib.catalog.snapshot import Snapshot, sources_meta
from toolcrib.catalog.tools import Tool
from toolcrib.domain import JsonObject, NameForm, Principal, Role, Version
from toolcrib.errors import InvalidPayload, SourceError, ToolcribError
from toolcrib.search import Hit, ToolIndex, WordsOnly
from toolcrib.skills.library import Skills
from toolcrib.skills.served import SCHEME, Served
from toolcrib.storage.records_connections import Connection
from toolcrib.storage.records_habits import Owner
from toolcrib.toolboxes.autopin import Pins
from toolcrib.toolboxes.calling import Notes, Prepared, checked, verdict
from toolcrib.toolboxes.calls import CallLog
from toolcrib.toolboxes.entries import DIRECTIVES
from toolcrib.toolboxes.plumbing import Plumbing
from toolcrib.toolboxes.usage import Usage
from toolcrib.upstreams.upstream import Background, Complete, Exchange, Outcome, Upstream

log = logging.getLogger("toolcrib.toolboxes")
Expose = Literal["search", "all"]
_MOST_LISTS = 256
_MOST_REMEMBERED = 10_000
SEARCH_FIRST = (
    "Most tools are not in your tool list. If you need one that is not there, call tool_search with a description of"
    " what you need before you say that you cannot help; then call it by name, or with call_tool."
)


class Counter:
    """What opening a toolbox needs, and what all opened ones share."""

    def __init__(
        self,
        catalogs: Catalogs,
        indexes: Indexes,
        plumbing: Plumbing,
        calls: CallLog,
        usage: Usage | None,
        skills: Skills,
    ) -> None:
        self.catalogs = catalogs
        self.skills = skills
        self.indexes = indexes
        self.usage = usage
        self.plumbing = plumbing
        self.calls = calls
        self.validators = Validators()
        self.lists: dict[tuple[str, ...], bytes] = {}
        self._exposes: dict[str, Expose] = {}
        self._skill_indexes: dict[str, ToolIndex] = {}
        self._looking: set[asyncio.Task[None]] = set()

    def open(
        self,
        version: Version,
        principal: Principal,
        expose: Expose | None = None,
        snapshot: Snapshot | None = None,
    ) -> OpenToolbox:
        """With a snapshot it is opened as it was then."""
        return OpenToolbox(self, version, principal, expose, snapshot)

    def expose(self, version: Version) -> Expose:
        """What a version shows unless a client chooses: the search tools where it has the directive."""
        known = self._exposes.get(version.id)
        if known is None:
            if len(self._exposes) >= _MOST_REMEMBERED:
                self._exposes.clear()
            known = self._exposes[version.id] = "search" if has_search(version) else "all"
        return known

    def skill_index(self, served: Served) -> ToolIndex:
        """Skills are few and say what they are for: words find them."""
        known = self._skill_indexes.get(served.digest)
        if known is None:
            if len(self._skill_indexes) >= _MOST_LISTS:
                self._skill_indexes.clear()
            documents = [{"name": each.name, "description": each.description} for each in served.documents]
            known = self._skill_indexes[served.digest] = ToolIndex.build(documents, encoder=WordsOnly())
        return known

    def look_at(self, version: Version) -> None:
        """A version was created: ask its sources and make it searchable, without anybody waiting for it."""
        task = asyncio.create_task(self._prepare(version))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _prepare(self, version: Version) -> None:
        toolbox = self.open(version, Principal("catalog", Role.agent, version.project))
        try:
            snapshot = await toolbox.snapshot()
            if has_search(version) and snapshot.is_known:
                await self.indexes.of(snapshot, await toolbox.keywords())
        except (ToolcribError, OSError) as error:
            log.warning("version %s of %r is not prepared yet: %s", version.number, version.toolbox, error)

    async def try_connection(self, connection: Connection, principal: Principal) -> wire.ConnectionTest:
        """Ask the target of a connection for its tools, with the connection's own credentials."""
        if not connection.target:
            return wire.ConnectionTest("not_configured", 0, "The connection has no target.", "Give it one.")
        upstream = self.plumbing.upstream_at(connection)
        try:
            listing = await upstream.fetch(Background(principal), insist=True)
        except SourceError as error:
            return wire.ConnectionTest(error.code, 0, error.message, error.hint or "")
        return wire.ConnectionTest("ok", len(listing.tools))


class OpenToolbox:
    """Made per request; holds nothing but references."""

    __slots__ = ("_counter", "_snapshot", "expose", "principal", "version")

    def __init__(
        self,
        counter: Counter,
        version: Version,
        principal: Principal,
        expose: Expose | None,
        snapshot: Snapshot | None = None,
    ) -> None:
        self._counter = counter
        self.version = version
        self.principal = principal
        self.expose: Expose = expose or counter.expose(version)
        self._snapshot = snapshot

    @property
    def project(self) -> str:
        return self.version.project

    @property
    def name(self) -> str:
        return self.version.toolbox

    @property
    def instructions(self) -> str:
        """What a model is told of the toolbox as a whole."""
        text = self.version.content.description or f"The toolbox {self.name!r}, version {self.version.number}."
        return f"{text} {SEARCH_FIRST}" if self.expose == "search" else text

    @property
    def sources_meta(self) -> bytes:
        states = self._snapshot.sources if self._snapshot is not None else ()
        return msgspec.json.encode({"io.toolcrib/sources": sources_meta(states)})

    async def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            catalogs = self._counter.catalogs
            self._snapshot = catalogs.ready(self.version) or await catalogs.snapshot(self.version)
        return self._snapshot

    def may_use(self, tool: Tool) -> bool:
        """The one decision about a tool: list, search and call all ask here."""
        return tool.is_listed

    async def tools(self, names: NameForm) -> bytes:
        """All tools as JSON text without brackets, encoded once per content and name form."""
        snapshot = await self.snapshot()
        snapshot.require_known()
        return self._encoded(
            ("tools", snapshot.tools_digest, names),
            lambda: b",".join(t.encoded(n) for n, t in snapshot.tools.named(names, self.may_use)),
        )

    async def pinned_tools(self, names: NameForm) -> bytes:
        """The pinned tools, then this principal's auto-pinned ones, likewise; stable within an epoch."""
        snapshot = await self.snapshot()
        snapshot.require_known()
        pins = await self.auto_pins()
        hot = tuple(sorted(pins.tools.items())) if pins else ()
        return self._encoded(
            ("pins", snapshot.tools_digest, names, repr(hot)), lambda: self._pinned(snapshot, names, hot)
        )

    async def auto_pins(self) -> Pins | None:
        """What this principal uses most, unless auto-pinning is off here."""
        usage = self._counter.usage
        if usage is None or not wants_autopin(self.version):
            return None
        return await usage.pins(self._owner)

    async def search(self, query: str, limit: int) -> list[tuple[Tool, Hit]]:
        """The tools that fit a request, best first, among those this principal may use."""
        snapshot = await self.snapshot()
        snapshot.require_known()
        hits = await self._counter.indexes.search(snapshot, query, limit, await self.keywords())
        found = [(snapshot.find(hit.name), hit) for hit in hits]
        return [(tool, hit) for tool, hit in found if tool is not None and self.may_use(tool)]

    async def remembered(self, kind: str, make: Callable[[Snapshot, Version], bytes]) -> bytes:
        """Something a door words from the catalog, made once per content and version."""
        snapshot = await self.snapshot()
        key = (kind, snapshot.tools_digest, self.version.id)
        return self._encoded(key, lambda: make(snapshot, self.version))

    async def search_skills(self, query: str, limit: int) -> list[JsonObject]:
        """The skills that fit a request, best first; all of them, up to the limit, for an empty one."""
        served = await self.skills()
        by_name = {each.name: each for each in served.documents}
        index = self._counter.skill_index(served)
        names = [hit.name for hit in index.search(query, limit)] if query else list(by_name)[:limit]
        return [{"name": n, "description": by_name[n].description, "uri": by_name[n].uri} for n in names]

    async def near_names(self, name: str, limit: int = 5) -> list[str]:
        index = await self._counter.indexes.of(await self.snapshot(), await self.keywords())
        return index.near_names(name, limit)

    @property
    def _owner(self) -> Owner:
        return Owner(self.project, self.name, self.principal.id)

    def _pinned(self, snapshot: Snapshot, names: NameForm, hot: tuple[tuple[str, int], ...]) -> bytes:
        calls = dict(hot)
        shown = list(snapshot.tools.named(names, self.may_use))
        pinned = [tool.encoded(name, "pinned") for name, tool in shown if tool.pin]
        auto = [
            _with_reason(tool.encoded(name, "auto_pinned"), calls[tool.name.dotted])
            for name, tool in shown
            if tool.name.dotted in calls and not tool.pin
        ]
        return b",".join(pinned + auto)

    async def resources(self) -> bytes:
        """What upstreams list, and the skills."""
        snapshot, skills = await self.snapshot(), await self.skills()
        own = [skills.resources] if skills.resources else []
        return self._encoded(
            ("resources", snapshot.resources_digest, skills.digest),
            lambda: b",".join([*own, *(r.encoded for r in snapshot.resources.values())]),
        )

    async def resource_templates(self) -> bytes:
        snapshot = await self.snapshot()
        return b",".join(t.encoded for t in snapshot.templates)

    async def prompts(self, names: NameForm) -> bytes:
        snapshot = await self.snapshot()
        return self._encoded(
            ("prompts", snapshot.prompts_digest, names),
            lambda: b",".join(p.encoded(name) for name, p in snapshot.prompts.named(names)),
        )

    async def tool(self, called: str, names: NameForm) -> Tool:
        """The tool that a name means to this principal; every way to a tool leads through here."""
        return (await self.snapshot()).tool(called, names)

    def prepare(self, called: str, names: NameForm) -> Prepared | None:
        """Calls of this tool, if they may be made without waiting for anything; None when it takes `call`."""
        snapshot = self._snapshot
        tool = snapshot.tools.find(called, names) if snapshot is not None else None
        if snapshot is None or tool is None or tool.quarantine or tool.blocked or tool.headers:
            return None
        try:
            upstream = self._upstream(tool.label)
        except ToolcribError:
            return None
        return Prepared(
            self.version,
            ref(snapshot),
            tool,
            tool.upstream_name,
            tool.is_repeatable,
            self.principal,
            upstream,
            self._counter.validators,
            self._notes(tool),
        )

    async def call(self, tool: Tool, arguments: bytes, exchange: Exchange, extra: JsonObject) -> Outcome:
        """Call a tool. Arguments are checked before anything leaves the house."""
        started = exchange.head_start.began if exchange.head_start is not None else time.perf_counter()
        given: Any = None
        outcome = "failed"
        try:
            given = checked(self._counter.validators, tool, arguments)
            params = {"name": tool.upstream_name, "arguments": msgspec.Raw(arguments or b"{}"), **extra}
            answer = await self._upstream(tool.label).request(
                "tools/call", params, exchange, safe_to_retry=tool.is_repeatable, mirror=tool.headers or None
            )
            outcome = _outcome_of(answer)
            return answer
        except ToolcribError as error:
            outcome = error.code
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self._notes(tool).take(outcome, started, given)

    def _notes(self, tool: Tool) -> Notes:
        """Where calls of this tool are noted."""
        counter = self._counter
        calls = counter.calls.of(self.version, self.principal, tool.name)
        return Notes(calls, counter.usage, self._owner, tool.name.dotted)

    async def skills(self) -> Served:
        """The skills of this version as they are now, in memory; they depend on no upstream."""
        return await self._counter.skills.served(self.version)

    async def read_skill(self, uri: str) -> bytes:
        """The contents behind a `skill://` URI, as the JSON text of an array."""
        return await self._counter.skills.read(self.version, uri)

    async def keywords(self) -> dict[str, str]:
        """What skills say of the tools they name, by dotted name: more text to find those tools by."""
        skills = await self.skills()
        if not skills.keywords:
            return {}
        return words_of_skills(await self.snapshot(), skills)

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
        if uri.startswith(SCHEME):
            await self.read_skill(uri)  # a refusal when there is no such thing; we publish its changes ourselves
            return
        await self._upstream((await self.snapshot()).resource(uri).label).subscribe(uri, exchange)

    async def unsubscribe(self, uri: str, exchange: Exchange) -> None:
        if uri.startswith(SCHEME):
            return
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

    def _upstream(self, label: str) -> Upstream:
        return self._counter.plumbing.upstream_of(self.version, label)

    def _encoded(self, key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
        lists = self._counter.lists
        found = lists.get(key)
        if found is None:
            if len(lists) >= _MOST_LISTS:
                lists.pop(next(iter(lists)))
            found = lists[key] = make()
        return found


def words_of_skills(snapshot: Snapshot, skills: Served) -> dict[str, str]:
    """Keywords by dotted name; a skill may spell a tool in any accepted form, also as agent tools do (`mcp__…`)."""
    found: dict[str, list[str]] = {}
    for spelt, text in skills.keywords.items():
        tool = snapshot.find(spelt) or snapshot.find(spelt.removeprefix("mcp__"))
        if tool is not None:
            found.setdefault(tool.name.dotted, []).append(text)
    return {name: " ".join(texts) for name, texts in found.items()}


def has_search(version: Version) -> bool:
    return any(entry["type"] in DIRECTIVES for entry in version.content.tools)


def wants_autopin(version: Version) -> bool:
    """On by default where the search directive is; the directive's `toolcrib.autopin` turns it off."""
    directive = next((e for e in version.content.tools if e["type"] in DIRECTIVES), None)
    if directive is None:
        return False
    own: JsonObject = directive.get("toolcrib") or {}
    return own.get("autopin") != "off"


def _with_reason(encoded: bytes, calls: int) -> bytes:
    """The encoded tool with the reason for its place in `_meta`; the count is that of the epoch's beginning."""
    return encoded[:-2] + b',"io.toolcrib/pin":{"reason":"used often","calls":%d}}}' % calls


def _outcome_of(answer: Outcome) -> str:
    if not isinstance(answer, Complete):
        return "input_required"
    return verdict(answer.result)
