"""Everything that can go wrong, grouped by who must act.

    ToolcribError
    ├── RequestError                the asker must change the request
    │   ├── InvalidPayload          a field is missing, of the wrong type or out of range
    │   ├── BadRequest              well-formed, but not allowed in this state
    │   ├── NotFound                the named thing does not exist (or is not yours to see)
    │   ├── MethodNotAllowed        the path exists, the method does not
    │   ├── Conflict                the thing is in use or was changed by somebody else
    │   │   └── SkillInUse          a default version of a toolbox refers to the skill
    │   ├── PreconditionFailed      If-Match named an older state
    │   ├── TooLarge                over a size limit
    │   ├── UnsupportedMedia        not the content type this route reads
    │   ├── NotAcceptable           the asker takes no form we answer in
    │   └── InvalidArguments        tool arguments do not fit the tool's schema
    ├── AccessError                 the asker needs other credentials
    │   ├── Unauthenticated         no credential, or one nobody issued
    │   ├── Forbidden               known, but without the right
    │   ├── ForeignOrigin           a browser page that may not call us
    │   └── ForeignHost             a host name we do not answer to
    ├── SourceError                 the owner of an upstream or connection must act
    │   ├── Unreachable             no connection, or it broke before an answer
    │   ├── TimedOut                no answer within the limit
    │   ├── AuthFailed              the upstream refused our credentials
    │   ├── BadAnswer               the upstream broke the protocol
    │   ├── AnswerTooLarge          the upstream's answer is over the limit
    │   ├── CircuitOpen             failing repeatedly; not asked again for a while
    │   ├── Quarantined             changed in a way nobody has accepted yet
    │   ├── ConnectionMissing       an entry names a connection that does not exist
    │   ├── ConsentRequired         this principal has to grant access first
    │   ├── Unsupported             accepted and stored, but not served by this release
    │   ├── CatalogUnknown          no source has answered yet
    │   └── UpstreamRefused         the upstream answered with a JSON-RPC error of its own
    ├── RelayRefused                the asker did not declare a capability an upstream needs
    ├── Overloaded                  a limit of this server is reached; try again
    └── OperatorError               the person who runs this server must act
        ├── BadSettings             a setting is wrong
        ├── AlreadyRunning          another server holds the data directory
        ├── SealKeyMismatch         sealed values cannot be opened with this key
        ├── SchemaTooNew            the database was written by a newer release
        └── StorageFailed           the database cannot be read or written right now

Each edge maps this tree once (`web.problems`, `gateway.replies`). A message says what happened, to which named thing;
`hint` says what to do next. Neither ever holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class ToolcribError(Exception):
    """Base of every error we raise on purpose."""

    code: ClassVar[str] = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        hint: str | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.hint = hint
        self.info: Mapping[str, Any] = info or {}


class RequestError(ToolcribError):
    code = "bad_request"


class InvalidPayload(RequestError):
    code = "invalid_payload"


class BadRequest(RequestError):
    code = "bad_request"


class NotFound(RequestError):
    code = "not_found"


class MethodNotAllowed(RequestError):
    code = "method_not_allowed"


class Conflict(RequestError):
    code = "conflict"


class SkillInUse(Conflict):
    code = "skill_in_use"


class PreconditionFailed(RequestError):
    code = "precondition_failed"


class TooLarge(RequestError):
    code = "payload_too_large"


class UnsupportedMedia(RequestError):
    code = "unsupported_media_type"


class NotAcceptable(RequestError):
    code = "not_acceptable"


class InvalidArguments(RequestError):
    code = "invalid_arguments"


class AccessError(ToolcribError):
    code = "forbidden"


class Unauthenticated(AccessError):
    code = "unauthenticated"


class Forbidden(AccessError):
    code = "forbidden"


class ForeignOrigin(AccessError):
    code = "foreign_origin"


class ForeignHost(AccessError):
    code = "foreign_host"


class SourceError(ToolcribError):
    """An upstream or connection failed; `source` is the entry's label."""

    code = "source_failed"

    def __init__(
        self,
        message: str,
        *,
        source: str = "",
        retry_after_s: float | None = None,
        hint: str | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint=hint, info=info)
        self.source = source
        self.retry_after_s = retry_after_s


class Unreachable(SourceError):
    """`sent` is true when the request may have reached the upstream before the connection broke."""

    code = "unreachable"

    def __init__(self, message: str, *, sent: bool = False, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.sent = sent


class TimedOut(SourceError):
    code = "timeout"


class AuthFailed(SourceError):
    code = "auth_failed"


class BadAnswer(SourceError):
    code = "bad_answer"


class AnswerTooLarge(SourceError):
    code = "answer_too_large"


class CircuitOpen(SourceError):
    code = "circuit_open"


class Quarantined(SourceError):
    code = "quarantined"


class ConnectionMissing(SourceError):
    code = "connection_missing"


class ConsentRequired(SourceError):
    code = "consent_required"


class Unsupported(SourceError):
    code = "unsupported"


class CatalogUnknown(SourceError):
    code = "catalog_unknown"


class UpstreamRefused(SourceError):
    """The upstream answered with a JSON-RPC error of its own; it is relayed, not reinterpreted."""

    code = "upstream_error"

    def __init__(self, message: str, *, rpc_code: int, data: Any = None, source: str = "") -> None:
        super().__init__(message, source=source)
        self.rpc_code = rpc_code
        self.data = data


class RelayRefused(ToolcribError):
    code = "capability_missing"


class Overloaded(ToolcribError):
    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: float = 1.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class OperatorError(ToolcribError):
    code = "operator_error"


class BadSettings(OperatorError):
    code = "bad_settings"


class AlreadyRunning(OperatorError):
    code = "already_running"


class SealKeyMismatch(OperatorError):
    code = "seal_key_mismatch"


class SchemaTooNew(OperatorError):
    code = "schema_too_new"


class StorageFailed(OperatorError):
    code = "storage_failed"
