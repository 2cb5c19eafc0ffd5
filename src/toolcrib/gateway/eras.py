"""The two eras of the protocol on one URL: how each is recognised, checked and framed.

Session era (2025-03-26, 2025-06-18, 2025-11-25): `initialize`, optional sessions. Stateless era (2026-07-28): every
request carries version and capabilities, headers repeat what the body says, results say what they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw

from toolcrib.gateway.messages import NO_ID, JsonObject, Message, Rejected
from toolcrib.http import Header, repeated
from toolcrib.protocol import (
    CAPABILITY_MISSING,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LATEST_LEGACY,
    LEGACY,
    METHOD_NOT_FOUND,
    MODERN,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    HeaderMap,
    decode_header,
    mirror_problem,
)

__all__ = ["LATEST_LEGACY", "LEGACY", "MODERN"]  # the words callers of this module use
ASSUMED = "2025-03-26"  # what a request without a version header speaks; also the one revision with batches
SUPPORTED = [*LEGACY, MODERN]
_MODERN_BYTES = MODERN.encode()
_BY_BYTES = {v.encode(): v for v in SUPPORTED}
_ROUTING_HEADERS = frozenset({b"mcp-protocol-version", b"mcp-method", b"mcp-name"})
_SAYS_SO = b'{"resultType":"complete",'
_MODERN_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    CAPABILITY_MISSING: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}


class _Head(msgspec.Struct, frozen=True):
    """What a result says of itself. Left raw: it is an upstream's word, and only its presence matters here."""

    resultType: Raw = Raw()  # noqa: N815 - the wire's spelling
    ttlMs: Raw = Raw()  # noqa: N815
    cacheScope: Raw = Raw()  # noqa: N815


_read_head = msgspec.json.Decoder(_Head).decode


def version_of(headers: Mapping[bytes, bytes], message: Message) -> str:
    """The protocol version a message speaks, or `Rejected` for one nobody does."""
    if b"mcp-protocol-version" not in headers and message.params.meta.version is not UNSET:
        text = "The header MCP-Protocol-Version is missing; _meta names one."
        raise Rejected(HEADER_MISMATCH, text, id=message.id or NO_ID, status=400)
    return version_of_header(headers, message.id or NO_ID)


def version_of_header(headers: Mapping[bytes, bytes], id: Raw = NO_ID) -> str:
    asked = headers.get(b"mcp-protocol-version")
    if asked is None:
        return ASSUMED
    version = _BY_BYTES.get(asked.strip())
    if version is None:
        data = {"supported": SUPPORTED, "requested": asked.decode("latin-1")[:100]}
        raise Rejected(UNSUPPORTED_VERSION, "Unsupported protocol version", id=id, data=data, status=400)
    return version


def is_modern(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"mcp-protocol-version", b"").strip() == _MODERN_BYTES


def check_modern(message: Message, headers: Mapping[bytes, bytes]) -> None:
    """The stateless era's rules for one request: complete `_meta`, and headers that agree with the body."""
    meta, params = message.params.meta, message.params
    if meta.version is UNSET or meta.capabilities is UNSET:
        missing = "protocolVersion" if meta.version is UNSET else "clientCapabilities"
        raise Rejected(INVALID_PARAMS, f"params._meta lacks io.modelcontextprotocol/{missing}.", id=message.id)
    if meta.version != MODERN:
        raise _mismatch(message, "MCP-Protocol-Version")
    if headers.get(b"mcp-method", b"").strip().decode("latin-1") != message.method:
        raise _mismatch(message, "Mcp-Method")
    if message.method in ("tools/call", "prompts/get"):
        named = params.name
    elif message.method == "resources/read":
        named = params.uri
    else:
        named = UNSET
    if named is not UNSET:
        header = headers.get(b"mcp-name")
        if header is None or decode_header(header.strip().decode("latin-1")) != named:
            raise _mismatch(message, "Mcp-Name")


def check_repeated(message: Message, raw_headers: Sequence[Header]) -> None:
    """A header that says how to read the message must say it once."""
    if name := repeated(raw_headers, _ROUTING_HEADERS):
        text = f"The header {name} appears more than once."
        raise Rejected(HEADER_MISMATCH, text, id=message.id or NO_ID, status=400)


def check_mirrored(message: Message, wanted: HeaderMap, raw_headers: Sequence[Header]) -> None:
    """`Mcp-Param-*` headers must say what the arguments say, each once."""
    sent = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in raw_headers if n.startswith(b"mcp-param-")]
    headers = dict(sent)
    if len(headers) != len(sent):
        raise Rejected(HEADER_MISMATCH, "An Mcp-Param header appears more than once.", id=message.id)
    try:
        arguments = msgspec.json.decode(bytes(message.params.arguments) or b"{}", type=JsonObject)
    except msgspec.DecodeError:
        return  # no object at all: the schema says so better
    problem = mirror_problem(wanted, arguments, headers)
    if problem is not None:
        raise Rejected(HEADER_MISMATCH, problem, id=message.id)


def status_of(code: int, *, modern: bool) -> int:
    return _MODERN_STATUS.get(code, 200) if modern else 200


def complete(result: bytes, *, cacheable: bool = False) -> bytes:
    """An upstream's result as the stateless era wants it: saying that it is complete, and how long it may be kept."""
    if not cacheable and result.startswith(_SAYS_SO):
        return result
    head = _read_head(result)
    added = b"" if bytes(head.resultType) else b'"resultType":"complete",'
    if cacheable and not bytes(head.ttlMs):
        added += b'"ttlMs":0,'
    if cacheable and not bytes(head.cacheScope):
        added += b'"cacheScope":"private",'
    return insert(result, added) if added else result


def insert(obj: bytes, fields: bytes) -> bytes:
    """JSON object text with more fields in front. `fields` ends with a comma."""
    rest = obj.lstrip()[1:]
    return b"{" + (fields[:-1] if rest.lstrip()[:1] == b"}" else fields) + rest


def _mismatch(message: Message, header: str) -> Rejected:
    return Rejected(HEADER_MISMATCH, f"Header mismatch: {header} does not agree with the body.", id=message.id)
