"""What changed between two definitions of one tool: each change with a grade, its path and a sentence for a person.

Works on the two definitions and nothing else. Deliberately draws no conclusion: what follows from a grade is said in
`drift`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, cast

import msgspec

from toolcrib.catalog import text
from toolcrib.domain import Json, JsonObject


class Grade(IntEnum):
    """How much a change may matter, least first."""

    wording = 1
    added = 2
    optional_argument = 3
    output = 4
    required_argument = 5
    argument_removed = 6
    values = 7
    annotation = 8
    removed = 9
    suspicious = 10


@dataclass(frozen=True, slots=True)
class Change:
    grade: Grade
    path: str
    sentence: str


def worst(changes: Sequence[Change]) -> Grade:
    return max((change.grade for change in changes), default=Grade.wording)


def compare(before: JsonObject | None, after: JsonObject | None) -> tuple[Change, ...]:
    """Every change, in a stable order. Upstream `_meta` and icons are not part of what a tool promises."""
    if after is None:
        if before is None:
            return ()
        return (Change(Grade.removed, "", f"The upstream no longer offers the tool {_name(before)}."),)
    changes = [] if before is None else list(_definition_changes(before, after))
    if before is None:
        changes.append(Change(Grade.added, "", f"The upstream now offers the tool {_name(after)}."))
    changes.extend(_suspicions(before or {}, after))
    return tuple(sorted(changes, key=lambda change: (-change.grade, change.path)))


def suspicions(definition: JsonObject) -> tuple[Change, ...]:
    """What a person should look at in a definition that has no earlier one to be compared with."""
    return tuple(_suspicions({}, definition))


# --- the definition, field by field

_HINTS: Mapping[str, tuple[bool, bool]] = {
    # name: (what its absence means, the value that is the more dangerous one), MCP tool annotations
    "readOnlyHint": (False, False),
    "destructiveHint": (True, True),
    "idempotentHint": (False, False),
    "openWorldHint": (True, True),
}
_SILENT = frozenset({"_meta", "icons"})
_OWN_RULES = frozenset({"title", "description", "inputSchema", "outputSchema", "annotations", "name"}) | _SILENT


def _definition_changes(before: JsonObject, after: JsonObject) -> Iterator[Change]:
    for key in ("name", "title", "description"):
        if before.get(key) != after.get(key):
            yield _wording(key, before.get(key), after.get(key))
    yield from _annotation_changes(_object(before.get("annotations")), _object(after.get("annotations")))
    yield from _schema_changes(_object(before.get("inputSchema")), _object(after.get("inputSchema")), "inputSchema")
    yield from _output_changes(before.get("outputSchema"), after.get("outputSchema"))
    for key in sorted((before.keys() | after.keys()) - _OWN_RULES):
        if before.get(key) != after.get(key):
            yield _value(key, key, before.get(key), after.get(key))


def _annotation_changes(before: JsonObject, after: JsonObject) -> Iterator[Change]:
    for key in sorted(before.keys() | after.keys()):
        path = f"annotations.{key}"
        if before.get(key) == after.get(key):
            continue
        if key not in _HINTS:
            yield _wording(path, before.get(key), after.get(key))
            continue
        absent, danger = _HINTS[key]
        was, now = bool(before.get(key, absent)), bool(after.get(key, absent))
        grade = Grade.annotation if was != now and now == danger else Grade.wording
        yield Change(grade, path, f"{key} was {_said(before, key, absent)} and is now {_said(after, key, absent)}.")


def _said(annotations: JsonObject, key: str, absent: bool) -> str:
    return show(annotations[key]) if key in annotations else f"not said (which means {show(absent)})"


def _output_changes(before: Json, after: Json) -> Iterator[Change]:
    if _same(before, after):
        return
    if not isinstance(before, dict) or not isinstance(after, dict):
        what = "now has" if before is None else "no longer has" if after is None else "has another kind of"
        yield Change(Grade.output, "outputSchema", f"The tool {what} an output schema.")
        return
    for change in _schema_changes(cast(JsonObject, before), cast(JsonObject, after), "outputSchema"):
        grade = change.grade if change.grade is Grade.wording else Grade.output
        yield Change(grade, change.path, f"In the result: {change.sentence}")


# --- schemas

_TEXT = frozenset({"title", "description", "$comment", "examples", "deprecated", "$schema", "$id"})
_NESTED = frozenset({"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"})
_MAPS = frozenset({"$defs", "definitions", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})


def _schema_changes(before: JsonObject, after: JsonObject, path: str) -> Iterator[Change]:
    if _same(before, after):
        return
    yield from _argument_changes(before, after, path)
    for key in sorted((before.keys() | after.keys()) - {"properties", "required"}):
        yield from _keyword_changes(key, before.get(key), after.get(key), path, before, after)


def _argument_changes(before: JsonObject, after: JsonObject, path: str) -> Iterator[Change]:
    had, has = _object(before.get("properties")), _object(after.get("properties"))
    needed, needs = _strings(before.get("required")), _strings(after.get("required"))
    for name in sorted(had.keys() | has.keys() | needed | needs):
        at = f"{path}.properties.{text.escaped(name, 60)}"
        shown = f"'{text.escaped(name, 60)}'"
        if name in had and name not in has:
            yield Change(Grade.argument_removed, at, f"The argument {shown} is gone.")
        elif name in has and name not in had:
            grade = Grade.required_argument if name in needs else Grade.optional_argument
            kind = "required" if name in needs else "optional"
            yield Change(grade, at, f"There is a new {kind} argument {shown}.")
            continue
        elif name in has:
            yield from _either(had[name], has[name], at)
        if name in needs and name not in needed:
            yield Change(Grade.required_argument, at, f"The argument {shown} is now required.")
        elif name in needed and name not in needs and name in has:
            yield Change(Grade.optional_argument, at, f"The argument {shown} is now optional.")


def _keyword_changes(
    key: str, was: Json, now: Json, path: str, before: JsonObject, after: JsonObject
) -> Iterator[Change]:
    at = f"{path}.{text.escaped(key, 60)}"
    if (key in before) == (key in after) and _same(was, now):
        return
    if key in _TEXT:
        yield _wording(at, was, now)
    elif key == "enum" and isinstance(was, list) and isinstance(now, list):
        yield _enum(at, cast("list[Any]", was), cast("list[Any]", now))
    elif key in _NESTED and isinstance(was, dict) and isinstance(now, dict):
        yield from _schema_changes(cast(JsonObject, was), cast(JsonObject, now), at)
    elif key in _MAPS:
        yield from _map_changes(key, _object(was), _object(now), at)
    elif key in _LISTS and isinstance(was, list) and isinstance(now, list):
        yield from _list_changes(key, cast("list[Any]", was), cast("list[Any]", now), at)
    else:
        yield _value(at, key, was, now)


def _map_changes(key: str, was: JsonObject, now: JsonObject, at: str) -> Iterator[Change]:
    for name in sorted(was.keys() | now.keys()):
        path = f"{at}.{text.escaped(name, 60)}"
        if name in was and name in now:
            yield from _either(was[name], now[name], path)
        elif key in ("$defs", "definitions"):
            # It matters only where it is referred to, and that is a change of its own.
            yield _wording(path, was.get(name), now.get(name))
        else:
            yield _value(path, key, was.get(name), now.get(name))


def _list_changes(key: str, was: list[Any], now: list[Any], at: str) -> Iterator[Change]:
    if len(was) != len(now):
        yield Change(Grade.values, at, f"{key} had {len(was)} alternatives and now has {len(now)}.")
        return
    for position, (one, other) in enumerate(zip(was, now, strict=True)):
        yield from _either(one, other, f"{at}.{position}")


def _either(was: Json, now: Json, path: str) -> Iterator[Change]:
    if isinstance(was, dict) and isinstance(now, dict):
        yield from _schema_changes(cast(JsonObject, was), cast(JsonObject, now), path)
    elif not _same(was, now):
        yield _value(path, "schema", was, now)


def _enum(at: str, was: list[Any], now: list[Any]) -> Change:
    said = {show(value, 400) for value in was}
    says = {show(value, 400) for value in now}
    gone, new = sorted(said - says), sorted(says - said)
    if not gone and not new:
        return Change(Grade.values, at, "The allowed values stand in another order.")
    parts = [f"no longer allowed: {_several(gone)}"] if gone else []
    parts += [f"newly allowed: {_several(new)}"] if new else []
    return Change(Grade.values, at, f"The allowed values changed; {'; '.join(parts)}.")


def _several(values: list[str]) -> str:
    shown = ", ".join(value[:60] for value in values[:6])
    return shown if len(values) <= 6 else f"{shown} and {len(values) - 6} more"


def _wording(path: str, was: Json, now: Json) -> Change:
    return Change(Grade.wording, path, f"{path} was {show(was)} and is now {show(now)}.")


def _value(path: str, key: str, was: Json, now: Json) -> Change:
    return Change(Grade.values, path, f"{text.escaped(key, 60)} was {show(was)} and is now {show(now)}.")


# --- text nobody should follow without having seen it


def _suspicions(before: JsonObject, after: JsonObject) -> Iterator[Change]:
    known = {mark for _, said in _texts(before) for mark in text.marks(said)}
    for trail, said in _texts(after):
        for mark in sorted(text.marks(said) - known):
            known.add(mark)
            path = _spelled(trail)
            yield Change(Grade.suspicious, path, f"{path} holds {_KINDS.get(mark.kind, mark.kind)}: {mark.found}")


_KINDS = {
    "ansi": "a terminal control sequence",
    "control": "a control character",
    "bidi": "a character that turns the direction of text",
    "tag": "a character of the invisible tag alphabet",
    "zero_width": "an invisible character",
    "surrogate": "half a character",
    "homoglyph": "a word with look-alike letters of another script",
    "instruction": "words that give orders to a model",
    "first_call": "words that steer a model to another tool",
    "exfiltration": "words about data a tool has no business with",
    "hidden_tag": "markup that hides or sets apart",
    "encoded": "a long encoded text",
}


_Trail = tuple[Any, str] | None  # (the trail before, this step): spelled out only when there is something to say


def _texts(definition: JsonObject) -> Iterator[tuple[_Trail, str]]:
    """Every string of a definition and where it stands, keys included: whatever a model may be shown."""
    todo: list[tuple[_Trail, Any]] = [(None, {k: v for k, v in definition.items() if k not in _SILENT})]
    while todo:
        trail, value = todo.pop()
        if isinstance(value, str):
            yield trail, value
        elif isinstance(value, dict):
            for key, child in cast(JsonObject, value).items():
                if not key.isascii() or not key.isprintable():
                    yield (trail, key), key
                todo.append(((trail, key), child))
        elif isinstance(value, list):
            todo.extend(((trail, str(at)), item) for at, item in enumerate(cast("list[Any]", value)))


def _spelled(trail: _Trail) -> str:
    steps: list[str] = []
    while trail is not None:
        trail, step = cast("tuple[_Trail, str]", trail)
        steps.append(text.escaped(step, 60))
    return ".".join(reversed(steps))


# --- small words


def show(value: Json, limit: int = 160) -> str:
    """A value as a person may see it: JSON, hidden characters escaped, shortened."""
    if value is None:
        return "absent"
    if isinstance(value, str):
        return f'"{text.escaped(value, limit)}"'
    return text.escaped(msgspec.json.encode(value).decode(), limit)


def _name(definition: JsonObject) -> str:
    return f"'{text.escaped(str(definition.get('name', '')), 80)}'"


def _object(value: Json) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def _strings(value: Json) -> set[str]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return {item for item in items if isinstance(item, str)}


def _same(was: Json, now: Json) -> bool:
    """Equal as JSON: 1 and true are equal in Python only."""
    return was == now and msgspec.json.encode(was, order="deterministic") == msgspec.json.encode(
        now, order="deterministic"
    )
