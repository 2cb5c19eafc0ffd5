"""JSON-RPC as it is exchanged with an MCP upstream: encode what we ask, slice what comes back, never parse a result.

Knows the two eras' reserved `_meta` keys. Deliberately knows no transport and no exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import msgspec

from toolcrib import __version__, errors
from toolcrib.domain import JsonObject
from toolcrib.protocol import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LATEST_LEGACY,
    LOG_LEVEL_KEY,
    METHOD_NOT_FOUND,
    MODERN,
    SERVER_INFO_KEY,
    VERSION_KEY,
)
from toolcrib.protocol import LEGACY as LEGACY_VERSIONS
from toolcrib.upstreams.upstream import Change, Complete, Exchange, InputRequired, Outcome, Params

LEGACY: Final = LATEST_LEGACY
CLIENT_INFO: Final[JsonObject] = {"name": "toolcrib", "version": __version__}
SUBSCRIPTION_ID_KEY: Final = "io.modelcontextprotocol/subscriptionId"
MAX_ERROR_TEXT: Final = 4_000

_OURS: Final = frozenset(
    {
        "progressToken",
        VERSION_KEY,
        CLIENT_INFO_KEY,
        CLIENT_CAPABILITIES_KEY,
        LOG_LEVEL_KEY,
        SUBSCRIPTION_ID_KEY,
    }
)
"""`_meta` keys that speak about one hop; the next hop gets ours instead."""


class RpcError(msgspec.Struct):
    code: int
    message: str = ""
    data: Any = None


class Message(msgspec.Struct):
    """Any JSON-RPC message. What is absent is empty; `result` and `params` stay text."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: RpcError | None = None


@dataclass(frozen=True, slots=True)
class Hello:
    """How an upstream introduced itself."""

    era: Literal["modern", "legacy"]
    version: str
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    server_info: JsonObject = field(default_factory=dict[str, Any])
    instructions: str | None = None


class _Input(msgspec.Struct, rename="camel"):
    result_type: str = "complete"
    input_requests: dict[str, Any] | None = None
    request_state: str | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_input = msgspec.json.Decoder(_Input).decode
_MALFORMED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_BARE_MODERN_META = msgspec.Raw(
    _encode({VERSION_KEY: MODERN, CLIENT_INFO_KEY: CLIENT_INFO, CLIENT_CAPABILITIES_KEY: {}})
)


def request(id: int, method: str, params: Mapping[str, Any]) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def bare_modern_call(id: int, tool: str, arguments: bytes) -> bytes:
    """A stateless `tools/call` of somebody who declares nothing and wants to hear nothing but the answer.

    The same bytes as `request` with `modern_params`.
    """
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%b,"arguments":%b,"_meta":%b}}' % (
        id,
        _encode(tool),
        arguments,
        _BARE_MODERN_META,
    )


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    return _encode({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})


def cancelled(id: int) -> bytes:
    """A notice that nobody waits for the answer to this request any more."""
    return notification("notifications/cancelled", {"requestId": id, "reason": "no longer wanted"})


def reply(id: int | str, result: JsonObject) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "result": result})


def refusal(id: int | str, message: str, code: int = METHOD_NOT_FOUND) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


def canonical(value: JsonObject) -> str:
    """One text per value, to compare and to key by."""
    return msgspec.json.encode(value, order="sorted").decode() if value else ""


def modern_params(params: Params, exchange: Exchange, token: int) -> Params:
    """These params with the `_meta` of a stateless request: who we are and what the asking client can do."""
    if "_meta" not in params and not exchange.capabilities and not exchange.wants_progress and not exchange.log_level:
        return {**params, "_meta": _BARE_MODERN_META}
    meta = _carried_meta(params, exchange, token)
    meta[VERSION_KEY] = MODERN
    meta[CLIENT_INFO_KEY] = CLIENT_INFO
    meta[CLIENT_CAPABILITIES_KEY] = exchange.capabilities
    if exchange.log_level:
        meta[LOG_LEVEL_KEY] = exchange.log_level
    return {**params, "_meta": meta}


