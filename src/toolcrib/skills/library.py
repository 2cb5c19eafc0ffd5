"""The skills of every project: create, read, promote, delete; and, in memory, what each toolbox version serves of them.

Every door changes skills through here. A change first becomes durable, then empties what was remembered, then is told;
a read that began before it may be answered as of then, but is not remembered. Packing and unpacking run beside the
event loop, few at a time.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from toolcrib import wire
from toolcrib.domain import JsonObject, Skill, SkillFile, SkillManifest, SkillVersion, Version
from toolcrib.errors import NotFound
from toolcrib.skills import archive
from toolcrib.skills.bundle import Bundle, Limits, bundle, digest_of, inline
from toolcrib.skills.served import INDEX, NOTHING, Place, Served, contents, serve, uri_of
from toolcrib.storage import records_skills as records
from toolcrib.storage.database import Database, Transaction
from toolcrib.storage.records_skills import NewSkillVersion, Reference
from toolcrib.storage.records_toolboxes import Slice

T = TypeVar("T")
_MOST_PACKING = 2
_MOST_REMEMBERED_BYTES = 64 * 2**20
_MOST_SERVED = 10_000


@dataclass(frozen=True, slots=True)
class SkillChange:
    """A skill changed: whose lists may differ now, and which URIs may read differently."""

    project: str
    skill: str
    toolboxes: tuple[str, ...]
    uris: tuple[str, ...]


class Skills:
    """The skills of every project."""

    def __init__(self, db: Database, limits: Limits | None = None, clock: Callable[[], float] = time.time) -> None:
        self.limits = limits or Limits()
        self._db = db
        self._clock = clock
        self._packing = asyncio.Semaphore(_MOST_PACKING)
        self._memory = _Memory()
        self._served: dict[str, dict[str, Served]] = {}
        self.on_changed: list[Callable[[SkillChange], None]] = []

    # --- changes -----------------------------------------------------------------------------------------------------

    async def create_inline(
        self, project: str, name: str, content: wire.SkillInlineContent, *, default: bool
    ) -> SkillVersion:
        return await self._create(project, name, lambda: inline(name, content), default=default)

    async def create_from_files(
        self, project: str, name: str, files: Sequence[tuple[str, bytes]], *, default: bool
    ) -> SkillVersion:
        return await self._create(project, name, lambda: bundle(name, files, self.limits), default=default)

    async def create_from_archive(self, project: str, name: str, data: bytes, *, default: bool) -> SkillVersion:
        def unpack() -> Bundle:
            return bundle(name, archive.read(data, self.limits), self.limits)

        return await self._create(project, name, unpack, default=default)

    async def set_default(self, project: str, name: str, number: int) -> Skill:
        return await self._change(project, name, lambda tx: records.set_default(tx, project, name, number))

    async def delete(self, project: str, name: str, *, force: bool) -> Skill:
        return await self._change(project, name, lambda tx: records.delete_skill(tx, project, name, force=force))

    async def delete_version(self, project: str, name: str, number: int, *, force: bool) -> SkillVersion:
        def remove(tx: Transaction) -> SkillVersion:
            return records.delete_version(tx, project, name, number, force=force)

        return await self._change(project, name, remove)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def get(self, project: str, name: str) -> Skill:
        return await self._db.read(lambda tx: records.get_skill(tx, project, name))

    async def get_version(self, project: str, name: str, number: int) -> SkillVersion:
        return await self._db.read(lambda tx: records.get_version(tx, project, name, number))

    async def list(self, project: str, part: Slice) -> list[Skill]:
        return await self._db.read(lambda tx: records.list_skills(tx, project, part))

    async def list_versions(self, project: str, name: str, part: Slice) -> list[SkillVersion]:
        return await self._db.read(lambda tx: records.list_versions(tx, project, name, part))

    async def download(self, project: str, name: str, number: int | None) -> bytes:
        """The archive of a version, or of the default one."""

        def read(tx: Transaction) -> bytes:
            wanted = number or records.get_skill(tx, project, name).default_version
            return records.archive_of(tx, project, name, wanted)

        return await self._db.read(read)

    # --- for agents --------------------------------------------------------------------------------------------------

    async def served(self, version: Version) -> Served:
        """What a toolbox version serves now: unpinned references follow their skill's default."""
        if not version.content.skills:
            return NOTHING
        known = self._served.setdefault(version.project, {})
        found = known.get(version.id)
        if found is None:
            references = references_of(version.content.skills)
            skills = await self._db.read(lambda tx: records.effective(tx, version.project, references))
            there = {skill.skill for skill in skills}
            found = serve(skills, (name for name, _ in references if name not in there))
            if len(known) >= _MOST_SERVED:
                known.clear()
            known[version.id] = found  # a change meanwhile has dropped `known`, and this with it
        return found

    async def read(self, version: Version, uri: str) -> bytes:
        """The JSON text of the contents behind a `skill://` URI of a toolbox version."""
        served = await self.served(version)
        if uri == INDEX and served.index:
            return served.index
        place = served.places.get(uri)
        if place is None:
            raise NotFound(f"No skill of this toolbox has the resource {uri[:200]!a}.", info={"uri": uri})
        key = (place.skill.id, place.path or "")
        found = self._memory.get(key)
        if found is None:
            found = await self._load(place)
            self._memory.put(key, found)
        return found

    def drop_project(self, project: str) -> None:
        self._served.pop(project, None)

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _create(self, project: str, name: str, make: Callable[[], Bundle], *, default: bool) -> SkillVersion:
        async with self._packing:
            made = await asyncio.to_thread(make)
            packed = await asyncio.to_thread(archive.write, made.files)
        now = self._clock()
        new = NewSkillVersion(
            project, name, _new_id(now), int(now), manifest_of(made, packed), packed, make_default=default
        )
        return await self._change(project, name, lambda tx: records.create_version(tx, new))

    async def _change(self, project: str, name: str, verb: Callable[[Transaction], T]) -> T:
        def run(tx: Transaction) -> tuple[T, list[str]]:
            done = verb(tx)
            return done, records.toolboxes_with(tx, project, name)

        done, toolboxes = await self._db.write(run)
        before = self._served.pop(project, {})
        spoken_of = {uri for served in before.values() for uri in served.uris.get(name, ())}
        change = SkillChange(project, name, tuple(toolboxes), (INDEX, *sorted(spoken_of | {uri_of(name)})))
        for listener in self.on_changed:
            listener(change)
        return done

    async def _load(self, place: Place) -> bytes:
        skill = place.skill
        packed = await self._db.read(lambda tx: records.archive_of(tx, skill.project, skill.skill, skill.number))
        return await asyncio.to_thread(_contents, place, packed)


