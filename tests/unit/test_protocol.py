"""Our words of MCP are the official SDK's: constants equal, header values read and written the same way."""

from __future__ import annotations

from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound
from mcp_types import jsonrpc, version

from toolcrib import protocol
from toolcrib.catalog.schemas import header_map

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
    },
}
HEADERS = header_map(SCHEMA)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "region": st.none() | st.text(),
        "count": st.none() | st.integers(-(10**12), 10**12),
        "deep": st.fixed_dictionaries({}, optional={"flag": st.booleans()}),
    },
)


def sdk_decoded(value: str) -> str | None:
    try:
        return inbound.decode_header_value(value)
    except ValueError:  # what is not ASCII in base64 crashes the SDK's; ours matches nothing
        return None


def test_the_constants_are_the_sdks() -> None:
    assert version.HANDSHAKE_PROTOCOL_VERSIONS == protocol.LEGACY
    assert (version.LATEST_MODERN_VERSION, version.LATEST_HANDSHAKE_VERSION) == (
        protocol.MODERN,
        protocol.LATEST_LEGACY,
    )
    assert jsonrpc.HEADER_MISMATCH == protocol.HEADER_MISMATCH
    assert jsonrpc.MISSING_REQUIRED_CLIENT_CAPABILITY == protocol.CAPABILITY_MISSING
    assert jsonrpc.UNSUPPORTED_PROTOCOL_VERSION == protocol.UNSUPPORTED_VERSION
    assert mcp_types.PROTOCOL_VERSION_META_KEY == protocol.VERSION_KEY
    assert mcp_types.CLIENT_INFO_META_KEY == protocol.CLIENT_INFO_KEY
    assert mcp_types.CLIENT_CAPABILITIES_META_KEY == protocol.CLIENT_CAPABILITIES_KEY
    assert mcp_types.LOG_LEVEL_META_KEY == protocol.LOG_LEVEL_KEY
    assert mcp_types.SERVER_INFO_META_KEY == protocol.SERVER_INFO_KEY
    assert dict(inbound.NAME_BEARING_METHODS) == dict(protocol.NAMED_BY)


@given(st.text() | st.from_regex(r"=\?base64\?[ -~]*\?=", fullmatch=True))
def test_header_values_are_written_and_read_like_the_sdks(value: str) -> None:
    assert protocol.encode_header(value) == inbound.encode_header_value(value)
    assert protocol.decode_header(value) == sdk_decoded(value)
    assert protocol.decode_header(protocol.encode_header(value)) == value


@given(ARGUMENTS)
def test_arguments_are_mirrored_like_the_sdks(arguments: dict[str, Any]) -> None:
    assert isinstance(HEADERS, dict)
    sent = protocol.mirrored(HEADERS, arguments)
    assert sent == inbound.mcp_param_headers(HEADERS, arguments)
    lower = {name.lower(): value for name, value in sent.items()}
    assert protocol.mirror_problem(HEADERS, arguments, lower) is None


@given(ARGUMENTS, ARGUMENTS)
def test_lies_are_seen_where_the_sdk_sees_them(said: dict[str, Any], meant: dict[str, Any]) -> None:
    assert isinstance(HEADERS, dict)
    sent = {name.lower(): value for name, value in protocol.mirrored(HEADERS, said).items()}
    ours = protocol.mirror_problem(HEADERS, meant, sent)
    assert (ours is None) == (inbound.validate_mcp_param_headers(SCHEMA, meant, sent) is None)


@pytest.mark.parametrize("number", ["42", "42.0", "4.2e1", "0x2a", "forty-two"])
def test_numbers_are_compared_like_the_sdks(number: str) -> None:
    assert isinstance(HEADERS, dict)
    sent = {"mcp-param-count": number}
    ours = protocol.mirror_problem(HEADERS, {"count": 42}, sent)
    assert (ours is None) == (inbound.validate_mcp_param_headers(SCHEMA, {"count": 42}, sent) is None)
