"""What is remembered of one source: each tool as it was accepted, and as the upstream describes it now.

A record is a frozen value with one encoding; a fetch makes the next record from it. Knows nothing of time but what it
is told, and deliberately not where records are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from toolcrib import errors
from toolcrib.catalog import definitions, text
from toolcrib.catalog.changes import Change, Grade, suspicions
from toolcrib.catalog.drift import Outcome, Policy, judge
from toolcrib.domain import JsonObject
from toolcrib.upstreams.upstream import Listing

FORMAT = 1

State = Literal["", "pinned", "quarantined"]


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """A change as it is remembered and shown."""

    grade: str
    path: str
    sentence: str


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """One upstream tool. `accepted` is the definition to serve; `offered` the one that waits for a person."""

    name: str
    # None or one of each; msgspec reads no optional raw text.
    served: tuple[msgspec.Raw, ...] = ()
    waiting: tuple[msgspec.Raw, ...] = ()
    state: State = ""
    blocks: bool = False
    gone: bool = False
    unsafe: str = ""
    since: int = 0
    grade: str = ""
    noted: tuple[Noted, ...] = ()

    @property
    def accepted(self) -> msgspec.Raw | None:
        return self.served[0] if self.served else None

    @property
    def offered(self) -> msgspec.Raw | None:
        return self.waiting[0] if self.waiting else None

    @property
    def reason(self) -> str:
        """One sentence for a person: why it is not served as offered."""
        return self.unsafe or (self.noted[0].sentence if self.noted else "")


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything known of one source. `created_at` is the first successful fetch, the one a version was made with."""

    created_at: int
    changed_at: int
    tools: tuple[Held, ...] = ()
    resources: tuple[msgspec.Raw, ...] = ()
    templates: tuple[msgspec.Raw, ...] = ()
    prompts: tuple[msgspec.Raw, ...] = ()
    capabilities: JsonObject = {}
    instructions: str | None = None
    era: str = ""
    protocol_version: str = ""
    partial: str | None = None
    format: int = FORMAT


def encode(record: Record) -> bytes:
    return msgspec.json.encode(record)


def decode(blob: bytes) -> Record | None:
    """The record, or None for one that another release wrote in a way we cannot read: it is fetched anew."""
    try:
        record = msgspec.json.decode(blob, type=Record)
    except msgspec.DecodeError:
        return None
    return record if record.format == FORMAT else None


def merge(record: Record | None, listing: Listing, policy: Policy, now: int) -> Record:
    """The next record. The very same object comes back when nothing has changed."""
    merged = Record(
        created_at=record.created_at if record else now,
        changed_at=record.changed_at if record else now,
        tools=tuple(sorted(_merge_tools(record, listing, policy, now), key=lambda held: held.name)),
        resources=tuple(_kept(listing.resources, "uri")),
        templates=tuple(_kept(listing.resource_templates, "uriTemplate")),
        prompts=tuple(_kept(listing.prompts, "name")),
        capabilities=listing.capabilities,
        instructions=listing.instructions,
        era=listing.era,
        protocol_version=listing.protocol_version,
        partial=listing.partial,
    )
    if record is not None and encode(merged) == encode(record):
        return record
    return msgspec.structs.replace(merged, changed_at=now)


def accept(record: Record, tool: str, now: int) -> Record:
    """The record with one tool's offered definition accepted."""
    held = next((held for held in record.tools if held.name == tool and held.state), None)
    if held is None:
        raise errors.NotFound(f"The tool '{text.escaped(tool, 80)}' has no change that waits for a decision.")
    if held.unsafe:
        raise errors.BadRequest(f"The definition of '{text.escaped(tool, 80)}' cannot be accepted. {held.unsafe}")
    rest = [other for other in record.tools if other is not held]
    if not held.gone:
        rest.append(Held(held.name, held.waiting))
    tools = tuple(sorted(rest, key=lambda held: held.name))
    return msgspec.structs.replace(record, tools=tools, changed_at=now)


def _merge_tools(record: Record | None, listing: Listing, policy: Policy, now: int) -> Iterator[Held]:
    before = {held.name: held for held in record.tools} if record else {}
    seen: set[str] = set()
    for definition in listing.tools:
        name = str(definition.get("name", ""))
        if name in seen:  # the first of two with one name is the one that its upstream calls
            continue
        seen.add(name)
        yield _held(name, definition, before.get(name), policy, now, first=record is None)
    for held in before.values():
        if held.name not in seen:
            yield from [held] if listing.partial else _removed(held, policy, now)


def _held(name: str, definition: JsonObject, before: Held | None, policy: Policy, now: int, *, first: bool) -> Held:
    text_or_problem = definitions.encoded(definition)
    if isinstance(text_or_problem, str):
        return _unsafe(name, text_or_problem, before, policy, now)
    raw = msgspec.Raw(text_or_problem)
    if before is not None and not before.unsafe and not before.gone and raw == (before.offered or before.accepted):
        return before
    problem = definitions.problem_with(definition, text_or_problem)
    if problem is not None:
        return _unsafe(name, problem, before, policy, now)
    if first:
        return Held(name, (raw,), noted=_note(suspicions(definition)))
    served = before.served if before else ()
    verdict = judge(_decoded(served), definition, policy)
    if verdict is None:
        return Held(name, served if policy == "pin" else (raw,))
    if verdict.outcome is Outcome.followed:
        return Held(name, (raw,), noted=_note(change for change in verdict.changes if _is_flag(change)))
    return Held(
        name,
        served,
        (raw,),
        state=verdict.outcome.value,
        # Pinning what was never accepted leaves nothing to serve.
        blocks=verdict.blocks,
        since=now,
        grade=verdict.grade.name,
        noted=_note(verdict.changes),
    )


def _unsafe(name: str, problem: str, before: Held | None, policy: Policy, now: int) -> Held:
    """A definition we refuse to hold: never followed, whatever the policy; the accepted one may still be served."""
    since = before.since if before is not None and before.unsafe == problem else now
    served = before.served if before else ()
    pinned = policy == "pin" and served
    return Held(
        name,
        served,
        state="pinned" if pinned else "quarantined",
        blocks=True,
        unsafe=problem,
        since=since,
        grade=Grade.values.name,
    )


def _removed(held: Held, policy: Policy, now: int) -> Iterator[Held]:
    if held.gone:
        yield held
    elif held.served:
        verdict = judge(_decoded(held.served), None, policy)
        if verdict is not None and verdict.outcome is not Outcome.followed:
            yield Held(
                held.name,
                held.served,
                state=verdict.outcome.value,
                blocks=verdict.blocks,
                gone=True,
                since=now,
                grade=verdict.grade.name,
                noted=_note(verdict.changes),
            )


def _kept(objects: Iterable[JsonObject], key: str) -> Iterator[msgspec.Raw]:
    """Resources, templates and prompts are followed as they come; those that are no such thing are left out."""
    for each in objects:
        encoded = definitions.encoded({"name": "", **each})
        if isinstance(each.get(key), str) and isinstance(encoded, bytes):
            yield msgspec.Raw(msgspec.json.encode(each))


def _note(found: Iterable[Change]) -> tuple[Noted, ...]:
    ordered = sorted(found, key=lambda change: (-change.grade, change.path))
    return tuple(Noted(change.grade.name, change.path, change.sentence[:600]) for change in ordered[:20])


def _is_flag(change: Change) -> bool:
    return change.grade is Grade.suspicious


def _decoded(raw: tuple[msgspec.Raw, ...]) -> JsonObject | None:
    return msgspec.json.decode(raw[0], type=JsonObject) if raw else None