class _Memory:
    """Encoded answers, most recently used last, up to a number of bytes. Keys are never reused, so nothing is stale."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[str, str]) -> bytes | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: tuple[str, str], value: bytes) -> None:
        if len(value) > _MOST_REMEMBERED_BYTES // 4 or key in self._kept:
            return
        self._kept[key] = value
        self._bytes += len(value)
        while self._bytes > _MOST_REMEMBERED_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest)


def references_of(skills: Sequence[JsonObject]) -> tuple[Reference, ...]:
    """References as a version's content holds them: name, and version where it is pinned."""
    return tuple((s["name"], int(s["version"]) if "version" in s else None) for s in skills)


def manifest_of(made: Bundle, packed: bytes) -> SkillManifest:
    return SkillManifest(
        description=made.head.description,
        digest=made.digest,
        archive_digest=digest_of(packed),
        archive_size=len(packed),
        frontmatter=dict(made.head.fields),
        allowed_tools=made.head.allowed_tools,
        files=tuple(SkillFile(path, len(data), digest_of(data)) for path, data in made.files.items()),
    )


def _contents(place: Place, packed: bytes) -> bytes:
    if place.path is None:
        return contents(place.uri, packed, "application/zip")
    files = dict(archive.read(packed, _OURS))
    return contents(place.uri, files[place.path])


_OURS = Limits(archive_bytes=2**40, files=2**31, expanded_bytes=2**40)  # checked when it came in


def _new_id(now: float) -> str:
    """Sorts by time of creation, so that a page's cursor still means something after its row is gone."""
    return f"sk_{int(now * 1000):011x}{secrets.token_hex(5)}"
