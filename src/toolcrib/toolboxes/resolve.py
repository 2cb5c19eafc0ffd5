"""Hot reads: the current state of each toolbox in memory, keyed by the pointer's epoch.

A write hands its new state in and becomes visible at once; a slow read that started before the write carries an older
epoch and is turned away, so memory never goes back in time. One server writes one database, so nothing else can be
newer than what we were handed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.domain import Toolbox, Version
from toolcrib.errors import NotFound
from toolcrib.storage import records_toolboxes as records
from toolcrib.storage.database import Database, Transaction

_MOST_TOOLBOXES = 10_000
_MOST_VERSIONS_EACH = 64


@dataclass(frozen=True, slots=True)
class Current:
    """A toolbox at one epoch, with its newest and its default version."""

    toolbox: Toolbox
    latest: Version
    default: Version
    # Other versions seen at this epoch: a memory, not a part of the value.
    others: dict[int, Version] = field(default_factory=dict[int, Version], compare=False, repr=False)
    # What doors derived from this value (an encoded answer), kept with it and gone with it.
    memo: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)


class Shelf:
    """What was last known of every toolbox that somebody asked for."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._current: dict[tuple[str, str], Current] = {}
        self._newest_epoch: dict[tuple[str, str], int] = {}

    async def current(self, project: str, name: str) -> Current:
        known = self._current.get((project, name))
        if known is not None:
            return known
        read = await self._db.read(lambda tx: load_current(tx, project, name))
        # Turned away, it is older than a write that finished meanwhile: right for this asker, but not for the next.
        return read if self.put(read) else self._current.get((project, name), read)

    def at_hand(self, project: str, name: str, selector: str | None) -> Version | None:
        """The version that `resolve` would come to, if it is in memory."""
        current = self._current.get((project, name))
        if current is None or selector is None:
            return None if current is None else current.default
        known = (current.default, current.latest, *current.others.values())
        return next((version for version in known if str(version.number) == selector), None)

    async def version(self, project: str, name: str, number: int) -> Version:
        current = await self.current(project, name)
        if number == current.default.number:
            return current.default
        if number == current.latest.number:
            return current.latest
        if number not in current.others:
            found = await self._db.read(lambda tx: records.get_version(tx, project, name, number))
            if len(current.others) < _MOST_VERSIONS_EACH:
                current.others[number] = found
            return found
        return current.others[number]

    def put(self, current: Current) -> bool:
        """Remember a state unless a newer one is known; whether it was remembered."""
        box = current.toolbox
        key = (box.project, box.name)
        if box.epoch < self._newest_epoch.get(key, 0):
            return False
        if len(self._current) >= _MOST_TOOLBOXES:
            self._current.pop(next(iter(self._current)))
        self._newest_epoch[key] = box.epoch
        self._current[key] = current
        return True

    def drop(self, project: str, name: str, epoch: int) -> None:
        """A toolbox was deleted at this epoch; states from before may no longer come in."""
        key = (project, name)
        self._newest_epoch[key] = max(epoch, self._newest_epoch.get(key, 0))
        self._current.pop(key, None)

    def drop_project(self, project: str, epochs: Mapping[str, int]) -> None:
        for name, epoch in epochs.items():
            self.drop(project, name, epoch)


def load_current(tx: Transaction, project: str, name: str) -> Current:
    box = records.get_toolbox(tx, project, name)
    latest = records.get_version(tx, project, name, box.latest_version)
    is_default = box.default_version == box.latest_version
    return Current(box, latest, latest if is_default else records.get_version(tx, project, name, box.default_version))


async def resolve(shelf: Shelf, project: str, name: str, selector: str | None) -> Version:
    """(project, name, selector) → one frozen version, the default without a selector; or a precise refusal."""
    if selector is None:
        return (await shelf.current(project, name)).default
    return await shelf.version(project, name, parse_number(name, selector))


def parse_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= 9):
        raise NotFound(
            f"Toolbox {name!r} has no version {text[:40]!r}; versions are numbered 1, 2, 3 …", param="version"
        )
    return int(text)
