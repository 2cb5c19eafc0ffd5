"""The one map from our errors to an HTTP status and the error envelope.

Statuses of deterministic failures are never 5xx: the official clients would retry them. A crash says nothing but its
request id; the traceback goes to the log.
"""

from __future__ import annotations

from msgspec import UNSET

from toolcrib import errors, wire
from toolcrib.http import Header, Response, answer

STATUS: dict[type[errors.ToolcribError], int] = {
    errors.RequestError: 400,
    errors.InvalidPayload: 400,
    errors.BadRequest: 400,
    errors.InvalidArguments: 400,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.Conflict: 409,
    errors.PreconditionFailed: 412,
    errors.TooLarge: 413,
    errors.UnsupportedMedia: 415,
    errors.NotAcceptable: 406,
    errors.AccessError: 403,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.ForeignOrigin: 403,
    errors.ForeignHost: 421,
    errors.SourceError: 424,
    errors.CatalogUnknown: 503,
    errors.RelayRefused: 400,
    errors.Overloaded: 503,
    errors.OperatorError: 503,
}


def status_of(error: errors.ToolcribError) -> int:
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def problem(error: errors.ToolcribError) -> Response:
    info = dict(error.info)
    if error.hint:
        info["hint"] = error.hint
    body = wire.Problem(
        code=error.code,
        message=f"{error.message} ({error.hint})" if error.hint else error.message,
        param=error.param or UNSET,
        additionalInfo=info or UNSET,
    )
    return answer(wire.Failure(body), *_headers(error), status=status_of(error))


def crash(request_id: str) -> Response:
    body = wire.Problem(
        code="internal_error",
        message=f"Something broke in the server. Its log has the details under request id {request_id}.",
    )
    return answer(wire.Failure(body), status=500)


def _headers(error: errors.ToolcribError) -> list[Header]:
    if isinstance(error, errors.Unauthenticated):
        return [(b"www-authenticate", b'Bearer realm="toolcrib"')]
    if isinstance(error, errors.MethodNotAllowed):
        return [(b"allow", ", ".join(error.info.get("allowed", ())).encode())]
    retry_after_s = getattr(error, "retry_after_s", None)
    return [] if retry_after_s is None else [(b"retry-after", b"%d" % max(1, round(retry_after_s)))]
