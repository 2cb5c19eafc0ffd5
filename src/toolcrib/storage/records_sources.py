"""Verbs about sources: what each source of a version last offered, as a blob that nobody here looks into."""

from __future__ import annotations

from toolcrib.storage.database import Database, Transaction


class StoredSources:
    """The catalog's shelf, on the database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def load(self, project: str, toolbox: str, version: int, label: str) -> bytes | None:
        return await self._db.read(lambda tx: load(tx, project, toolbox, version, label))

    async def save(self, project: str, toolbox: str, version: int, label: str, blob: bytes) -> None:
        await self._db.write(lambda tx: save(tx, project, toolbox, version, label, blob))


def load(tx: Transaction, project: str, toolbox: str, version: int, label: str) -> bytes | None:
    sql = "SELECT record FROM source_records WHERE project = ? AND toolbox = ? AND version = ? AND label = ?"
    row = tx.one(sql, project, toolbox, version, label)
    return bytes(row[0]) if row else None


def save(tx: Transaction, project: str, toolbox: str, version: int, label: str, record: bytes) -> None:
    """Nothing is kept for a version that was deleted meanwhile."""
    tx.run(
        "INSERT INTO source_records (project, toolbox, version, label, record)"
        " SELECT project, toolbox, number, ?, ? FROM toolbox_versions"
        " WHERE project = ? AND toolbox = ? AND number = ?"
        " ON CONFLICT (project, toolbox, version, label) DO UPDATE SET record = excluded.record",
        label,
        record,
        project,
        toolbox,
        version,
    )
