"""Verbs about calls: who called what, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from toolcrib.storage.database import Transaction


class CallRecord(NamedTuple):
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


def add_calls(tx: Transaction, calls: Sequence[CallRecord]) -> None:
    """A project may have been deleted since; its records go with it instead of failing the rest."""
    projects = {row[0] for row in tx.all("SELECT name FROM projects")}
    tx.many(
        "INSERT INTO call_records (at, project, toolbox, version, principal, label, tool, outcome, duration_us,"
        " arguments) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [call for call in calls if call.project in projects],
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
