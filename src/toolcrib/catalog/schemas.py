"""Schemas that others wrote: which are safe to hold, and what we make of them.

`inspect` runs once, when a definition arrives, and answers a reason instead of raising. Nothing here fetches anything,
runs a pattern that can backtrack, or works longer the deeper it is led. Knows neither tools nor upstreams.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from toolcrib.domain import Json, JsonObject

MAX_DEPTH = 32
MAX_NESTING = 128
MAX_SUBSCHEMAS = 2_000
MAX_BYTES = 256 * 1024
MAX_ENUM = 4_096
MAX_PATTERN = 1_000

_ONE = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_MAP = frozenset({"$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties", "properties"})
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
_KNOWN_DIALECT = re.compile(r"https?://json-schema\.org/(?:draft/2020-12|draft/2019-09|draft-0[467])/schema#?")
_LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

HeaderMap = Mapping[tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class Inspected:
    """A schema that may be held: its digest, where arguments are mirrored into headers, and what we cannot check."""

    digest: bytes
    headers: HeaderMap = field(default_factory=dict[tuple[str, ...], str])
    unchecked: tuple[str, ...] = ()


def normalized(schema: Json) -> JsonObject:
    """An input schema as we list it: an object schema that always has `properties`."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    given = cast(JsonObject, schema)
    if isinstance(given.get("properties"), dict):
        return given if "type" in given else {"type": "object", **given}
    return {"type": "object", **given, "properties": {}}


def inspect(schema: Json) -> Inspected | str:
    """The schema's particulars, or the reason why it must not be held."""
    if not isinstance(schema, dict):
        return "The schema is not an object."
    shape = cast(JsonObject, schema)
    encoded = encode(shape, MAX_BYTES)
    if isinstance(encoded, str):
        return f"The schema {encoded}"
    return _structure_problem(shape) or _inspected(shape, encoded)


def particulars(schema: JsonObject) -> Inspected:
    """What `inspect` says of a schema that it let through before, without looking into it again."""
    encoded = msgspec.json.encode(schema)
    headers = header_map(schema) if b'"x-mcp-header"' in encoded else ""
    return Inspected(_digest(encoded)) if isinstance(headers, str) else Inspected(_digest(encoded), headers)


def encode(value: Json, max_bytes: int) -> bytes | str:
    """JSON text of a value that others made, or what is wrong with it ("is nested …", "is … bytes long", …)."""
    try:
        encoded = msgspec.json.encode(value)
    except RecursionError:
        return f"is nested more than {MAX_NESTING} levels deep."
    except (TypeError, ValueError) as error:
        return f"is not JSON: {str(error)[:200]}"
    if len(encoded) > max_bytes:
        return f"is {len(encoded)} bytes long; the limit is {max_bytes}."
    # Few brackets cannot nest deeply, and almost every schema has few.
    if encoded.count(b"{") + encoded.count(b"[") > MAX_NESTING and not _is_shallow(value):
        return f"is nested more than {MAX_NESTING} levels deep."
    return encoded


def _is_shallow(value: Json) -> bool:
    todo: list[tuple[Any, int]] = [(value, 1)]
    while todo:
        part, depth = todo.pop()
        if depth > MAX_NESTING:
            return False
        if isinstance(part, dict):
            todo.extend((child, depth + 1) for child in cast(JsonObject, part).values())
        elif isinstance(part, list | tuple):
            todo.extend((child, depth + 1) for child in cast("list[Any]", part))
    return True


def _inspected(shape: JsonObject, encoded: bytes) -> Inspected | str:
    headers = header_map(shape)
    if isinstance(headers, str):
        return headers
    checked, unchecked = checkable(shape)
    try:
        compiled(checked)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return f"The schema cannot be read: {_first_line(error)}"
    return Inspected(_digest(encoded), headers, unchecked)


def _structure_problem(root: JsonObject) -> str | None:
    """Depth, enum sizes, number: what can be said without following references; then what they add up to."""
    count = 0
    references: list[tuple[str, str]] = []
    for schema, depth in subschemas(root):
        count += 1
        if depth > MAX_DEPTH:
            return f"The schema is more than {MAX_DEPTH} subschemas deep."
        members = schema.get("enum")
        if isinstance(members, list) and len(cast("list[Any]", members)) > MAX_ENUM:
            return f"An enum has {len(cast('list[Any]', members))} members; the limit is {MAX_ENUM}."
        found = ((keyword, schema.get(keyword)) for keyword in _REFS if keyword in schema)
        references.extend((keyword, target) for keyword, target in found if isinstance(target, str))
    if references:
        return _reference_problem(root, references)
    return f"The schema has {count} subschemas; the limit is {MAX_SUBSCHEMAS}." if count > MAX_SUBSCHEMAS else None


