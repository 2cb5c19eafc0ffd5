"""The frozen catalog of one version: its tools, resources and prompts, found by any accepted name.

A list is bytes to be joined, a lookup one dictionary read; how one is made is in `assembly`. Knows nothing of
MCP framing, of principals or of how fresh it is beyond the states it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from toolcrib import errors
from toolcrib.catalog import text
from toolcrib.catalog.names import Name, Names
from toolcrib.catalog.records import Noted
from toolcrib.catalog.tools import Tool
from toolcrib.domain import JsonObject, NameForm, SourceState

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource or a resource template: `uri` is the template's text in the second case."""

    label: str
    uri: str
    encoded: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Prompt:
    name: Name
    body: bytes = field(repr=False)

    def encoded(self, name: str) -> bytes:
        return b'{"name":%b%b}' % (msgspec.json.encode(name), self.body)


@dataclass(frozen=True, slots=True)
class Refused:
    """Something a source offers that this version does not serve, and why."""

    kind: str
    label: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Drifted:
    """A tool that its upstream changed: what changed, and what became of it."""

    label: str
    tool: str
    name: str
    state: str
    grade: str
    since: int
    reason: str
    changes: tuple[Noted, ...]


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """Things with a name, in list order, found by any form of it."""

    items: tuple[T, ...]
    names: Names

    def find(self, called: str, form: NameForm) -> T | None:
        at = self.names.find(called, form)
        return None if at is None else self.items[at]

    def named(self, form: NameForm, wanted: Callable[[T], bool] | None = None) -> Iterator[tuple[str, T]]:
        for at, item in enumerate(self.items):
            if wanted is None or wanted(item):
                yield self.names.exposed(at, form), item


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Snapshot:
    """Never changes. `digest` names its content; the three others say which list differs from another snapshot's."""

    tools: Listed[Tool]
    prompts: Listed[Prompt]
    resources: Mapping[str, Resource]
    templates: tuple[Resource, ...]
    sources: tuple[SourceState, ...]
    capabilities: Mapping[str, JsonObject]
    drift: tuple[Drifted, ...]
    refused: tuple[Refused, ...]
    is_known: bool
    digest: str
    tools_digest: str
    resources_digest: str
    prompts_digest: str

    def tool(self, called: str, form: NameForm = "dot") -> Tool:
        """The tool that `called` means, ready to be called; otherwise the error that says what was meant or wrong."""
        tool = self.tools.find(called, form)
        if tool is None:
            raise self._unknown("tool", called, self.tools, form)
        if tool.quarantine or tool.blocked:
            raise _quarantined(tool)
        return tool

    def find(self, called: str, form: NameForm = "dot") -> Tool | None:
        """The tool that `called` means, quarantined or not; None when it means none or several."""
        return self.tools.find(called, form)

    def name_of(self, tool: Tool, form: NameForm) -> str:
        """What a tool is called in this form."""
        if form == "dot":
            return tool.name.dotted
        at = self.tools.names.find(tool.name.dotted)
        return tool.name.dotted if at is None else self.tools.names.exposed(at, form)

    def listed(self, form: NameForm = "dot") -> Iterator[tuple[str, Tool]]:
        """(name, tool) of everything that is served, in list order."""
        return self.tools.named(form, lambda tool: not tool.quarantine)

    def encoded_tools(self, form: NameForm = "dot") -> bytes:
        """The text between the brackets of a tool list. Worth keeping by whoever asks twice."""
        return b",".join([tool.encoded(name) for name, tool in self.listed(form)])

    def prompt(self, called: str, form: NameForm = "dot") -> Prompt:
        prompt = self.prompts.find(called, form)
        if prompt is None:
            raise self._unknown("prompt", called, self.prompts, form)
        return prompt

    def resource(self, uri: str) -> Resource:
        """Who serves this URI: the source that lists it, or the one whose template it fits best."""
        found = self.resources.get(uri) or _best_template(self.templates, uri)
        if found is None:
            raise errors.NotFound(f"No source offers the resource '{text.escaped(uri, 200)}'.", info={"uri": uri})
        return found

    def require_known(self) -> None:
        """Refuse to speak for sources that have never answered; an empty list would be a lie."""
        if not self.is_known:
            raise self._not_known_yet("No source of this toolbox has answered yet")

    def _not_known_yet(self, what: str) -> errors.CatalogUnknown:
        waiting = "; ".join(f"{s.label}: {s.reason or s.status}" for s in self.sources)
        return errors.CatalogUnknown(
            f"{what}: {waiting}",
            retry_after_s=2.0,
            hint="Try again shortly; `toolcrib toolbox sources` says what each source waits for.",
            info={"sources": sources_meta(self.sources)},
        )

    def _unknown(
        self, kind: str, called: str, listed: Listed[Tool] | Listed[Prompt], form: NameForm
    ) -> errors.ToolcribError:
        shown = text.escaped(called, 100)
        if not self.is_known:
            return self._not_known_yet(f"The {kind} '{shown}' is not known, since no source has answered yet")
        several = listed.names.candidates(called)
        near = [listed.names.exposed(at, form) for at in several[:10] or listed.names.nearest(called)]
        if several:
            message, hint = f"The name '{shown}' is ambiguous.", f"It could mean: {', '.join(near)}."
        else:
            message, hint = f"There is no {kind} '{shown}'.", f"Did you mean: {', '.join(near)}?" if near else None
        return errors.NotFound(message, param="name", hint=hint, info={"nearest": near})


def sources_meta(states: Iterable[SourceState]) -> list[JsonObject]:
    """`_meta["io.toolcrib/sources"]`: how each source is doing, for whoever reads a list."""
    return [
        {
            "label": state.label,
            "type": state.type,
            "status": state.status.value,
            "since": state.since,
            "tools": state.tools,
            **({"reason": state.reason} if state.reason else {}),
            **({"remedy": state.remedy} if state.remedy else {}),
        }
        for state in states
    ]


def _best_template(templates: Sequence[Resource], uri: str) -> Resource | None:
    """The template with most literal text that the URI fits; None when two sources fit equally well."""
    fitting = [(fit, each) for each in templates if (fit := _fit(each.uri, uri)) >= 0]
    if not fitting:
        return None
    best = max(fit for fit, _ in fitting)
    owners = {each.label: each for fit, each in fitting if fit == best}
    return next(iter(owners.values())) if len(owners) == 1 else None


def _fit(template: str, uri: str) -> int:
    """How much of a URI a template spells out; -1 when it does not fit. Linear: templates are written by others."""
    literals = [part.rpartition("}")[2] for part in template.split("{")]
    if not uri.startswith(literals[0]) or not uri.endswith(literals[-1]):
        return -1
    at = 0
    for literal in literals:
        at = uri.find(literal, at)
        if at < 0:
            return -1
        at += len(literal)
    return sum(map(len, literals)) if len(literals) > 1 or uri == template else -1


def _quarantined(tool: Tool) -> errors.Quarantined:
    return errors.Quarantined(
        f"The tool '{text.escaped(tool.name.dotted, 100)}' is held back: {tool.quarantine or tool.blocked}",
        source=tool.label,
        hint="A person can look at the change with `toolcrib toolbox drift` and accept it.",
    )
