"""Verbs about calls: who called what, and how it ended, kept in batches and dropped when old."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from toolcrib.storage.database import Transaction


class CallRecord(msgspec.Struct, frozen=True, array_like=True):
    """One call, as remembered: `at` in ms, `arguments` their shape (names and types, never values)."""

    at: int
    version: int
    principal: str
    label: str
    tool: str
    outcome: str
    duration_us: int
    arguments: str


Batches = Mapping[tuple[str, str], Sequence[CallRecord]]
"""(project, toolbox) → its calls, in order."""


def add_calls(tx: Transaction, batches: Batches) -> None:
    """A project may have been deleted since; its records go with it instead of failing the rest."""
    projects = {row[0] for row in tx.all("SELECT name FROM projects")}
    for (project, toolbox), calls in batches.items():
        if project in projects:
            tx.run(
                "INSERT INTO call_batches (project, toolbox, last_at, calls, records) VALUES (?, ?, ?, ?, ?)",
                project,
                toolbox,
                calls[-1].at,
                len(calls),
                msgspec.json.encode(calls),
            )


def drop_calls_before(tx: Transaction, at: int) -> int:
    return tx.run("DELETE FROM call_batches WHERE last_at < ?", at)


def calls_of(tx: Transaction, project: str, toolbox: str) -> Iterator[CallRecord]:
    """Every call remembered of a toolbox, oldest first."""
    sql = "SELECT records FROM call_batches WHERE project = ? AND toolbox = ? ORDER BY last_at"
    for (records,) in tx.all(sql, project, toolbox):
        yield from msgspec.json.decode(bytes(records), type=list[CallRecord])
