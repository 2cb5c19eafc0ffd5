"""Verbs about sources and calls: what each source last offered, and who called what."""

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


def load_sources(tx: Transaction, project: str, toolbox: str, version: int) -> dict[str, bytes]:
    """The record of each source of a version, by label."""
    sql = "SELECT label, record FROM source_records WHERE project = ? AND toolbox = ? AND version = ?"
    return {label: bytes(record) for label, record in tx.all(sql, project, toolbox, version)}


def save_source(tx: Transaction, project: str, toolbox: str, version: int, label: str, record: bytes) -> bool:
    """False when the version is gone meanwhile; there is nothing to remember then."""
    is_there = tx.one(
        "SELECT 1 FROM toolbox_versions WHERE project = ? AND toolbox = ? AND number = ?", project, toolbox, version
    )
    if is_there is None:
        return False
    tx.run(
        "INSERT INTO source_records (project, toolbox, version, label, record) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (project, toolbox, version, label) DO UPDATE SET record = excluded.record",
        project,
        toolbox,
        version,
        label,
        record,
    )
    return True
