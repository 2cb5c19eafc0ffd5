"""Verbs about toolboxes: create a version, move the default pointer, delete, list.

Every change of a toolbox first bumps its epoch row, which also serialises writers of the same name on both engines.
Version numbers and epochs live in `toolbox_counters`, which outlives the toolbox: neither is ever reused.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from toolcrib.domain import Content, Promotion, Toolbox, Version
from toolcrib.errors import BadRequest, NotFound, PreconditionFailed
from toolcrib.storage import records_access, records_secrets
from toolcrib.storage.database import Row, Transaction
from toolcrib.storage.records_secrets import SealedValue

_TOOLBOX = """
  SELECT t.project, t.name, t.id, t.created_at, t.updated_at, t.default_version,
         (SELECT max(v.number) FROM toolbox_versions v WHERE v.project = t.project AND v.toolbox = t.name), c.epoch
  FROM toolboxes t JOIN toolbox_counters c ON c.project = t.project AND c.name = t.name
"""
_VERSION = """
  SELECT v.project, v.toolbox, v.number, t.id, v.created_at, v.digest, v.content
  FROM toolbox_versions v JOIN toolboxes t ON t.project = v.project AND t.name = v.toolbox
"""


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version about to get its number. `toolbox_id` is used when it turns out to be the first."""

    project: str
    toolbox: str
    toolbox_id: str
    created_at: int
    created_by: str
    digest: str
    content: bytes
    secrets: tuple[SealedValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a list: at most `limit` rows after (or before) a cursor, in this order."""

    limit: int
    descending: bool
    after: str | int | None = None
    before: str | int | None = None


def create_version(tx: Transaction, new: NewVersion) -> tuple[Toolbox, Version]:
    number = _next_number(tx, new.project, new.toolbox)
    records_access.require_project(tx, new.project)
    is_first = tx.run(
        "INSERT INTO toolboxes (project, name, id, created_at, updated_at, default_version) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (project, name) DO NOTHING",
        new.project,
        new.toolbox,
        new.toolbox_id,
        new.created_at,
        new.created_at,
        number,
    )
    tx.run(
        "INSERT INTO toolbox_versions (project, toolbox, number, created_at, digest, content)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        new.project,
        new.toolbox,
        number,
        new.created_at,
        new.digest,
        new.content,
    )
    records_secrets.store(tx, new.secrets)
    if is_first:
        _record_promotion(tx, new.project, new.toolbox, new.created_at, new.created_by, None, number)
    else:
        _set_updated(tx, new.project, new.toolbox, new.created_at)
    return get_toolbox(tx, new.project, new.toolbox), get_version(tx, new.project, new.toolbox, number)


def get_toolbox(tx: Transaction, project: str, name: str) -> Toolbox:
    row = tx.one(_TOOLBOX + " WHERE t.project = ? AND t.name = ?", project, name)
    if row is None:
        raise no_toolbox(name)
    return Toolbox(*row)


def get_version(tx: Transaction, project: str, name: str, number: int) -> Version:
    row = tx.one(_VERSION + " WHERE v.project = ? AND v.toolbox = ? AND v.number = ?", project, name, number)
    if row is None:
        get_toolbox(tx, project, name)
        raise no_version(name, number)
    return _version(row)


def list_toolboxes(tx: Transaction, project: str, part: Slice) -> list[tuple[Toolbox, Version]]:
    boxes = [Toolbox(*row) for row in window(tx, f"{_TOOLBOX} WHERE t.project = ?", "t.id", part, project)]
    return [(box, get_version(tx, project, box.name, box.latest_version)) for box in boxes]


def list_versions(tx: Transaction, project: str, name: str, part: Slice) -> list[Version]:
    get_toolbox(tx, project, name)
    rows = window(tx, f"{_VERSION} WHERE v.project = ? AND v.toolbox = ?", "v.number", part, project, name)
    return [_version(row) for row in rows]


def promote(tx: Transaction, project: str, name: str, to: int, *, expected: int | None, by: str, now: int) -> Toolbox:
    """Move the default pointer, once and only from where the caller saw it (when it says where)."""
    _bump_epoch(tx, project, name)
    current = get_toolbox(tx, project, name)
    if expected is not None and current.default_version != expected:
        raise PreconditionFailed(
            f"The default of toolbox {name!r} is version {current.default_version}, not {expected}.",
            param="If-Match",
            hint="read the toolbox again and decide anew",
        )
    get_version(tx, project, name, to)
    if to != current.default_version:
        sql = "UPDATE toolboxes SET default_version = ?, updated_at = ? WHERE project = ? AND name = ?"
        tx.run(sql, to, now, project, name)
        _record_promotion(tx, project, name, now, by, current.default_version, to)
    return get_toolbox(tx, project, name)


def delete_version(tx: Transaction, project: str, name: str, number: int, now: int) -> Toolbox | None:
    """Delete one version; None when it was the only one, and the toolbox went with it."""
    _bump_epoch(tx, project, name)
    box = get_toolbox(tx, project, name)
    get_version(tx, project, name, number)
    versions = tx.one("SELECT count(*) FROM toolbox_versions WHERE project = ? AND toolbox = ?", project, name)
    if versions == (1,):
        _drop(tx, project, name)
        return None
    if number == box.default_version:
        raise BadRequest(
            f"Version {number} is the default of toolbox {name!r}, which has other versions.",
            param="version",
            hint=f"publish another version first: toolcrib toolbox publish {name} VERSION",
        )
    sql = "DELETE FROM toolbox_versions WHERE project = ? AND toolbox = ? AND number = ?"
    tx.run(sql, project, name, number)
    _set_updated(tx, project, name, now)
    return get_toolbox(tx, project, name)


def delete_toolbox(tx: Transaction, project: str, name: str) -> None:
    _bump_epoch(tx, project, name)
    get_toolbox(tx, project, name)
    _drop(tx, project, name)


def list_promotions(tx: Transaction, project: str, name: str, part: Slice) -> list[Promotion]:
    get_toolbox(tx, project, name)
    sql = "SELECT sequence, at, by, from_version, to_version FROM promotions WHERE project = ? AND toolbox = ?"
    return [Promotion(*row) for row in window(tx, sql, "sequence", part, project, name)]


def no_toolbox(name: str) -> NotFound:
    return NotFound(
        f"There is no toolbox {name!r}.",
        param="name",
        hint="`toolcrib toolbox list` shows the toolboxes of this project",
    )


def no_version(name: str, number: int | str) -> NotFound:
    return NotFound(
        f"Toolbox {name!r} has no version {number}.",
        param="version",
        hint=f"`toolcrib toolbox versions list {name}` shows its versions",
    )


def _next_number(tx: Transaction, project: str, name: str) -> int:
    row = tx.one(
        "INSERT INTO toolbox_counters (project, name, last_version, epoch) VALUES (?, ?, 1, 1)"
        " ON CONFLICT (project, name) DO UPDATE"
        " SET last_version = toolbox_counters.last_version + 1, epoch = toolbox_counters.epoch + 1"
        " RETURNING last_version",
        project,
        name,
    )
    assert row is not None  # noqa: S101 - an upsert always returns its row
    return int(row[0])


def _bump_epoch(tx: Transaction, project: str, name: str) -> None:
    sql = "UPDATE toolbox_counters SET epoch = epoch + 1 WHERE project = ? AND name = ?"
    if tx.run(sql, project, name) == 0:
        raise no_toolbox(name)


def _set_updated(tx: Transaction, project: str, name: str, now: int) -> None:
    tx.run("UPDATE toolboxes SET updated_at = ? WHERE project = ? AND name = ?", now, project, name)


def _drop(tx: Transaction, project: str, name: str) -> None:
    tx.run("DELETE FROM toolboxes WHERE project = ? AND name = ?", project, name)
    records_secrets.forget_owner(tx, project, f"toolbox/{name}")


def _record_promotion(
    tx: Transaction, project: str, name: str, now: int, by: str, from_version: int | None, to_version: int
) -> None:
    tx.run(
        "INSERT INTO promotions (project, toolbox, sequence, at, by, from_version, to_version) VALUES (?, ?,"
        " (SELECT coalesce(max(sequence), 0) + 1 FROM promotions WHERE project = ? AND toolbox = ?), ?, ?, ?, ?)",
        project,
        name,
        project,
        name,
        now,
        by,
        from_version,
        to_version,
    )


def window(tx: Transaction, select: str, column: str, part: Slice, *params: object) -> list[Row]:
    """The rows of one page. `before` alone means the rows nearest to it: read backwards, then turn round."""
    backwards = part.before is not None and part.after is None
    further, nearer = ("<", ">") if part.descending else (">", "<")
    bounds = [(part.after, further), (part.before, nearer)]
    where = "".join(f" AND {column} {sign} ?" for cursor, sign in bounds if cursor is not None)
    order = "DESC" if part.descending != backwards else "ASC"
    cursors = [cursor for cursor, _ in bounds if cursor is not None]
    rows = tx.all(f"{select}{where} ORDER BY {column} {order} LIMIT ?", *params, *cursors, part.limit)
    return rows[::-1] if backwards else rows


def _version(row: Row) -> Version:
    project, toolbox, number, toolbox_id, created_at, digest, content = row
    parsed = msgspec.json.decode(bytes(content), type=Content)
    return Version(project, toolbox, number, f"{toolbox_id}:{number}", created_at, digest, parsed)


def epoch_of(tx: Transaction, project: str, name: str) -> int:
    row = tx.one("SELECT epoch FROM toolbox_counters WHERE project = ? AND name = ?", project, name)
    return int(row[0]) if row else 0
