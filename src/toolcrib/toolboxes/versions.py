"""Create, read, promote, roll back, compare and delete the versions of toolboxes.

Every door (REST, CLI, later the console) changes toolboxes through here. A version is written once and never changed;
promotion moves one pointer. Knows nothing of HTTP, and of upstreams only that somebody wants to hear of new versions.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable

import msgspec

from toolcrib import wire
from toolcrib.connections.registry import short_name
from toolcrib.connections.sealing import Sealer
from toolcrib.domain import Content, JsonObject, Principal, Promotion, Toolbox, Version
from toolcrib.errors import InvalidPayload
from toolcrib.skills.library import references_of
from toolcrib.storage import records_connections, records_secrets, records_skills
from toolcrib.storage import records_toolboxes as records
from toolcrib.storage.database import Database, Transaction
from toolcrib.storage.records_toolboxes import NewVersion, Slice
from toolcrib.toolboxes.compare import compare
from toolcrib.toolboxes.entries import check_entries
from toolcrib.toolboxes.resolve import Current, Shelf, load_current
from toolcrib.toolboxes.secrets import EntrySealer, owner_of

DEEPEST_JSON = 64
Clock = Callable[[], float]


class RaiConfig(msgspec.Struct, frozen=True):
    rai_policy_name: str
    invocations_moderation: JsonObject | None = None


class Policies(msgspec.Struct, frozen=True):
    rai_config: RaiConfig | None = None


class Toolboxes:
    """The toolboxes of every project."""

    def __init__(self, db: Database, sealer: Sealer, shelf: Shelf, clock: Clock = time.time) -> None:
        self._db = db
        self._sealer = sealer
        self._shelf = shelf
        self._clock = clock
        self.on_created: list[Callable[[Version], None]] = []
        self.on_changed: list[Callable[[str, str], None]] = []
        self.on_deleted: list[Callable[[str, str, int | None], None]] = []

    async def create_version(
        self, by: Principal, project: str, name: str, body: wire.CreateVersion
    ) -> tuple[Version, list[str]]:
        warnings = check_body(body)
        current, version = await self._db.write(lambda tx: self._create(tx, by, project, name, body))
        self._shelf.put(current)
        self._tell(project, name)
        for listener in self.on_created:
            listener(version)
        return version, warnings + await self._db.read(lambda tx: _missing_connections(tx, project, body.tools))

    async def get(self, project: str, name: str) -> Current:
        return await self._shelf.current(project, name)

    async def get_version(self, project: str, name: str, number: int) -> Version:
        return await self._shelf.version(project, name, number)

    async def list(self, project: str, part: Slice) -> list[tuple[Toolbox, Version]]:
        return await self._db.read(lambda tx: records.list_toolboxes(tx, project, part))

    async def list_versions(self, project: str, name: str, part: Slice) -> list[Version]:
        return await self._db.read(lambda tx: records.list_versions(tx, project, name, part))

    async def promotions(self, project: str, name: str, part: Slice) -> list[Promotion]:
        return await self._db.read(lambda tx: records.list_promotions(tx, project, name, part))

    async def diff(self, project: str, name: str, before: int, after: int) -> wire.Diff:
        return compare(await self.get_version(project, name, before), await self.get_version(project, name, after))

    async def promote(self, by: Principal, project: str, name: str, to: int, *, expected: int | None = None) -> Current:
        def move(tx: Transaction) -> Current:
            records.promote(tx, project, name, to, expected=expected, by=by.id, now=self._now())
            return load_current(tx, project, name)

        current = await self._db.write(move)
        self._shelf.put(current)
        self._tell(project, name)
        return current

    async def delete_version(self, project: str, name: str, number: int) -> None:
        def remove(tx: Transaction) -> tuple[Current | None, int]:
            box = records.delete_version(tx, project, name, number, self._now())
            return (load_current(tx, project, name) if box else None), records.epoch_of(tx, project, name)

        current, epoch = await self._db.write(remove)
        if current is None:
            self._shelf.drop(project, name, epoch)
        else:
            self._shelf.put(current)
        self._tell_deleted(project, name, number)

    async def delete(self, project: str, name: str) -> None:
        def remove(tx: Transaction) -> int:
            records.delete_toolbox(tx, project, name)
            return records.epoch_of(tx, project, name)

        self._shelf.drop(project, name, await self._db.write(remove))
        self._tell_deleted(project, name, None)

    def _create(
        self, tx: Transaction, by: Principal, project: str, name: str, body: wire.CreateVersion
    ) -> tuple[Current, Version]:
        sealing = EntrySealer(
            self._sealer, project, name, lambda sealed_id: records_secrets.find(tx, project, owner_of(name), sealed_id)
        )
        content = _content(body, sealing.seal(body.tools))
        skills = references_of(content.skills)
        records_skills.require(tx, project, skills)
        now = self._now()
        new = NewVersion(
            project=project,
            toolbox=name,
            toolbox_id=_new_id(self._clock()),
            created_at=now,
            created_by=by.id,
            digest="sha256:" + hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest(),
            content=msgspec.json.encode(content),
            secrets=tuple(sealing.new),
        )
        _, version = records.create_version(tx, new)
        records_skills.refer(tx, project, name, version.number, skills)
        return load_current(tx, project, name), version

    def _tell_deleted(self, project: str, name: str, number: int | None) -> None:
        for listener in self.on_deleted:
            listener(project, name, number)
        self._tell(project, name)

    def _tell(self, project: str, name: str) -> None:
        for listener in self.on_changed:
            listener(project, name)

    def _now(self) -> int:
        return int(self._clock())


def check_body(body: wire.CreateVersion) -> list[str]:
    """Refuse a body that cannot become a version; the warnings about one that can."""
    _check_depth({"tools": body.tools, "policies": body.policies})
    if not body.tools and not body.skills:
        raise InvalidPayload("A version needs at least one tool or one skill.", param="tools")
    _check_policies(body.policies)
    names = [s.name for s in body.skills or []]
    repeated = next((i for i, name in enumerate(names) if name in names[:i]), None)
    if repeated is not None:
        raise InvalidPayload(f"Skill {names[repeated]!r} is named twice.", param=f"skills[{repeated}]")
    warnings = check_entries(body.tools)
    try:
        msgspec.json.encode(body)
    except (OverflowError, ValueError) as error:
        raise InvalidPayload(f"A value in the body cannot be kept: {error}.", param="tools") from None
    return warnings


def _missing_connections(tx: Transaction, project: str, tools: list[JsonObject]) -> list[str]:
    """A version may come before its connections; until they are there, those sources cannot be asked."""
    known = {connection.name for connection in records_connections.list_all(tx, project)}
    named = ((at, entry.get("project_connection_id")) for at, entry in enumerate(tools))
    return [
        f"tools[{at}].project_connection_id names the connection {short_name(wanted)!r}, which does not exist;"
        f" make it with: toolcrib connection add {short_name(wanted)}"
        for at, wanted in named
        if isinstance(wanted, str) and short_name(wanted) not in known
    ]


def _check_policies(policies: JsonObject | None) -> None:
    try:
        msgspec.convert(policies or {}, Policies)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$")
        param = "policies" + at.rstrip("`")
        raise InvalidPayload(f"{param}: {what}.", param=param) from None


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(DEEPEST_JSON):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise InvalidPayload(f"The body nests deeper than {DEEPEST_JSON} levels.", param="tools")


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType] - plain JSON
    return list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType] - plain JSON


def _content(body: wire.CreateVersion, tools: tuple[JsonObject, ...]) -> Content:
    return Content(
        tools=tools,
        description=body.description,
        metadata=body.metadata or {},
        skills=tuple(msgspec.to_builtins(s) for s in body.skills or []),
        policies=body.policies,
    )


def _new_id(now: float) -> str:
    """Sorts by time of creation, so that a page's cursor still means something after its row is gone."""
    return f"tb_{int(now * 1000):011x}{secrets.token_hex(5)}"
