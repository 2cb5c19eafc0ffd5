"""Verbs about who may come in: projects and API keys. Secrets arrive here already hashed."""

from __future__ import annotations

from toolcrib.domain import ApiKey, Project, Role
from toolcrib.errors import Conflict, NotFound
from toolcrib.storage.database import Row, Transaction

_KEY_COLUMNS = "id, project, role, label, may_act_for_users, created_at, revoked_at"


def list_projects(tx: Transaction) -> list[Project]:
    return [Project(str(n), int(at)) for n, at in tx.all("SELECT name, created_at FROM projects ORDER BY name")]


def create_project(tx: Transaction, name: str, now: int) -> Project:
    sql = "INSERT INTO projects (name, created_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
    if tx.run(sql, name, now) == 0:
        raise Conflict(f"Project {name!r} exists already.", param="name")
    return Project(name, now)


def delete_project(tx: Transaction, name: str) -> dict[str, int]:
    """Delete a project with all it holds; the epoch at which each toolbox name it ever used ended."""
    tx.run("UPDATE toolbox_counters SET epoch = epoch + 1 WHERE project = ?", name)
    if tx.run("DELETE FROM projects WHERE name = ?", name) == 0:
        raise no_project(name)
    rows = tx.all("SELECT name, epoch FROM toolbox_counters WHERE project = ?", name)
    return {str(toolbox): int(epoch) for toolbox, epoch in rows}


def require_project(tx: Transaction, name: str) -> None:
    """Inside a write: the project may have gone since the request was let in."""
    if tx.one("SELECT 1 FROM projects WHERE name = ?", name) is None:
        raise no_project(name)


def create_key(tx: Transaction, project: str, key: ApiKey, secret_hash: bytes) -> None:
    require_project(tx, project)
    tx.run(
        "INSERT INTO api_keys (id, project, role, label, may_act_for_users, secret_hash, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        key.id,
        project,
        int(key.role),
        key.label,
        int(key.may_act_for_users),
        secret_hash,
        key.created_at,
    )


def find_key(tx: Transaction, key_id: str) -> tuple[ApiKey, bytes] | None:
    row = tx.one(f"SELECT {_KEY_COLUMNS}, secret_hash FROM api_keys WHERE id = ?", key_id)
    return (_key(row), bytes(row[-1])) if row else None


def list_keys(tx: Transaction, project: str) -> list[ApiKey]:
    sql = f"SELECT {_KEY_COLUMNS} FROM api_keys WHERE project = ? ORDER BY created_at, id"
    return [_key(row) for row in tx.all(sql, project)]


def revoke_key(tx: Transaction, project: str, key_id: str, now: int) -> None:
    sql = "UPDATE api_keys SET revoked_at = ? WHERE project = ? AND id = ? AND revoked_at IS NULL"
    if tx.run(sql, now, project, key_id) == 0 and not _key_exists(tx, project, key_id):
        raise NotFound(f"There is no key {key_id!r} in project {project!r}.", hint="`toolcrib key list` shows them")


def no_project(name: str) -> NotFound:
    return NotFound(f"There is no project {name!r}.", hint="`toolcrib project list` shows them")


def _key_exists(tx: Transaction, project: str, key_id: str) -> bool:
    return tx.one("SELECT 1 FROM api_keys WHERE project = ? AND id = ?", project, key_id) is not None


def _key(row: Row) -> ApiKey:
    key_id, project, role, label, may_act, created_at, revoked_at = row[:7]
    return ApiKey(key_id, project, Role(role), label, bool(may_act), created_at, revoked_at)
