"""Making a snapshot: what each source of a version contributes, put side by side.

Names, URIs and prompts that cannot stand beside each other are refused here, loudly. A pure function of its input, so
that it can run on a thread; deliberately knows neither time nor where contributions come from.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import msgspec

from toolcrib.catalog import definitions, text
from toolcrib.catalog.entries import Entry
from toolcrib.catalog.names import Name, Names, partition
from toolcrib.catalog.records import Record
from toolcrib.catalog.snapshot import Drifted, Listed, Prompt, Refused, Resource, Snapshot
from toolcrib.catalog.tools import Tool
from toolcrib.domain import JsonObject, SourceState

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one source brings: the entry, how it is doing, and what is known of it (nothing, before the first fetch)."""

    entry: Entry
    state: SourceState
    record: Record | None = None
    tools: tuple[Tool, ...] = ()


def assemble(contributions: Sequence[Contribution]) -> Snapshot:
    """The snapshot of a version from what its sources contribute, in entry order."""
    refused: list[Refused] = []
    tools = _unique((tool for each in contributions for tool in each.tools), lambda tool: tool.name, "tool", refused)
    prompts = _unique(_prompts(contributions), lambda prompt: prompt.name, "prompt", refused)
    resources = _resources(contributions, refused)
    templates = tuple(_templates(contributions, refused))
    for each in refused:
        log.warning("not served: %s '%s' of '%s': %s", each.kind, text.escaped(each.name), each.label, each.reason)
    digests = (
        _digest(_tool_parts(tools)),
        _digest(part for each in (*resources.values(), *templates) for part in (each.label.encode(), each.encoded)),
        _digest(part for each in prompts.items for part in (each.name.dotted.encode(), each.body)),
    )
    return Snapshot(
        tools=tools,
        prompts=prompts,
        resources=resources,
        templates=templates,
        sources=tuple(each.state for each in contributions),
        capabilities={each.entry.label: each.record.capabilities for each in contributions if each.record},
        drift=tuple(_drift(contributions)),
        refused=tuple(refused),
        is_known=_is_known(contributions),
        digest=_digest(digest.encode() for digest in digests),
        tools_digest=digests[0],
        resources_digest=digests[1],
        prompts_digest=digests[2],
    )


def _is_known(contributions: Sequence[Contribution]) -> bool:
    """Known as soon as one source that can answer has; a version without such sources is known to be what it is."""
    asked = [each for each in contributions if each.entry.unserved is None]
    return not asked or any(each.record is not None for each in asked)


def _unique(items: Iterable[T], name: Callable[[T], Name], kind: str, refused: list[Refused]) -> Listed[T]:
    every = list(items)
    kept, refusals = partition(name(item) for item in every)
    refused.extend(Refused(kind, each.name.label, each.name.tool, each.reason) for each in refusals)
    if not refusals:
        return Listed(tuple(every), Names(kept))
    # A refused name may equal a kept one: keep the first bearer of each kept name.
    first: dict[Name, T] = {}
    for item in every:
        first.setdefault(name(item), item)
    return Listed(tuple(first[each] for each in kept), Names(kept))


def _prompts(contributions: Sequence[Contribution]) -> Iterator[Prompt]:
    for each in contributions:
        for shown in _shown(each.record.prompts if each.record else ()):
            name = str(shown.pop("name"))
            body = msgspec.json.encode(shown)[1:-1]
            yield Prompt(Name(each.entry.label, name), b"," + body if body else b"")


def _resources(contributions: Sequence[Contribution], refused: list[Refused]) -> dict[str, Resource]:
    found: dict[str, Resource] = {}
    for each in contributions:
        label = each.entry.label
        for shown in _shown(each.record.resources if each.record else ()):
            uri = str(shown["uri"])
            rival = found.get(uri)
            if rival is not None and rival.label == label:
                continue
            reason = _uri_problem(uri) or (f"'{uri}' is already served from '{rival.label}'." if rival else None)
            if reason is not None:
                refused.append(Refused("resource", label, uri, reason))
                continue
            found[uri] = Resource(label, uri, msgspec.json.encode(shown))
    return found


def _templates(contributions: Sequence[Contribution], refused: list[Refused]) -> Iterator[Resource]:
    taken: dict[str, str] = {}
    for each in contributions:
        label = each.entry.label
        for shown in _shown(each.record.templates if each.record else ()):
            uri = str(shown["uriTemplate"])
            owner = taken.setdefault(uri, label)
            reason = _uri_problem(uri) or (f"'{uri}' is already served from '{owner}'." if owner != label else None)
            if reason is not None:
                refused.append(Refused("resource template", label, uri, reason))
                continue
            yield Resource(label, uri, msgspec.json.encode(shown))


def _shown(raws: Iterable[msgspec.Raw]) -> Iterator[JsonObject]:
    for raw in raws:
        yield cast(JsonObject, definitions.visible(msgspec.json.decode(raw)))


def _uri_problem(uri: str) -> str | None:
    return "The scheme 'skill' is reserved for the skills of the toolbox." if uri.lower().startswith("skill:") else None


def _drift(contributions: Sequence[Contribution]) -> Iterator[Drifted]:
    for each in contributions:
        label = each.entry.label
        wanted = {tool.upstream_name for tool in each.tools}
        for held in each.record.tools if each.record else ():
            if held.name in wanted and (held.state or held.noted):
                yield Drifted(
                    label=label,
                    tool=held.name,
                    name=Name(label, held.name).dotted,
                    state=held.state or "flagged",
                    grade=held.grade or (held.noted[0].grade if held.noted else ""),
                    since=held.since,
                    reason=held.reason,
                    changes=held.noted,
                )


def _tool_parts(tools: Listed[Tool]) -> Iterator[bytes]:
    for at, tool in enumerate(tools.items):
        yield tools.names.safe[at].encode()
        yield tool.name.dotted.encode()
        yield f"{tool.digest} {tool.pin:d}{not tool.quarantine:d} {tool.keywords}".encode()


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(b"%d:%b" % (len(part), part))
    return total.hexdigest()[:32]
