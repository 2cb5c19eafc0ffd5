"""The JSON we promise over REST, shared by the server's handlers and the client.

Field names and shapes follow the Foundry toolbox wire; what is ours alone says so. Requests refuse unknown fields,
answers may grow. Knows nothing of storage, HTTP or MCP.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

JsonObject = dict[str, Any]
RoleName = Literal["viewer", "agent", "editor", "admin"]
ToolboxName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,128}\Z", description="letters, digits, `_` and `-`")]
VersionNumber = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,8}\Z", description="a decimal number as a string")]

T = TypeVar("T")


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every body we accept."""


class Answer(msgspec.Struct, frozen=True, omit_defaults=False):
    """Base of every body we send."""


# --- toolboxes -------------------------------------------------------------------------------------------------------


class SkillReference(Request, frozen=True, tag="skill_reference", tag_field="type"):
    """A skill of a version; without `version` it follows the skill's default."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?\Z")]
    version: VersionNumber | msgspec.UnsetType = msgspec.UNSET


class CreateVersion(Request, frozen=True):
    """Body of create_version. Entries in `tools` keep fields we do not know; everything else is strict."""

    tools: Annotated[list[JsonObject], Meta(max_length=1000)]
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    metadata: dict[Annotated[str, Meta(max_length=256)], Annotated[str, Meta(max_length=4096)]] | None = None
    skills: Annotated[list[SkillReference], Meta(max_length=1000)] | None = None
    policies: JsonObject | None = None


class SetDefaultVersion(Request, frozen=True):
    """Body of PATCH toolbox (and of POST skill)."""

    default_version: VersionNumber


class ToolboxVersion(Answer, frozen=True):
    id: str
    name: str
    version: str
    created_at: int
    metadata: dict[str, str]
    tools: list[JsonObject]
    skills: list[JsonObject]
    digest: str
    description: str | msgspec.UnsetType = msgspec.UNSET
    policies: JsonObject | msgspec.UnsetType = msgspec.UNSET
    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET


class LatestVersion(Answer, frozen=True):
    latest: ToolboxVersion


class Toolbox(Answer, frozen=True):
    id: str
    name: str
    updated_at: int
    default_version: str
    versions: LatestVersion


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list. `last_id` is null on the final page: one of the official clients loops until it is."""

    data: list[T]
    has_more: bool
    first_id: str | None = None
    last_id: str | None = None


class Promotion(Answer, frozen=True):
    """One move of the default pointer; `from` is null for a toolbox's first version."""

    id: str
    at: int
    by: str
    from_version: str | None
    to_version: str


class FieldChange(Answer, frozen=True):
    """`path` is a JSON pointer inside the entry. Sealed values only ever say `changed`."""

    path: str
    change: Literal["added", "removed", "changed"]
    before: Any | msgspec.UnsetType = msgspec.UNSET
    after: Any | msgspec.UnsetType = msgspec.UNSET


class EntryChange(Answer, frozen=True):
    entry: str
    type: str
    change: Literal["added", "removed", "changed"]
    fields: list[FieldChange] = []


class SkillChange(Answer, frozen=True):
    skill: str
    change: Literal["added", "removed", "changed"]
    before: str | None = None
    after: str | None = None


class ToolChange(Answer, frozen=True):
    """A tool that one version offers and the other does not, or offers differently, as far as sources were seen."""

    tool: str
    change: Literal["added", "removed", "changed"]


class Diff(Answer, frozen=True):
    name: str
    from_version: str
    to_version: str
    entries: list[EntryChange]
    skills: list[SkillChange]
    fields: list[FieldChange]
    tools: list[ToolChange] = []


# --- skills ----------------------------------------------------------------------------------------------------------


class SkillInlineContent(Request, frozen=True):
    """A skill of one file: the fields of its SKILL.md."""

    description: Annotated[str, Meta(min_length=1, max_length=1024)]
    instructions: Annotated[str, Meta(max_length=2**20)]
    license: Annotated[str, Meta(max_length=500)] | None = None
    compatibility: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    metadata: dict[Annotated[str, Meta(max_length=256)], Annotated[str, Meta(max_length=4096)]] | None = None
    allowed_tools: Annotated[list[Annotated[str, Meta(min_length=1, max_length=512)]], Meta(max_length=1000)] | None = (
        None
    )


class CreateSkillVersion(Request, frozen=True):
    """Body of create skill. A multipart body with `files` and `default`, or one ZIP, is read too."""

    inline_content: SkillInlineContent
    default: bool | None = None


