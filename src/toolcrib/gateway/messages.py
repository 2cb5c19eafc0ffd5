"""JSON-RPC messages as they arrive: decoded once, in one pass, with the parts we only pass on left as raw JSON.

One params shape serves every method: a field that a method does not use is simply not there. Knows nothing of eras.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from toolcrib.protocol import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR

RESOURCE_NOT_FOUND_LEGACY = -32002
SOURCE_FAILED = -32007

JsonObject = dict[str, Any]
NO_ID = Raw(b"null")


_META_KEYS = {
    "version": "io.modelcontextprotocol/protocolVersion",
    "capabilities": "io.modelcontextprotocol/clientCapabilities",
    "log_level": "io.modelcontextprotocol/logLevel",
    "progress_token": "progressToken",
}


class Meta(msgspec.Struct, frozen=True, rename=_META_KEYS):
    """`params._meta`, as far as it concerns us."""

    version: str | UnsetType = UNSET
    capabilities: JsonObject | UnsetType = UNSET
    log_level: str | UnsetType = UNSET
    progress_token: str | int | UnsetType = UNSET


class Params(
    msgspec.Struct,
    frozen=True,
    rename={
        "meta": "_meta",
        "protocol_version": "protocolVersion",
        "request_id": "requestId",
        "input_responses": "inputResponses",
        "request_state": "requestState",
    },
):
    meta: Meta = Meta()
    name: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    arguments: Raw = Raw()
    cursor: str | None = None
    protocol_version: str | UnsetType = UNSET
    capabilities: JsonObject | UnsetType = UNSET
    level: str | UnsetType = UNSET
    ref: JsonObject | UnsetType = UNSET
    argument: JsonObject | UnsetType = UNSET
    context: JsonObject | UnsetType = UNSET
    notifications: JsonObject | UnsetType = UNSET
    request_id: Raw = Raw()
    input_responses: JsonObject | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


NO_PARAMS = Params()


class Message(msgspec.Struct, frozen=True):
    """A request (method and id), a notification (method alone) or an answer to us (result or error)."""

    jsonrpc: str = ""
    id: Raw = Raw()
    method: str = ""
    params: Params = NO_PARAMS
    result: Raw = Raw()
    error: Raw = Raw()

    @property
    def is_notification(self) -> bool:
        return not bytes(self.id)


class Rejected(Exception):
    """A message that cannot be served, in JSON-RPC's own terms."""

    def __init__(
        self, code: int, message: str, *, id: Raw = NO_ID, data: Any = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id
        self.data = data
        self.status = status


class _Loose(msgspec.Struct, frozen=True):
    id: Raw = Raw()
    method: Any = None
    params: Raw = Raw()


class PlainMeta(msgspec.Struct, frozen=True, rename=_META_KEYS):
    version: Literal["2026-07-28"]
    capabilities: JsonObject
    log_level: Raw = Raw()
    progress_token: Raw = Raw()


class PlainParams(
    msgspec.Struct,
    frozen=True,
    rename={"meta": "_meta", "input_responses": "inputResponses", "request_state": "requestState"},
):
    name: str
    meta: PlainMeta
    arguments: Raw = Raw()
    input_responses: Raw = Raw()
    request_state: Raw = Raw()


class PlainCall(msgspec.Struct, frozen=True):
    """A stateless `tools/call`, as far as one is like another; what would make it special is there to be ruled out."""

    jsonrpc: Literal["2.0"]
    id: Raw
    method: Literal["tools/call"]
    params: PlainParams


_decode = msgspec.json.Decoder(Message).decode
_decode_plain = msgspec.json.Decoder(PlainCall).decode
_decode_loosely = msgspec.json.Decoder(_Loose).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


def read_message(body: bytes | Raw) -> Message:
    """One message, or `Rejected` with as much of its identity as could be read."""
    try:
        message = _decode(body)
    except msgspec.ValidationError as error:
        raise _explain(body, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Rejected(PARSE_ERROR, "Parse error: the body is not JSON.", status=400) from None
    _check(message)
    return message


def read_plain_call(body: bytes, name: str) -> PlainCall | None:
    """A call of this tool that declares nothing and wants nothing but an answer; None for any other message."""
    try:
        call = _decode_plain(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    params = call.params
    meta, raw_id = params.meta, bytes(call.id)
    if params.name != name or meta.capabilities or not (raw_id.isdigit() or raw_id[:1] == b'"'):
        return None
    special = meta.progress_token or meta.log_level or params.request_state or params.input_responses
    return None if bytes(special) else call


def is_batch(body: bytes) -> bool:
    return body[:1] != b"{" and body[:64].lstrip()[:1] == b"["


def read_batch(body: bytes) -> list[Raw]:
    try:
        items = _decode_items(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Rejected(PARSE_ERROR, "Parse error: the body is not JSON.", status=400) from None
    if not items:
        raise Rejected(INVALID_REQUEST, "Invalid request: an empty batch.", status=400)
    return items


def _check(message: Message) -> None:
    raw = bytes(message.id)
    if message.jsonrpc != "2.0":
        raise Rejected(INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0".', id=_echo(raw), status=400)
    if raw and not _is_id(raw):
        raise Rejected(INVALID_REQUEST, "Invalid request: id must be a string or an integer.", status=400)
    if not message.method and not bytes(message.result) and not bytes(message.error):
        raise Rejected(INVALID_REQUEST, "Invalid request: method is missing.", id=_echo(raw), status=400)


def _is_id(raw: bytes) -> bool:
    return raw[:1] == b'"' or raw.lstrip(b"-").isdigit()


def _echo(raw: bytes) -> Raw:
    return Raw(raw) if raw and _is_id(raw) else NO_ID


def _explain(body: bytes | Raw, error: msgspec.ValidationError) -> Rejected:
    try:
        loose = _decode_loosely(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Rejected(INVALID_REQUEST, "Invalid request: a JSON-RPC message is an object.", status=400)
    raw = bytes(loose.id)
    if isinstance(loose.method, str) and (not raw or _is_id(raw)):
        return Rejected(INVALID_PARAMS, f"Invalid params: {error}.", id=_echo(raw))
    return Rejected(INVALID_REQUEST, f"Invalid request: {error}.", id=_echo(raw), status=400)
