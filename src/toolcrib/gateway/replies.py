"""The one map from our results and errors to MCP results and JSON-RPC errors.

What an agent can act on (wrong arguments, a source that is down) becomes an `isError` result, which models read; what
only a client can act on becomes a JSON-RPC error. A failure of ours or of a source is marked in `_meta`, so that it is
never mistaken for a tool's own error.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from toolcrib import errors
from toolcrib.gateway.eras import status_of
from toolcrib.gateway.messages import RESOURCE_NOT_FOUND_LEGACY, SOURCE_FAILED, Rejected
from toolcrib.protocol import CAPABILITY_MISSING, INTERNAL_ERROR, INVALID_PARAMS

FAILURE = "io.toolcrib/failure"
OVERLOADED = -32000
_encode = msgspec.json.Encoder().encode

CODES: dict[type[errors.ToolcribError], int] = {
    errors.RequestError: INVALID_PARAMS,
    errors.AccessError: INVALID_PARAMS,
    errors.SourceError: SOURCE_FAILED,
    errors.RelayRefused: CAPABILITY_MISSING,
    errors.Overloaded: OVERLOADED,
    errors.OperatorError: INTERNAL_ERROR,
}


def result(id: Raw, value: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (bytes(id), value)


def failure(id: Raw, code: int, message: str, data: Any = None) -> bytes:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (bytes(id), _encode(error))


def crashed(id: Raw, request_id: str) -> bytes:
    text = f"Something broke in the server; its log has the details under request id {request_id}."
    return failure(id, INTERNAL_ERROR, text)


def rejected(error: Rejected, *, modern: bool) -> tuple[int, bytes]:
    status = error.status if error.status is not None else status_of(error.code, modern=modern)
    return status, failure(error.id, error.code, error.message, error.data)


def refused(id: Raw, error: errors.ToolcribError, method: str, *, modern: bool) -> tuple[int, bytes]:
    """One of our errors as the answer to a request."""
    if method == "tools/call" and is_for_the_agent(error):
        return 200, result(id, error_result(error, modern=modern))
    if isinstance(error, errors.UpstreamRefused):
        code = _era_code(error.rpc_code, method, modern=modern)
        return status_of(code, modern=modern), failure(id, code, error.message, error.data)
    code = code_of(error)
    if isinstance(error, errors.NotFound) and method == "resources/read" and not modern:
        code = RESOURCE_NOT_FOUND_LEGACY
    return status_of(code, modern=modern), failure(id, code, _text(error), _data(error))


def code_of(error: errors.ToolcribError) -> int:
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def is_for_the_agent(error: errors.ToolcribError) -> bool:
    if isinstance(error, errors.UpstreamRefused | errors.ConsentRequired | errors.CatalogUnknown):
        return False
    return isinstance(error, errors.InvalidArguments | errors.SourceError | errors.Overloaded)


def error_result(error: errors.ToolcribError, *, modern: bool) -> bytes:
    """A tool result that says what went wrong, to a model and (in `_meta`) to a program."""
    body: dict[str, Any] = {
        "content": [{"type": "text", "text": _text(error)}],
        "isError": True,
        "_meta": {FAILURE: {"code": error.code, **(_data(error) or {})}},
    }
    if modern:
        body["resultType"] = "complete"
    return _encode(body)


def _text(error: errors.ToolcribError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _data(error: errors.ToolcribError) -> dict[str, Any] | None:
    data: dict[str, Any] = dict(error.info)
    if isinstance(error, errors.SourceError) and error.source:
        data["source"] = error.source
    if (retry_after_s := getattr(error, "retry_after_s", None)) is not None:
        data["retryAfterMs"] = round(retry_after_s * 1000)
    return data or None


def _era_code(code: int, method: str, *, modern: bool) -> int:
    """An unknown resource has another number in each era; an upstream of the other era may have said it."""
    if method == "resources/read" and modern and code == RESOURCE_NOT_FOUND_LEGACY:
        return INVALID_PARAMS
    return code
