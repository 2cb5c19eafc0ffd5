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


Batches = Mapping[tuple[str, str], Sequence[bytes]]
"""(project, toolbox) → the texts of its calls, in order."""

_encode = msgspec.json.Encoder().encode


def who(version: int, principal: str, label: str, tool: str) -> bytes:
    """What all calls of one tool by one principal have in common, as it stands in the text of each."""
    return _encode((version, principal, label, tool))[1:-1]


def text(at: float, who: bytes, outcome: str, duration_us: float, arguments: bytes) -> bytes:
    """The JSON text of a `CallRecord`; `arguments` is the JSON text of that field.

    Text because thousands of them may wait to be written: the garbage collector would look at so many objects again and
    again, and at bytes it never does.
    """
    return b"[%d,%b,%b,%d,%b]" % (at, who, _encode(outcome), duration_us, arguments)


def add_calls(tx: Transaction, batches: Batches) -> None:
    """A project may have been deleted since; its records go with it instead of failing the rest."""
    projects = {row[0] for row in tx.all("SELECT name FROM projects")}
    for (project, toolbox), calls in batches.items():
        if project in projects:
            tx.run(
                "INSERT INTO call_batches (project, toolbox, last_at, calls, records) VALUES (?, ?, ?, ?, ?)",
                project,
                toolbox,
                msgspec.json.decode(calls[-1], type=CallRecord).at,
                len(calls),
                b"[%b]" % b",".join(calls),
            )


def drop_calls_before(tx: Transaction, at: int) -> int:
    return tx.run("DELETE FROM call_batches WHERE last_at < ?", at)


def calls_of(tx: Transaction, project: str, toolbox: str) -> Iterator[CallRecord]:
    """Every call remembered of a toolbox, oldest first."""
    sql = "SELECT records FROM call_batches WHERE project = ? AND toolbox = ? ORDER BY last_at"
    for (records,) in tx.all(sql, project, toolbox):
        yield from msgspec.json.decode(bytes(records), type=list[CallRecord])
