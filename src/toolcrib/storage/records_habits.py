"""Verbs about habits: which tools a principal uses in a toolbox, and which are pinned for it now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from toolcrib.storage.database import Transaction

_COLUMNS = "epoch, calls, score, total, epochs, best"


class Owner(NamedTuple):
    """Whose habits: one principal in one toolbox. A tuple, because it is a key on the path of every call."""

    project: str
    toolbox: str
    principal: str


HabitRow = tuple[int, int, float, int, int, int]
PinsRow = tuple[int, dict[str, int]]


def load(tx: Transaction, owner: Owner) -> tuple[dict[str, HabitRow], PinsRow | None]:
    where = "WHERE project = ? AND toolbox = ? AND principal = ?"
    rows = tx.all(f"SELECT tool, {_COLUMNS} FROM tool_habits {where}", *owner)
    pins = tx.one(f"SELECT epoch, tools FROM auto_pins {where}", *owner)
    habits: dict[str, HabitRow] = {row[0]: (row[1], row[2], row[3], row[4], row[5], row[6]) for row in rows}
    return habits, (int(pins[0]), msgspec.json.decode(pins[1], type=dict[str, int])) if pins else None


def save_habits(tx: Transaction, owner: Owner, habits: Mapping[str, HabitRow | None]) -> None:
    """Write what changed; None forgets a tool. Nothing is kept for a toolbox that is gone."""
    if not _toolbox_exists(tx, owner):
        return
    for tool, habit in habits.items():
        if habit is None:
            sql = "DELETE FROM tool_habits WHERE project = ? AND toolbox = ? AND principal = ? AND tool = ?"
            tx.run(sql, *owner, tool)
            continue
        tx.run(
            f"INSERT INTO tool_habits (project, toolbox, principal, tool, {_COLUMNS})"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (project, toolbox, principal, tool) DO UPDATE SET"
            " epoch = excluded.epoch, calls = excluded.calls, score = excluded.score, total = excluded.total,"
            " epochs = excluded.epochs, best = excluded.best",
            *owner,
            tool,
            *habit,
        )


def save_pins(tx: Transaction, owner: Owner, pins: PinsRow) -> None:
    if not _toolbox_exists(tx, owner):
        return
    tx.run(
        "INSERT INTO auto_pins (project, toolbox, principal, epoch, tools) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (project, toolbox, principal) DO UPDATE SET epoch = excluded.epoch, tools = excluded.tools",
        *owner,
        pins[0],
        msgspec.json.encode(pins[1]).decode(),
    )


def erase(tx: Transaction, owner: Owner) -> int:
    """Forget everything about one principal in one toolbox; how many tools were known."""
    where = "WHERE project = ? AND toolbox = ? AND principal = ?"
    tx.run(f"DELETE FROM auto_pins {where}", *owner)
    return tx.run(f"DELETE FROM tool_habits {where}", *owner)


def _toolbox_exists(tx: Transaction, owner: Owner) -> bool:
    return tx.one("SELECT 1 FROM toolboxes WHERE project = ? AND name = ?", owner.project, owner.toolbox) is not None
