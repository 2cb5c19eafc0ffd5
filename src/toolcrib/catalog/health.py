"""How a source is doing, in the words a person is told: what its last answer or failure means, and what to do.

Pure: from what is known to a `SourceState`. Deliberately knows neither how sources are asked nor when.
"""

from __future__ import annotations

from toolcrib import errors
from toolcrib.catalog.entries import Entry
from toolcrib.catalog.records import Record
from toolcrib.catalog.tools import Tool
from toolcrib.domain import SourceState, SourceStatus

_REMEDIES = {
    SourceStatus.pending: "Wait a moment; it is being asked.",
    SourceStatus.stale: "Nothing to do if it comes back; else check the upstream and its address.",
    SourceStatus.unreachable: "Check the upstream and its address; it is asked again by itself.",
    SourceStatus.auth_failed: "Renew the credentials of the entry or of its connection.",
    SourceStatus.consent_required: "A person has to grant access first.",
    SourceStatus.not_configured: "Create the connection that the entry names.",
    SourceStatus.quarantined: "Look at the changes with `toolcrib toolbox drift` and accept what is right.",
    SourceStatus.unsupported: "Remove the entry, or wait for a release that serves it.",
}


def state_of(
    entry: Entry,
    record: Record | None,
    tools: tuple[Tool, ...],
    failure: errors.SourceError | None,
    *,
    asked: bool,
    now: int,
    before: SourceState | None = None,
) -> SourceState:
    """The source's state. `since` moves only when the status does."""
    listed = sum(not tool.quarantine for tool in tools)
    if entry.unserved is not None:
        status, reason, remedy = entry.unserved.status, entry.unserved.reason, entry.unserved.remedy
    else:
        status, reason = _status(record, tools, failure, asked=asked)
        remedy = (failure.hint if failure else None) or _REMEDIES.get(status, "")
    since = before.since if before is not None and before.status is status else now
    return SourceState(entry.label, entry.type, status, since, reason, remedy, listed)


def _status(
    record: Record | None, tools: tuple[Tool, ...], failure: errors.SourceError | None, *, asked: bool
) -> tuple[SourceStatus, str]:
    if failure is not None:
        return _failed(failure, known=record is not None)
    if record is None:
        return SourceStatus.pending, "It has not answered yet."
    if not asked:
        return SourceStatus.stale, "Served as it was stored; it has not answered since this server started."
    held = [tool.upstream_name for tool in tools if tool.quarantine]
    if held:
        shown = ", ".join(held[:5]) + ("" if len(held) <= 5 else f" and {len(held) - 5} more")
        return SourceStatus.quarantined, f"{len(held)} of {len(tools)} tools are held back: {shown}."
    return SourceStatus.ok, f"Not complete: {record.partial}" if record.partial else ""


def _failed(failure: errors.SourceError, *, known: bool) -> tuple[SourceStatus, str]:
    match failure:
        case errors.AuthFailed():
            return SourceStatus.auth_failed, failure.message
        case errors.ConsentRequired():
            return SourceStatus.consent_required, failure.message
        case errors.ConnectionMissing():
            return SourceStatus.not_configured, failure.message
        case errors.Unsupported():
            return SourceStatus.unsupported, failure.message
        case _:
            return (SourceStatus.stale if known else SourceStatus.unreachable), failure.message
