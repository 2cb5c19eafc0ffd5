"""Verbs about skills: create a version, move the default, delete, and who refers to what.

Version numbers live in `skill_counters`, which outlives the skill. Whoever changes a skill, or refers to it, writes its
counter first; so a reference and a deletion never pass each other. Archives are read only where they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from toolcrib.domain import Skill, SkillManifest, SkillVersion
from toolcrib.errors import BadRequest, InvalidPayload, NotFound, SkillInUse
from toolcrib.storage import records_access
from toolcrib.storage.database import Row, Transaction
from toolcrib.storage.records_toolboxes import Slice, window

_SKILL = """
  SELECT s.project, s.name, s.id, s.created_at, s.default_version,
         (SELECT max(v.number) FROM skill_versions v WHERE v.project = s.project AND v.skill = s.name), d.description
  FROM skills s
  JOIN skill_versions d ON d.project = s.project AND d.skill = s.name AND d.number = s.default_version
"""
_VERSION = """
  SELECT v.project, v.skill, v.number, s.id, v.created_at, v.manifest
  FROM skill_versions v JOIN skills s ON s.project = v.project AND s.name = v.skill
"""
Reference = tuple[str, int | None]
"""A skill by name, and its version where it is pinned."""


@dataclass(frozen=True, slots=True)
class NewSkillVersion:
    """A version about to get its number. `skill_id` is used when it turns out to be the first."""

    project: str
    skill: str
    skill_id: str
    created_at: int
    manifest: SkillManifest
    archive: bytes
    make_default: bool


def create_version(tx: Transaction, new: NewSkillVersion) -> SkillVersion:
    number = _next_number(tx, new.project, new.skill)
    records_access.require_project(tx, new.project)
    is_first = tx.run(
        "INSERT INTO skills (project, name, id, created_at, default_version) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (project, name) DO NOTHING",
        new.project,
        new.skill,
        new.skill_id,
        new.created_at,
        number,
    )
    tx.run(
        "INSERT INTO skill_versions (project, skill, number, created_at, description, manifest, archive)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        new.project,
        new.skill,
        number,
        new.created_at,
        new.manifest.description,
        msgspec.json.encode(new.manifest),
        new.archive,
    )
    if new.make_default and not is_first:
        _move_default(tx, new.project, new.skill, number)
    return get_version(tx, new.project, new.skill, number)


def get_skill(tx: Transaction, project: str, name: str) -> Skill:
    row = tx.one(_SKILL + " WHERE s.project = ? AND s.name = ?", project, name)
    if row is None:
        raise no_skill(name)
    return Skill(*row)


def get_version(tx: Transaction, project: str, name: str, number: int) -> SkillVersion:
    row = tx.one(_VERSION + " WHERE v.project = ? AND v.skill = ? AND v.number = ?", project, name, number)
    if row is None:
        get_skill(tx, project, name)
        raise no_version(name, number)
    return _version(row)


def list_skills(tx: Transaction, project: str, part: Slice) -> list[Skill]:
    return [Skill(*row) for row in window(tx, f"{_SKILL} WHERE s.project = ?", "s.id", part, project)]


def list_versions(tx: Transaction, project: str, name: str, part: Slice) -> list[SkillVersion]:
    get_skill(tx, project, name)
    rows = window(tx, f"{_VERSION} WHERE v.project = ? AND v.skill = ?", "v.number", part, project, name)
    return [_version(row) for row in rows]


def archive_of(tx: Transaction, project: str, name: str, number: int) -> bytes:
    sql = "SELECT archive FROM skill_versions WHERE project = ? AND skill = ? AND number = ?"
    row = tx.one(sql, project, name, number)
    if row is None:
        get_skill(tx, project, name)
        raise no_version(name, number)
    return bytes(row[0])


def set_default(tx: Transaction, project: str, name: str, number: int) -> Skill:
    _hold(tx, project, name)
    get_version(tx, project, name, number)
    _move_default(tx, project, name, number)
    return get_skill(tx, project, name)


def delete_skill(tx: Transaction, project: str, name: str, *, force: bool) -> Skill:
    """Delete a skill with all its versions, unless a default version of a toolbox refers to it."""
    _hold(tx, project, name)
    skill = get_skill(tx, project, name)
    if not force:
        _refuse_if_used(tx, project, name, None)
    tx.run("DELETE FROM skills WHERE project = ? AND name = ?", project, name)
    return skill


def delete_version(tx: Transaction, project: str, name: str, number: int, *, force: bool) -> SkillVersion:
    """Delete one version; the only one takes the skill with it."""
    _hold(tx, project, name)
    skill = get_skill(tx, project, name)
    version = get_version(tx, project, name, number)
    versions = tx.one("SELECT count(*) FROM skill_versions WHERE project = ? AND skill = ?", project, name)
    if versions == (1,):
        delete_skill(tx, project, name, force=force)
        return version
    if number == skill.default_version:
        raise BadRequest(
            f"Version {number} is the default of skill {name!r}, which has other versions.",
            param="version",
            hint=f"make another one the default first: toolcrib skill update {name} --set-default-version VERSION",
        )
    if not force:
        _refuse_if_used(tx, project, name, number)
    tx.run("DELETE FROM skill_versions WHERE project = ? AND skill = ? AND number = ?", project, name, number)
    return version


# --- references ------------------------------------------------------------------------------------------------------


def require(tx: Transaction, project: str, references: Sequence[Reference]) -> None:
    """Refuse references to what does not exist; what exists stays until this transaction has ended."""
    for name in sorted(name for name, _ in references):  # in one order, or two could wait for each other
        tx.run("UPDATE skill_counters SET epoch = epoch + 1 WHERE project = ? AND name = ?", project, name)
    for at, (name, pinned) in enumerate(references):
        try:
            skill = get_skill(tx, project, name)
            get_version(tx, project, name, pinned or skill.default_version)
        except NotFound as error:
            raise InvalidPayload(error.message, param=f"skills[{at}]", hint=error.hint) from None


def refer(tx: Transaction, project: str, toolbox: str, version: int, references: Iterable[Reference]) -> None:
    for name, pinned in references:
        sql = "INSERT INTO skill_references (project, toolbox, version, skill, pinned) VALUES (?, ?, ?, ?, ?)"
        tx.run(sql, project, toolbox, version, name, pinned)


def effective(tx: Transaction, project: str, references: Iterable[Reference]) -> list[SkillVersion]:
    """The versions that references mean now; those that mean nothing any more are left out."""
    found: list[SkillVersion] = []
    for name, pinned in references:
        sql = f"{_VERSION} WHERE v.project = ? AND v.skill = ? AND v.number = "
        row = (
            tx.one(f"{sql}s.default_version", project, name)
            if pinned is None
            else tx.one(f"{sql}?", project, name, pinned)
        )
        if row is not None:
            found.append(_version(row))
    return found


def toolboxes_with(tx: Transaction, project: str, name: str) -> list[str]:
    """Every toolbox with a version that refers to a skill."""
    sql = "SELECT DISTINCT toolbox FROM skill_references WHERE project = ? AND skill = ? ORDER BY toolbox"
    return [row[0] for row in tx.all(sql, project, name)]


def no_skill(name: str) -> NotFound:
    return NotFound(
        f"There is no skill {name!r}.",
        param="name",
        hint=f"`toolcrib skill list` shows the skills of this project; `toolcrib skill create {name}` makes one",
    )


def no_version(name: str, number: int | str) -> NotFound:
    return NotFound(
        f"Skill {name!r} has no version {number}.",
        param="version",
        hint=f"`toolcrib skill show {name}` shows its versions",
    )


def _refuse_if_used(tx: Transaction, project: str, name: str, pinned: int | None) -> None:
    """By a default version: at all, or (with `pinned`) pinned to that version."""
    sql = (
        "SELECT r.toolbox FROM skill_references r"
        " JOIN toolboxes t ON t.project = r.project AND t.name = r.toolbox AND t.default_version = r.version"
        " WHERE r.project = ? AND r.skill = ?"
    )
    rows = tx.all(f"{sql} AND r.pinned = ?", project, name, pinned) if pinned else tx.all(sql, project, name)
    toolboxes = sorted(row[0] for row in rows)
    if toolboxes:
        what = f"Version {pinned} of skill {name!r}" if pinned else f"Skill {name!r}"
        raise SkillInUse(
            f"{what} is used by the default version of: {', '.join(toolboxes[:20])}"
            f"{' and others' if len(toolboxes) > 20 else ''}.",
            param="name",
            hint="detach it there and publish (`toolcrib toolbox skill remove`), or delete it anyway with --in-use",
            info={"toolboxes": toolboxes},
        )


def _next_number(tx: Transaction, project: str, name: str) -> int:
    row = tx.one(
        "INSERT INTO skill_counters (project, name, last_version, epoch) VALUES (?, ?, 1, 1)"
        " ON CONFLICT (project, name) DO UPDATE"
        " SET last_version = skill_counters.last_version + 1, epoch = skill_counters.epoch + 1"
        " RETURNING last_version",
        project,
        name,
    )
    assert row is not None  # noqa: S101 - an upsert always returns its row
    return int(row[0])


def _hold(tx: Transaction, project: str, name: str) -> None:
    if tx.run("UPDATE skill_counters SET epoch = epoch + 1 WHERE project = ? AND name = ?", project, name) == 0:
        raise no_skill(name)


def _move_default(tx: Transaction, project: str, name: str, number: int) -> None:
    tx.run("UPDATE skills SET default_version = ? WHERE project = ? AND name = ?", number, project, name)


def _version(row: Row) -> SkillVersion:
    project, skill, number, skill_id, created_at, manifest = row
    parsed = msgspec.json.decode(bytes(manifest), type=SkillManifest)
    return SkillVersion(project, skill, number, skill_id, created_at, parsed)
