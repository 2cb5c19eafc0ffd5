"""Verbs about connections: everything but their secrets, which live with the other sealed values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from toolcrib.errors import NotFound
from toolcrib.storage import records_secrets
from toolcrib.storage.database import Row, Transaction
from toolcrib.storage.records_secrets import SealedValue

_COLUMNS = "project, name, auth_type, category, target, metadata, secret_places, created_at, updated_at"


@dataclass(frozen=True, slots=True)
class Connection:
    """How we are known to an upstream. `secret_places` names its secrets: `key`, or one header name each."""

    project: str
    name: str
    auth_type: str
    category: str
    target: str
    metadata: dict[str, str]
    secret_places: tuple[str, ...]
    created_at: int
    updated_at: int


def owner_of(name: str) -> str:
    return f"connection/{name}"


def put(tx: Transaction, connection: Connection, secrets: Iterable[SealedValue]) -> Connection:
    c = connection
    tx.run(
        f"INSERT INTO connections ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (project, name) DO UPDATE SET auth_type = excluded.auth_type, category = excluded.category,"
        " target = excluded.target, metadata = excluded.metadata, secret_places = excluded.secret_places,"
        " updated_at = excluded.updated_at",
        c.project,
        c.name,
        c.auth_type,
        c.category,
        c.target,
        msgspec.json.encode(c.metadata).decode(),
        msgspec.json.encode(c.secret_places).decode(),
        c.created_at,
        c.updated_at,
    )
    records_secrets.forget_owner(tx, c.project, owner_of(c.name))
    records_secrets.store(tx, secrets)
    return get(tx, c.project, c.name)


def find(tx: Transaction, project: str, name: str) -> Connection | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM connections WHERE project = ? AND name = ?", project, name)
    return None if row is None else _connection(row)


def get(tx: Transaction, project: str, name: str) -> Connection:
    found = find(tx, project, name)
    if found is None:
        raise NotFound(
            f"There is no connection {name!r}.", param="name", hint=f"make it with: toolcrib connection add {name}"
        )
    return found


def list_all(tx: Transaction, project: str) -> list[Connection]:
    rows = tx.all(f"SELECT {_COLUMNS} FROM connections WHERE project = ? ORDER BY name", project)
    return [_connection(row) for row in rows]


def delete(tx: Transaction, project: str, name: str) -> None:
    get(tx, project, name)
    tx.run("DELETE FROM connections WHERE project = ? AND name = ?", project, name)
    records_secrets.forget_owner(tx, project, owner_of(name))


def _connection(row: Row) -> Connection:
    project, name, auth_type, category, target, metadata, places, created_at, updated_at = row
    return Connection(
        project,
        name,
        auth_type,
        category,
        target,
        msgspec.json.decode(metadata, type=dict[str, str]),
        msgspec.json.decode(places, type=tuple[str, ...]),
        created_at,
        updated_at,
    )