class SkillFile(Answer, frozen=True):
    path: str
    size: int
    digest: str


class Skill(Answer, frozen=True):
    id: str
    name: str
    description: str
    created_at: int
    default_version: str
    latest_version: str


class SkillVersion(Answer, frozen=True):
    """`digest` and `files` are ours; content is downloaded, never echoed."""

    id: str
    skill_id: str
    name: str
    version: str
    description: str
    created_at: int
    digest: str
    files: list[SkillFile]


class DeletedSkill(Answer, frozen=True):
    id: str
    name: str
    deleted: bool = True


class DeletedSkillVersion(Answer, frozen=True):
    id: str
    name: str
    version: str
    deleted: bool = True


# --- projects and keys (ours) ----------------------------------------------------------------------------------------


class CreateProject(Request, frozen=True):
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]


class Project(Answer, frozen=True):
    name: str
    created_at: int


class CreateKey(Request, frozen=True):
    role: RoleName
    label: Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\Z")] = ""
    act_for_users: bool = False


class Key(Answer, frozen=True):
    id: str
    role: RoleName
    label: str
    act_for_users: bool
    created_at: int
    revoked_at: int | None = None


class IssuedKey(Answer, frozen=True):
    """The only answer that ever holds a key's secret."""

    id: str
    role: RoleName
    label: str
    act_for_users: bool
    created_at: int
    key: str


# --- connections -----------------------------------------------------------------------------------------------------


class ConnectionProperties(Request, frozen=True):
    """As azd sends them to ARM. `credentials` is `{"key": …}` or `{"keys": {header: value}}` (or flat pairs)."""

    authType: str = "None"  # noqa: N815 - the wire's spelling
    category: Annotated[str, Meta(max_length=100)] = "RemoteTool"
    target: Annotated[str, Meta(max_length=2048)] = ""
    metadata: dict[str, str] | None = None
    credentials: JsonObject | None = None


class PutConnection(Request, frozen=True):
    properties: ConnectionProperties


class Connection(Answer, frozen=True):
    """Never with secrets: `credentials` only says of what kind they are."""

    name: str
    id: str
    type: str
    target: str
    isDefault: bool  # noqa: N815 - the wire's spelling
    credentials: dict[str, str]
    metadata: dict[str, str]


class Connections(Answer, frozen=True):
    value: list[Connection]


class ConnectionTest(Answer, frozen=True):
    """What came of reaching a connection's target with its credentials."""

    status: str
    tools: int
    reason: str = ""
    remedy: str = ""


# --- sources and drift (ours) ----------------------------------------------------------------------------------------


class Source(Answer, frozen=True):
    """How the source behind one entry is doing."""

    label: str
    type: str
    status: str
    since: int
    reason: str
    remedy: str
    tools: int


class Sources(Answer, frozen=True):
    name: str
    version: str
    sources: list[Source]
    warnings: list[str] = []


class DriftChange(Answer, frozen=True):
    grade: str
    path: str
    sentence: str


class ToolDrift(Answer, frozen=True):
    """A tool whose definition is no longer the one its version was created with, and what is done about it."""

    tool: str
    outcome: str
    grade: str
    changes: list[DriftChange]


class Drift(Answer, frozen=True):
    name: str
    version: str
    tools: list[ToolDrift]


class ToolHabit(Answer, frozen=True):
    """How often a principal used a tool; `score` is the decayed count that decides about pinning."""

    tool: str
    calls: int
    score: float
    pinned: bool


class AutoPins(Answer, frozen=True):
    name: str
    principal: str
    tools: list[ToolHabit]


class Erased(Answer, frozen=True):
    """How many tools were forgotten."""

    name: str
    principal: str
    tools: int


class AcceptDrift(Request, frozen=True):
    accept: Annotated[str, Meta(min_length=1, max_length=512)]
    version: VersionNumber | None = None


# --- health and failures ---------------------------------------------------------------------------------------------


class Health(Answer, frozen=True):
    status: Literal["ok", "starting"]
    version: str


class Problem(Answer, frozen=True):
    """What went wrong. `code` is stable; `message` says what happened to which thing and what to do next."""

    code: str
    message: str
    param: str | msgspec.UnsetType = msgspec.UNSET
    type: str | msgspec.UnsetType = msgspec.UNSET
    details: list[JsonObject] | msgspec.UnsetType = msgspec.UNSET
    additionalInfo: JsonObject | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 - the wire's spelling


class Failure(Answer, frozen=True):
    error: Problem
