"""Verbs about calls: who called what, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from toolcrib.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call, as remembered. `arguments` is their shape: names and types, never values."""

    at: int
    project: str
    toolbox: str
    version: int
    principal: str
    label: str
    tool: str
    outcome: str
    duration_us: int
    arguments: str


def add_calls(tx: Transaction, calls: Iterable[CallRecord]) -> None:
    for call in calls:
        # A project may have been deleted since; its records go with it instead of failing the rest.
        tx.run(
            "INSERT INTO call_records (at, project, toolbox, version, principal, label, tool, outcome, duration_us,"
            " arguments) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
            " WHERE EXISTS (SELECT 1 FROM projects WHERE name = ?)",
            *astuple(call),
            call.project,
        )


def recent_calls(tx: Transaction, project: str, toolbox: str, limit: int) -> list[CallRecord]:
    rows = tx.all(
        "SELECT at, project, toolbox, version, principal, label, tool, outcome, duration_us, arguments"
        " FROM call_records WHERE project = ? AND toolbox = ? ORDER BY at DESC LIMIT ?",
        project,
        toolbox,
        limit,
    )
    return [CallRecord(*row) for row in rows]