def _reference_problem(root: JsonObject, references: list[tuple[str, str]]) -> str | None:
    anchors = _anchors(root)
    for keyword, reference in references:
        if _target(root, anchors, reference) is None:
            return f"{keyword} '{reference[:120]}' points outside of the schema; only local references are followed."
    return _Expansion(root, anchors).problem()


def subschemas(root: JsonObject) -> Iterator[tuple[JsonObject, int]]:
    """Every subschema that stands in the schema, with its depth; references are not followed."""
    todo: list[tuple[JsonObject, int]] = [(root, 1)]
    while todo:
        schema, depth = todo.pop()
        yield schema, depth
        todo.extend((child, depth + 1) for _, child in _children(schema))


def _children(schema: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for keyword, value in schema.items():
        if isinstance(value, dict):
            nested = cast(JsonObject, value)
            if keyword in _ONE:
                yield keyword, nested
            elif keyword in _MAP:
                yield from ((keyword, cast(JsonObject, child)) for child in nested.values() if isinstance(child, dict))
        elif keyword in _LIST and isinstance(value, list):
            items = cast("list[Any]", value)
            yield from ((keyword, cast(JsonObject, child)) for child in items if isinstance(child, dict))


def _anchors(root: JsonObject) -> dict[str, JsonObject]:
    """What a reference may name besides a pointer: embedded `$id`s and anchors."""
    found: dict[str, JsonObject] = {"#": root, "": root}
    for schema, _ in subschemas(root):
        for keyword, prefix in (("$id", ""), ("id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
            name = schema.get(keyword)
            if isinstance(name, str) and name:
                found[prefix + name] = schema
    return found


def _target(root: JsonObject, anchors: Mapping[str, JsonObject], reference: str) -> Json | None:
    if reference in anchors:
        return anchors[reference]
    base, _, fragment = reference.partition("#")
    start = anchors.get(base) if base else root
    if start is None or not (fragment == "" or fragment.startswith("/")):
        return None
    parts = unquote(fragment).split("/")[1:]
    return at(start, (part.replace("~1", "/").replace("~0", "~") for part in parts))


def at(value: Json, path: Iterable[str | int]) -> Json | None:
    """What stands at a path; None when nothing does."""
    for part in path:
        if isinstance(value, dict):
            value = cast(JsonObject, value).get(str(part))
        elif isinstance(value, list) and str(part).isdecimal() and int(part) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(part)]
        else:
            return None
    return value


class _Expansion:
    """How large the schema is to somebody who follows every reference each time it is met.

    A reference back to a schema still being expanded is a loop and counts once: recursion over data is fine, recursion
    in place (a schema that means itself) is not.
    """

    def __init__(self, root: JsonObject, anchors: Mapping[str, JsonObject]) -> None:
        self._root = root
        self._anchors = anchors
        self._done: dict[int, tuple[int, int]] = {}
        self._open: dict[int, bool] = {}

    def problem(self) -> str | None:
        try:
            size, _ = self._measure(self._root, in_place=False, depth=0)
        except _TooLargeError:
            size = MAX_SUBSCHEMAS + 1
        except _LoopError:
            return "A $ref leads back to itself without descending into the data."
        if size > MAX_SUBSCHEMAS:
            return f"With its references followed the schema has more than {MAX_SUBSCHEMAS} subschemas."
        return None

    def loops(self) -> int:
        return self._measure(self._root, in_place=False, depth=0)[1]

    def _measure(self, schema: JsonObject, *, in_place: bool, depth: int) -> tuple[int, int]:
        """(subschemas, loops). Depth is bounded: a path without a loop visits each of at most 2,000 schemas once."""
        key = id(schema)
        if key in self._open:
            if self._open_in_place(key) and in_place:
                raise _LoopError
            return 1, 1
        if key in self._done:
            return self._done[key]
        if depth > MAX_SUBSCHEMAS // 10:
            raise _TooLargeError
        self._open[key] = in_place
        size, loops = 1, 0
        for keyword, child in self._followed(schema):
            more, again = self._measure(child, in_place=keyword in _IN_PLACE or keyword in _REFS, depth=depth + 1)
            size, loops = size + more, loops + again
            if size > MAX_SUBSCHEMAS:
                raise _TooLargeError
        del self._open[key]
        self._done[key] = (size, loops)
        return size, loops

    def _open_in_place(self, key: int) -> bool:
        """Whether everything entered since the schema `key` was entered in place: then nothing was descended into."""
        keys = list(self._open)
        return all(self._open[later] for later in keys[keys.index(key) + 1 :])

    def _followed(self, schema: JsonObject) -> Iterator[tuple[str, JsonObject]]:
        # Definitions cost nothing until somebody refers to them.
        yield from ((keyword, child) for keyword, child in _children(schema) if keyword not in ("$defs", "definitions"))
        for keyword in _REFS:
            reference = schema.get(keyword)
            if isinstance(reference, str):
                target = _target(self._root, self._anchors, reference)
                if isinstance(target, dict):
                    yield keyword, cast(JsonObject, target)


class _TooLargeError(Exception):
    pass


class _LoopError(Exception):
    pass


def loops(schema: JsonObject) -> int:
    """How often a schema that passed inspection leads back into itself; 0 when it does not recurse."""
    return _Expansion(schema, _anchors(schema)).loops()


def header_map(schema: JsonObject) -> HeaderMap | str:
    """Argument path → `Mcp-Param-` token, from `x-mcp-header`; or why the annotations are not allowed (SEP-2243)."""
    found: dict[tuple[str, ...], str] = {}
    expected = 0
    todo: list[tuple[tuple[str, ...], JsonObject]] = [((), schema)]
    while todo:
        path, part = todo.pop()
        if "x-mcp-header" in part:
            expected += 1
            token = part["x-mcp-header"]
            if not path or not isinstance(token, str) or not _TOKEN.fullmatch(token):
                return "An x-mcp-header annotation is not a header name on a property."
            if part.get("type") not in ("string", "integer", "boolean"):
                return f"x-mcp-header '{token}' stands on a property that is not a string, integer or boolean."
            if token.lower() in {other.lower() for other in found.values()}:
                return f"x-mcp-header '{token}' is used twice."
            found[path] = token
        properties = part.get("properties")
        if isinstance(properties, dict):
            named = cast("dict[str, Any]", properties).items()
            todo.extend(((*path, name), cast(JsonObject, child)) for name, child in named if isinstance(child, dict))
    if expected != sum("x-mcp-header" in part for part, _ in subschemas(schema)):
        return "An x-mcp-header annotation stands where no plain property is."
    return dict(sorted(found.items()))


def checkable(schema: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """The schema without the patterns that a linear-time engine refuses, and those patterns.

    Look-around and back-references are common in honest schemas (e-mail addresses) and dangerous to run; the upstream,
    who wrote them, still checks them.
    """
    unchecked: list[str] = []
    for part, _ in subschemas(schema):
        pattern = part.get("pattern")
        keyed = part.get("patternProperties")
        candidates = [pattern] if isinstance(pattern, str) else []
        if isinstance(keyed, dict):
            candidates.extend(cast("dict[str, Any]", keyed))
        unchecked.extend(candidate for candidate in candidates if not _is_linear(candidate))
    dialect = schema.get("$schema")
    known = not isinstance(dialect, str) or _KNOWN_DIALECT.fullmatch(dialect)
    if not unchecked and known:
        return schema, ()
    copy = cast(JsonObject, msgspec.json.decode(msgspec.json.encode(schema)))
    if not known:
        del copy["$schema"]
    for part, _ in list(subschemas(copy)):
        _drop_patterns(part, set(unchecked))
    return copy, tuple(dict.fromkeys(unchecked))


def _drop_patterns(part: JsonObject, unchecked: set[str]) -> None:
    pattern = part.get("pattern")
    if isinstance(pattern, str) and pattern in unchecked:
        del part["pattern"]
    keyed = part.get("patternProperties")
    if isinstance(keyed, dict) and unchecked & cast("dict[str, Any]", keyed).keys():
        # Without them we cannot say which properties are additional.
        for keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
            part.pop(keyword, None)


def _is_linear(pattern: str) -> bool:
    if len(pattern) > MAX_PATTERN:
        return False
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=_LINEAR, offline=True)
    except ValueError:
        return False
    return True


def compiled(schema: JsonObject) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema, validate_formats=False, pattern_options=_LINEAR, offline=True)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


def _digest(encoded: bytes) -> bytes:
    return hashlib.sha256(encoded).digest()[:16]
