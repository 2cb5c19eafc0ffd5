"""What calling a tool takes, whichever way it is called: arguments that fit, and notes of how it ended.

And calls that can be made without waiting for anything: `Prepared` holds what is the same for each. Knows nothing of
who may call what: `opened` has decided that.
"""

from __future__ import annotations

from weakref import ref

import msgspec

from toolcrib.catalog.arguments import Validators, Violation
from toolcrib.catalog.snapshot import Snapshot
from toolcrib.catalog.tools import Tool
from toolcrib.domain import JsonObject, Principal, Version
from toolcrib.errors import InvalidArguments, ToolcribError
from toolcrib.storage.records_habits import Owner
from toolcrib.toolboxes.calls import Calls
from toolcrib.toolboxes.usage import Usage
from toolcrib.upstreams.upstream import HeadStart, Upstream


class _Verdict(msgspec.Struct, frozen=True, rename="camel"):
    is_error: msgspec.Raw = msgspec.Raw()  # raw: an upstream may send anything


_read_verdict = msgspec.json.Decoder(_Verdict).decode
_read_arguments = msgspec.json.Decoder(JsonObject).decode


class Notes(msgspec.Struct, eq=False, frozen=True):
    """What is kept of calls of one tool by one principal: a record of each, and a habit of those that went well."""

    calls: Calls
    usage: Usage | None
    owner: Owner
    name: str

    def take(self, outcome: str, started: float, given: object) -> None:
        self.calls.add(outcome, started, given)
        if outcome == "ok" and self.usage is not None:
            self.usage.note(self.owner, self.name)


class Prepared(msgspec.Struct, eq=False, frozen=True):
    """Calls of one tool by one principal: what does not depend on arguments, looked up once."""

    version: Version
    snapshot: ref[Snapshot]  # weakly: it is kept longer than old snapshots should be
    tool: Tool
    upstream_name: str
    is_repeatable: bool
    principal: Principal
    upstream: Upstream
    validators: Validators
    notes: Notes

    def is_from(self, version: Version, snapshot: Snapshot) -> bool:
        """Whether looking it up there would come to the same."""
        return self.version is version and self.snapshot() is snapshot

    def start(self, arguments: bytes) -> Started | None:
        """Send a call, if nothing stands in its way; None when it takes `OpenToolbox.call` to make or refuse it."""
        try:
            given = checked(self.validators, self.tool, arguments)
            sent = self.upstream.start(
                self.upstream_name, arguments or b"{}", self.principal, safe_to_retry=self.is_repeatable
            )
        except ToolcribError:
            return None
        return None if sent is None else Started(self, given, sent)


class Started(msgspec.Struct, eq=False, frozen=True):
    """A call on its way."""

    prepared: Prepared
    given: JsonObject
    head_start: HeadStart

    def finish(self) -> bytes | None:
        """The result, if it is there; None when it takes `OpenToolbox.call` to wait for it, with what was started."""
        result = self.head_start.result()
        if result is not None:
            self.prepared.notes.take(verdict(result), self.head_start.began, self.given)
        return result

    def give_up(self) -> None:
        """Something of ours broke."""
        self.head_start.close()
        self.prepared.notes.take("failed", self.head_start.began, self.given)


def checked(validators: Validators, tool: Tool, arguments: bytes) -> JsonObject:
    """The arguments, if they fit the tool."""
    try:
        given = _read_arguments(arguments) if arguments and arguments != b"null" else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidArguments(
            f"The arguments of {tool.name.dotted} must be a JSON object.", param="arguments"
        ) from None
    violation = validators.check(tool.schema_digest, tool, given)
    if violation is not None:
        raise _does_not_fit(tool, violation)
    return given


def verdict(result: bytes) -> str:
    """How a call ended that came to a result."""
    if b"true" not in result:  # the shortest way to know that it is no error
        return "ok"
    return "tool_error" if bytes(_read_verdict(result).is_error) == b"true" else "ok"


def _does_not_fit(tool: Tool, violation: Violation) -> InvalidArguments:
    where = f"arguments{violation.pointer}"
    return InvalidArguments(
        f"The arguments do not fit {tool.name.dotted}: {where}: {violation.message}",
        param=where,
        hint=f"the schema there is {msgspec.json.encode(violation.fragment).decode()}",
        info={"pointer": violation.pointer, "schema": violation.fragment},
    )
