"""One tool's definition: whether it may be held at all, and what of it a model gets to see.

What an upstream sent is kept as it came, for comparison; what is shown is a cleaned copy. Deliberately knows neither
names outside nor versions.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from toolcrib.catalog import schemas, text
from toolcrib.domain import Json, JsonObject

MAX_BYTES = 2 * schemas.MAX_BYTES

# Strings that mean something to the upstream: they cannot be cleaned without becoming another value.
_VALUES = frozenset({"enum", "const", "default", "pattern", "x-mcp-header", "required", "$ref", "$id", "$anchor"})


def encoded(definition: JsonObject) -> bytes | str:
    """The definition as it came, as JSON text; or, as `str`, why it cannot be kept as such."""
    if not isinstance(definition.get("name"), str):
        return "The tool has no name."
    found = schemas.encode(definition, MAX_BYTES)
    return f"The definition {found}" if isinstance(found, str) else found


def problem_with(definition: JsonObject, raw: bytes) -> str | None:
    """Why this definition (whose JSON text is `raw`) must not be held; None when it may."""
    found = schemas.inspect(schemas.normalized(definition.get("inputSchema")))
    if isinstance(found, str):
        return f"inputSchema: {found}"
    output = definition.get("outputSchema")
    if isinstance(output, dict):
        found = schemas.inspect(cast(JsonObject, output))
        if isinstance(found, str):
            return f"outputSchema: {found}"
    return _hidden_value(definition) if _may_hide(raw) else None


def cleaned(raw: bytes) -> JsonObject:
    """What a model may see of a definition: no hidden characters, and `properties` in the input schema."""
    definition = cast(JsonObject, msgspec.json.decode(raw))
    if _may_hide(raw):
        definition = cast(JsonObject, visible(definition))
    definition["inputSchema"] = schemas.normalized(definition.get("inputSchema"))
    return definition


def visible(value: Json) -> Json:
    """The value with hidden characters taken out of its texts. Nesting is bounded by `encoded`."""
    if isinstance(value, str):
        return text.visible(value)
    if isinstance(value, list):
        return [visible(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast(JsonObject, value).items()
        return {key: item if key in _VALUES else visible(item) for key, item in fields}
    return value


def _hidden_value(definition: JsonObject) -> str | None:
    """Hidden characters where cleaning would change the meaning: names of arguments and allowed values."""
    todo: list[tuple[Any, bool]] = [(definition, False)]
    while todo:
        value, meant = todo.pop()
        if meant and isinstance(value, str) and not text.is_visible(value):
            return f"The value '{text.escaped(value, 80)}' holds characters that cannot be seen."
        if isinstance(value, list):
            todo.extend((item, meant) for item in cast("list[Any]", value))
        elif isinstance(value, dict):
            for key, item in cast(JsonObject, value).items():
                if not text.is_visible(key):
                    return f"The name '{text.escaped(key, 80)}' holds characters that cannot be seen."
                todo.append((item, meant or key in _VALUES))
    return None


def _may_hide(raw: bytes) -> bool:
    """Cheap and one-sided: plain ASCII JSON without control characters hides nothing."""
    return not raw.isascii() or b"\\u00" in raw or b"\x7f" in raw or b"\\r" in raw or b"\\b" in raw or b"\\f" in raw
