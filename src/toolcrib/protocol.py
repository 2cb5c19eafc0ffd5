"""The words of MCP that both sides of the gateway use: versions, codes, `_meta` keys, and values carried in headers.

The official SDK has them too, but importing it costs a second and 40 MB (measured), and a server needs nothing else of
it. Tests hold these to the SDK's. Knows no message and no transport.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final, cast

MODERN: Final = "2026-07-28"
LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_LEGACY: Final = LEGACY[-1]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
CAPABILITY_MISSING: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"

NAMED_BY: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Method → the param that `Mcp-Name` repeats."""

HeaderMap = Mapping[tuple[str, ...], str]
"""Argument path → header token, from a tool's `x-mcp-header` annotations."""

_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
_WHOLE = re.compile(r"-?[0-9]{1,300}(\.0+)?")
_PLAIN = re.compile(r"[\x20-\x7e]*")


def encode_header(value: str) -> str:
    """A value as a header can carry it: plain ASCII as it is, anything else in base64."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _SENTINEL.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decode_header(value: str) -> str | None:
    """The inverse; None for base64 that nobody's encoder would write, so that it matches nothing by accident."""
    found = _SENTINEL.fullmatch(value) if value.startswith("=?") else None
    if found is None:
        return value
    try:
        raw = base64.b64decode(found[1], validate=True)
        return raw.decode() if base64.b64encode(raw).decode() == found[1] else None
    except (binascii.Error, ValueError):
        return None


def mirrored(headers: HeaderMap, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The `Mcp-Param-*` headers that repeat these arguments; what is absent or null is not repeated."""
    said = ((token, _as_text(_at(arguments, path))) for path, token in headers.items())
    return {f"Mcp-Param-{token}": encode_header(text) for token, text in said if text is not None}


def mirror_problem(headers: HeaderMap, arguments: Mapping[str, Any], sent: Mapping[str, str]) -> str | None:
    """Where the `Mcp-Param-*` headers sent (names in lower case) do not say what the arguments say; None if they do."""
    for path, token in headers.items():
        name, told = f"Mcp-Param-{token}", sent.get(f"mcp-param-{token.lower()}")
        meant = _as_text(_at(arguments, path))
        if (told is None) != (meant is None):
            return f"{name} and the argument {'.'.join(path)!r} must come together."
        if told is not None and not _same(decode_header(told.strip()), meant, _at(arguments, path)):
            return f"{name} does not agree with the argument {'.'.join(path)!r}."
    return None


def _same(told: str | None, meant: str | None, value: Any) -> bool:
    """Whole numbers may be spelled with a fraction of zeros; everything else must be the same text."""
    if told == meant or told is None:
        return told == meant
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
    return is_whole and _WHOLE.fullmatch(told) is not None and int(told.partition(".")[0]) == value


def _at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = arguments
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(key)
    return value


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
