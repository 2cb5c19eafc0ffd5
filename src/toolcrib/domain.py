"""The frozen nouns: what a principal, a toolbox, a version, a promotion, a key and a source state are.

Knows nothing of HTTP, MCP or SQL. Anything shared between tasks is one of these values; change is a new value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Literal

Json = Any
JsonObject = dict[str, Any]


class Role(IntEnum):
    """What a principal may do. Each role may do all that the ones below it may."""

    viewer = 1  # read toolboxes, versions, skills, connections (without secrets)
    agent = 2  # use MCP endpoints
    editor = 3  # create, promote, delete
    admin = 4  # keys, projects, everything


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking. `project` is None for the operator, who may enter every project."""

    key_id: str
    role: Role
    project: str | None
    user: str | None = None
    may_act_for_users: bool = False

    @property
    def id(self) -> str:
        """Stable name for records and per-principal state: the key, or a user within that key."""
        return f"{self.key_id}/{self.user}" if self.user is not None else self.key_id


@dataclass(frozen=True, slots=True)
class Project:
    name: str
    created_at: int


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    project: str | None
    role: Role
    label: str
    may_act_for_users: bool
    created_at: int
    revoked_at: int | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What a version says. `tools` are the entries as sent, with secrets replaced by `sealed:<id>`."""

    tools: tuple[JsonObject, ...]
    description: str | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    skills: tuple[JsonObject, ...] = ()
    policies: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One immutable version of a toolbox."""

    project: str
    toolbox: str
    number: int
    id: str
    created_at: int
    digest: str
    content: Content


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A named pointer. `epoch` grows with every change of it, so that readers can tell old from new."""

    project: str
    name: str
    id: str
    created_at: int
    updated_at: int
    default_version: int
    latest_version: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Promotion:
    sequence: int
    at: int
    by: str
    from_version: int | None
    to_version: int


@dataclass(frozen=True, slots=True)
class SkillFile:
    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class SkillManifest:
    """What a version of a skill says of itself and holds, without the files' bytes."""

    description: str
    digest: str
    archive_digest: str
    archive_size: int
    frontmatter: JsonObject
    allowed_tools: tuple[str, ...]
    files: tuple[SkillFile, ...]


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """One immutable version of a skill."""

    project: str
    skill: str
    number: int
    skill_id: str
    created_at: int
    manifest: SkillManifest

    @property
    def id(self) -> str:
        return f"{self.skill_id}:{self.number}"


@dataclass(frozen=True, slots=True)
class Skill:
    """A named skill; `description` is its default version's."""

    project: str
    name: str
    id: str
    created_at: int
    default_version: int
    latest_version: int
    description: str


class SourceStatus(StrEnum):
    """How the source behind an entry is doing."""

    ok = "ok"
    pending = "pending"
    stale = "stale"
    consent_required = "consent_required"
    auth_failed = "auth_failed"
    unreachable = "unreachable"
    quarantined = "quarantined"
    not_configured = "not_configured"
    unsupported = "unsupported"


@dataclass(frozen=True, slots=True)
class SourceState:
    """One source as a person is told of it."""

    label: str
    type: str
    status: SourceStatus
    since: int
    reason: str = ""
    remedy: str = ""
    tools: int = 0


NameForm = Literal["dot", "triple", "safe"]
