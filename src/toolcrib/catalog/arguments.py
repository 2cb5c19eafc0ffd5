"""Whether arguments fit a tool's schema, and which rule they broke when they do not.

On the path of every call: a validator is compiled when first needed and kept in a bounded cache. Only schemas that
`schemas.inspect` let through come here. Deliberately knows neither tools nor how a refusal is worded on the wire.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import jsonschema_rs
import msgspec

from toolcrib.catalog import schemas
from toolcrib.domain import Json, JsonObject

MAX_MESSAGE = 500
MAX_FRAGMENT = 2_048
MAX_CAUSES = 4_096


@dataclass(frozen=True, slots=True)
class Violation:
    """Why arguments do not fit: where (a JSON pointer into them), in words, and the rule they broke."""

    pointer: str
    message: str
    fragment: Json


class HasSchema(Protocol):
    """Whoever can give the schema when it is needed; a tool does, so that nothing is decoded before."""

    @property
    def input_schema(self) -> JsonObject: ...


@dataclass(frozen=True, slots=True)
class _Compiled:
    fits: Callable[[Any], bool]
    validator: jsonschema_rs.Validator
    schema: JsonObject
    max_depth: int
    bytes: int


class Validators:
    """Compiled validators of inspected schemas, least recently used first out; bounded by number and by bytes."""

    def __init__(self, max_count: int = 4_096, max_bytes: int = 16 * 1024 * 1024) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._held: OrderedDict[bytes, _Compiled] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def check(self, digest: bytes, owner: HasSchema, arguments: Json) -> Violation | None:
        """None when the arguments fit. `owner` gives the schema behind `digest`; it is asked only when not held."""
        compiled = self._held.get(digest)
        if compiled is None:
            compiled = self._hold(digest, owner.input_schema)
        else:
            self._held.move_to_end(digest)
        # `is_valid` remembers what it has seen and stays linear; explaining a failure does not, see `_explain`.
        return None if compiled.fits(arguments) else _explain(compiled, arguments)

    def _hold(self, digest: bytes, schema: JsonObject) -> _Compiled:
        compiled = _compiled(schema)
        self._held[digest] = compiled
        self._bytes += compiled.bytes
        while len(self._held) > 1 and (len(self._held) > self._max_count or self._bytes > self._max_bytes):
            _, evicted = self._held.popitem(last=False)
            self._bytes -= evicted.bytes
        return compiled


def _compiled(schema: JsonObject) -> _Compiled:
    checked, _ = schemas.checkable(schema)
    validator = schemas.compiled(checked)
    loops = schemas.loops(checked)
    depth = schemas.MAX_NESTING if loops == 0 else int(math.log(MAX_CAUSES) / math.log(max(loops, 2)))
    return _Compiled(validator.is_valid, validator, checked, depth, len(msgspec.json.encode(checked)))


def _explain(compiled: _Compiled, arguments: Json) -> Violation:
    """The first rule broken. Alternatives that recurse are explained only for shallow arguments.

    Measured: collecting the causes of a failed recursive `anyOf` doubles with each level (57 ms at 10, 53 s at 18).
    """
    if not _is_shallow(arguments, compiled.max_depth):
        return Violation("", "The arguments do not fit the schema, and are nested too deeply to say where.", {})
    try:
        compiled.validator.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        pointer = "".join(f"/{_pointer_part(part)}" for part in error.instance_path)
        return Violation(pointer, _shortened(error.message), _fragment(compiled.schema, error.schema_path))
    return Violation("", "The arguments do not fit the schema.", {})


def _is_shallow(value: Json, max_depth: int) -> bool:
    todo: list[tuple[Any, int]] = [(value, 0)]
    while todo:
        part, depth = todo.pop()
        if depth > max_depth:
            return False
        if isinstance(part, dict):
            todo.extend((child, depth + 1) for child in cast(JsonObject, part).values())
        elif isinstance(part, list):
            todo.extend((child, depth + 1) for child in cast("list[Any]", part))
    return True


def _fragment(schema: Json, path: list[str | int]) -> Json:
    """The subschema that was broken; only the broken keyword when the whole is long, nothing when even that is."""
    parent = schemas.at(schema, path[:-1])
    keyword = path[-1] if path else ""
    if isinstance(parent, dict):
        rule = cast(JsonObject, parent)
        for candidate in (rule, {key: rule[key] for key in (keyword,) if key in rule}):
            if len(msgspec.json.encode(candidate)) <= MAX_FRAGMENT:
                return candidate
    return {}


def _pointer_part(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE // 2]}...{message[-MAX_MESSAGE // 2 :]}"