def legacy_params(params: Params, exchange: Exchange, token: int) -> Params:
    if "_meta" not in params and not exchange.wants_progress:
        return params
    meta = _carried_meta(params, exchange, token)
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "_meta": meta} if meta else rest


def _carried_meta(params: Params, exchange: Exchange, token: int) -> JsonObject:
    given: Any = params.get("_meta")
    if isinstance(given, msgspec.Raw):
        given = _decode_object(given)
    meta: JsonObject = {key: value for key, value in _object(given).items() if key not in _OURS}
    if exchange.wants_progress:
        meta["progressToken"] = token
    return meta


def read(text: bytes, source: str) -> Message:
    try:
        return _decode(text)
    except _MALFORMED as error:
        raise errors.BadAnswer(f"{source!r} sent something that is not a JSON-RPC message.", source=source) from error


def read_object(text: bytes | msgspec.Raw, source: str) -> JsonObject:
    if not text:
        return {}
    try:
        return _decode_object(text)
    except _MALFORMED as error:
        raise errors.BadAnswer(f"{source!r} sent something that is not a JSON object.", source=source) from error


def outcome(message: Message, id: int, source: str) -> Outcome:
    """What this answer to our request `id` amounts to; an answer to anything else is never delivered."""
    if message.error is not None and (message.id == id or message.id is None):
        raise refused(message.error, source)
    if message.id != id:
        raise errors.BadAnswer(f"{source!r} answered a request that was not asked on this connection.", source=source)
    result = bytes(message.result)
    if not result.startswith(b"{"):
        raise errors.BadAnswer(f"{source!r} sent an answer without a result object.", source=source)
    try:
        if not result.isascii():
            result.decode()
        if b'"input_required"' not in result:
            return Complete(result)
        head = _decode_input(result)
    except _MALFORMED as error:
        raise errors.BadAnswer(f"{source!r} sent a result that cannot be read.", source=source) from error
    if head.result_type != "input_required":
        return Complete(result)
    return InputRequired(head.input_requests or {}, head.request_state, result)


def refused(error: RpcError, source: str) -> errors.UpstreamRefused:
    return errors.UpstreamRefused(error.message[:MAX_ERROR_TEXT], rpc_code=error.code, data=error.data, source=source)


def change(message: Message, source: str) -> Change | None:
    """What this notification says has changed, if that is what it says."""
    match message.method:
        case "notifications/tools/list_changed":
            return Change("tools")
        case "notifications/resources/list_changed":
            return Change("resources")
        case "notifications/prompts/list_changed":
            return Change("prompts")
        case "notifications/resources/updated":
            uri = read_object(message.params, source).get("uri")
            return Change("resource", uri) if isinstance(uri, str) else None
        case _:
            return None


def speaks_modern(discovered: JsonObject) -> bool:
    versions: Any = discovered.get("supportedVersions")
    return isinstance(versions, list) and MODERN in cast("list[Any]", versions)


def hello_from_discover(result: JsonObject) -> Hello:
    info = _object(_object(result.get("_meta")).get(SERVER_INFO_KEY))
    return Hello("modern", MODERN, _object(result.get("capabilities")), info, _text(result.get("instructions")))


def hello_from_initialize(result: JsonObject, source: str) -> Hello:
    version = result.get("protocolVersion")
    if version not in LEGACY_VERSIONS:
        raise errors.BadAnswer(f"{source!r} insists on a protocol version that is unknown here.", source=source)
    info, told = _object(result.get("serverInfo")), _text(result.get("instructions"))
    return Hello("legacy", version, _object(result.get("capabilities")), info, told)


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def initialize_params(capabilities: JsonObject) -> JsonObject:
    return {"protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": CLIENT_INFO}
