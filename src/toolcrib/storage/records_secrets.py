"""Verbs about sealed values: boxes go in and come out; nothing here can open one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolcrib.storage.database import Row, Transaction

_SELECT = "SELECT id, project, owner, place, key_id, box FROM sealed_values"


@dataclass(frozen=True, slots=True)
class SealedValue:
    """A secret as stored. `owner` is what it belongs to (`toolbox/NAME`, `connection/NAME`), `place` where in it."""

    id: str
    project: str
    owner: str
    place: str
    key_id: str
    box: bytes


def store(tx: Transaction, values: Iterable[SealedValue]) -> None:
    for v in values:
        tx.run(
            "INSERT INTO sealed_values (id, project, owner, place, key_id, box) VALUES (?, ?, ?, ?, ?, ?)",
            v.id,
            v.project,
            v.owner,
            v.place,
            v.key_id,
            v.box,
        )


def of_owner(tx: Transaction, project: str, owner: str) -> dict[str, SealedValue]:
    """Every sealed value of one owner, by id."""
    rows = tx.all(f"{_SELECT} WHERE project = ? AND owner = ?", project, owner)
    return {row[0]: _sealed(row) for row in rows}


def find(tx: Transaction, project: str, owner: str, sealed_id: str) -> SealedValue | None:
    row = tx.one(f"{_SELECT} WHERE id = ? AND project = ? AND owner = ?", sealed_id, project, owner)
    return _sealed(row) if row else None


def forget_owner(tx: Transaction, project: str, owner: str) -> None:
    tx.run("DELETE FROM sealed_values WHERE project = ? AND owner = ?", project, owner)


def fact(tx: Transaction, name: str) -> str | None:
    row = tx.one("SELECT value FROM facts WHERE name = ?", name)
    return str(row[0]) if row else None


def remember_fact(tx: Transaction, name: str, value: str) -> None:
    sql = "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    tx.run(sql, name, value)


def _sealed(row: Row) -> SealedValue:
    sealed_id, project, owner, place, key_id, box = row
    return SealedValue(sealed_id, project, owner, place, key_id, bytes(box))
