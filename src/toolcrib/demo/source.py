"""A demo source: a class whose marked methods are tools, with its state in the instance.

The signature is the input schema (text beside a type describes the argument), the docstring is the description, the
mark says what a call does to the world. Knows nothing of MCP messages; `stdio` speaks for a source.
"""

import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Meta

Json = dict[str, Any]
Instant = Annotated[datetime, Meta(tz=True)]

_MARK = "demo_tool"
_Function = TypeVar("_Function", bound=Callable[..., object])
_Record = TypeVar("_Record", bound=msgspec.Struct)


class Refused(Exception):
    """A call that cannot be done as asked; the agent reads the message."""


def _marked(function: _Function, *, read_only: bool, destructive: bool, idempotent: bool) -> _Function:
    vars(function)[_MARK] = {
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": False,
    }
    return function


def reads(function: _Function) -> _Function:
    """A tool that changes nothing."""
    return _marked(function, read_only=True, destructive=False, idempotent=True)


def adds(function: _Function) -> _Function:
    """A tool that adds something with every call."""
    return _marked(function, read_only=False, destructive=False, idempotent=False)


def sets(function: _Function) -> _Function:
    """A tool that puts something into a state; doing it twice changes nothing more."""
    return _marked(function, read_only=False, destructive=False, idempotent=True)


def removes(function: _Function) -> _Function:
    """A tool that overwrites or takes away what cannot be brought back."""
    return _marked(function, read_only=False, destructive=True, idempotent=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of a source: how it is listed, and how it is called."""

    name: str
    definition: Json
    call: Callable[[Mapping[str, Any]], object]


def utc_now() -> datetime:
    """The clock that sources read unless they are given another."""
    return datetime.now(UTC)


class Source:
    """A set of tools over one small world, made anew in every process."""

    label: ClassVar[str]
    about: ClassVar[str]

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self.now = now
        self._numbers = itertools.count(1)

    @property
    def today(self) -> date:
        return self.now().date()

    def next_id(self, prefix: str) -> str:
        """A new id, unique in this source."""
        return f"{prefix}-{next(self._numbers)}"

    @cached_property
    def tools(self) -> dict[str, Tool]:
        """The marked methods, in the order in which they are written."""
        return {name: _tool(getattr(self, name)) for name, value in vars(type(self)).items() if _MARK in _marks(value)}


def pick(records: Mapping[str, _Record], key: str, noun: str) -> _Record:
    """The record of this id, or a refusal that says which ids there are."""
    if key not in records:
        known = ", ".join(list(records)[:5]) or "none yet"
        raise Refused(f"There is no {noun} {key!r}. Known ids: {known}.")
    return records[key]


def revised(record: _Record, **changes: object) -> _Record:
    """The record with those changes that were given; None means not given."""
    given = {name: value for name, value in changes.items() if value is not None}
    if not given:
        raise Refused(f"Nothing to change: give at least one of {', '.join(changes)}.")
    return msgspec.structs.replace(record, **given)


def mentions(text: str, *fields: str) -> bool:
    """Whether every word of the text stands in one of the fields."""
    everything = " ".join(fields).lower()
    return all(word in everything for word in text.lower().split())


def _marks(value: object) -> Mapping[str, object]:
    return vars(value) if inspect.isfunction(value) else {}


def _tool(method: Callable[..., object]) -> Tool:
    name = method.__name__
    arguments = msgspec.defstruct(name, _fields(method), kw_only=True, forbid_unknown_fields=True)

    def call(given: Mapping[str, Any]) -> object:
        try:
            read = msgspec.convert(given, arguments)
        except msgspec.ValidationError as error:
            raise Refused(f"Invalid arguments for {name}: {error}") from error
        return method(**msgspec.structs.asdict(read))

    definition = {
        "name": name,
        "description": " ".join((method.__doc__ or "").split()),
        "inputSchema": _schema(arguments),
        "annotations": cast(Json, getattr(method, _MARK)),
    }
    return Tool(name, definition, call)


def _fields(method: Callable[..., object]) -> list[Any]:
    """The parameters as msgspec fields; a field with a default is a triple."""
    found = inspect.signature(method).parameters.values()
    return [
        (p.name, _described(p.annotation)) + (() if p.default is inspect.Parameter.empty else (p.default,))
        for p in found
    ]


def _described(annotation: Any) -> Any:
    """The same type with its plain texts as msgspec descriptions."""
    if get_origin(annotation) is not Annotated:
        return annotation
    base, *notes = get_args(annotation)
    for note in notes:
        base = Annotated[base, Meta(description=note) if isinstance(note, str) else note]
    return base


def _schema(arguments: type[msgspec.Struct]) -> Json:
    _, parts = msgspec.json.schema_components([arguments])
    schema = parts.pop(arguments.__name__)
    properties = {name: _typed(_without_null(child)) for name, child in schema["properties"].items()}
    required = {"required": schema["required"]} if schema["required"] else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _typed(schema: Json) -> Json:
    """Choices are texts here, and some clients want to be told."""
    return {"type": "string", **schema} if "enum" in schema else schema


def _without_null(schema: Json) -> Json:
    """What may be left out is not required; that it may also be null need not be said."""
    if schema.get("default", ...) is not None:
        return schema
    kept = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**rest, **kept[0]} if len(kept) == 1 else {**rest, "anyOf": kept}
