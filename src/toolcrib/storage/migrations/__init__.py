"""Numbered, append-only schema changes, one SQL file each, for both engines.

Files spell types that both understand; `BLOB` is the one word that differs and the PostgreSQL engine reads it as
`BYTEA`. A migration and the record that it ran are one transaction.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from toolcrib.errors import SchemaTooNew
from toolcrib.storage.database import Transaction

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


@cache
def all_migrations() -> tuple[tuple[int, str, str], ...]:
    """(number, name, SQL) of every migration, in order."""
    found = [(m, f) for f in files(__name__).iterdir() if (m := _FILE.fullmatch(f.name))]
    return tuple(sorted((int(m[1]), m[2], f.read_text("utf-8")) for m, f in found))


def apply_pending(tx: Transaction) -> list[str]:
    """Bring the schema up to date; the names of the migrations that ran."""
    tx.run("CREATE TABLE IF NOT EXISTS schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    row = tx.one("SELECT max(number) FROM schema_migrations")
    current = int(row[0]) if row and row[0] is not None else 0
    newest = all_migrations()[-1][0]
    if current > newest:
        raise SchemaTooNew(
            f"The database is at schema {current}, this release knows up to {newest}.",
            hint="run the newer release that wrote it, or restore a backup made before the upgrade",
        )
    pending = [m for m in all_migrations() if m[0] > current]
    for number, name, sql in pending:
        for statement in _statements(sql):
            tx.run(statement)
        tx.run("INSERT INTO schema_migrations (number, name) VALUES (?, ?)", number, name)
    return [f"{number:04d}_{name}" for number, name, _ in pending]


def _statements(sql: str) -> list[str]:
    uncommented = re.sub(r"--[^\n]*", "", sql)
    return [s.strip() for s in uncommented.split(";") if s.strip()]
