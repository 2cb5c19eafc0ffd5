"""Successful calls per principal and tool, coalesced in memory and flushed to storage within a second.

Keyed across versions by (project, toolbox, principal) and `label.tool`. What was not flushed is lost in a crash: at
most a second of habits. The rules for what follows from them are in `autopin`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import astuple

from toolcrib.errors import OperatorError
from toolcrib.storage import records_habits as records
from toolcrib.storage.database import Database
from toolcrib.storage.records_habits import HabitRow, Owner
from toolcrib.toolboxes.autopin import Habit, Pins, as_of, choose, epoch_of, used, worth_keeping

log = logging.getLogger("toolcrib.usage")
FLUSH_EVERY_S = 1.0
_MOST_OWNERS = 10_000
_MOST_TOOLS_EACH = 200


class _Person:
    """What is known of one principal in one toolbox."""

    def __init__(self, habits: dict[str, Habit], pins: Pins | None) -> None:
        self.habits = habits
        self.pins = pins
        self.changed: set[str] = set()


class Usage:
    """Habits and pins, in memory for those who were here lately."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._people: OrderedDict[Owner, _Person] = OrderedDict()
        self._pending: dict[Owner, dict[tuple[int, str], int]] = {}
        self._loading: dict[Owner, asyncio.Task[_Person]] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, owner: Owner, tool: str) -> None:
        """A call succeeded. Costs a dictionary write; everything else happens later."""
        calls = self._pending.get(owner)
        if calls is None:
            if len(self._pending) >= _MOST_OWNERS:
                return
            calls = self._pending[owner] = {}
        key = (epoch_of(self._clock()), tool)
        calls[key] = calls.get(key, 0) + 1

    async def pins(self, owner: Owner) -> Pins:
        """The pins of this epoch: chosen once, then the same until the next epoch, also after a restart."""
        epoch = epoch_of(self._clock())
        person = await self._person(owner)
        if person.pins is None or person.pins.epoch < epoch:
            self._fold(owner, person)
            person.pins = pins = choose(person.pins, person.habits, epoch)
            if pins.tools or person.habits:
                await self._db.write(lambda tx: records.save_pins(tx, owner, (pins.epoch, dict(pins.tools))))
        return person.pins

    async def habits(self, owner: Owner) -> dict[str, Habit]:
        """What is known, seen from now; for showing to the person it is about."""
        person = await self._person(owner)
        self._fold(owner, person)
        return {tool: as_of(habit, epoch_of(self._clock())) for tool, habit in person.habits.items()}

    async def erase(self, owner: Owner) -> int:
        """Forget one principal in one toolbox, here and on disk."""
        self._pending.pop(owner, None)
        self._people.pop(owner, None)
        return await self._db.write(lambda tx: records.erase(tx, owner))

    def forget_toolbox(self, project: str, toolbox: str, number: int | None) -> None:
        """A toolbox was deleted; its habits went with it."""
        if number is None:
            for owner in [o for o in self._people if (o.project, o.toolbox) == (project, toolbox)]:
                del self._people[owner]

    def start(self) -> None:
        self._task = asyncio.create_task(self._flush_for_ever())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self.flush()

    async def flush(self) -> None:
        for owner in list(self._pending):
            self._fold(owner, await self._person(owner))
        dirty = [(owner, person) for owner, person in self._people.items() if person.changed]
        for owner, person in dirty:
            if self._people.get(owner) is person:  # else erased while the others were written
                await self._save(owner, person)
        while len(self._people) > _MOST_OWNERS:
            self._people.popitem(last=False)

    async def _save(self, owner: Owner, person: _Person) -> None:
        changed, person.changed = person.changed, set()
        rows = {tool: _row(person.habits.get(tool)) for tool in changed}
        try:
            await self._db.write(lambda tx: records.save_habits(tx, owner, rows))
        except OperatorError:
            person.changed |= changed  # the database may come back
            raise

    async def _person(self, owner: Owner) -> _Person:
        person = self._people.get(owner)
        if person is not None:
            self._people.move_to_end(owner)
            return person
        task = self._loading.get(owner)
        if task is None:
            task = self._loading[owner] = asyncio.create_task(self._load(owner))
            task.add_done_callback(lambda _: self._loading.pop(owner, None))
        return await asyncio.shield(task)

    async def _load(self, owner: Owner) -> _Person:
        habits, pins = await self._db.read(lambda tx: records.load(tx, owner))
        known = {tool: Habit(*row) for tool, row in habits.items()}
        person = self._people[owner] = _Person(known, Pins(*pins) if pins else None)
        return person

    def _fold(self, owner: Owner, person: _Person) -> None:
        """Pending calls become habits; faded habits go."""
        for (epoch, tool), calls in sorted(self._pending.pop(owner, {}).items()):
            person.habits[tool] = used(person.habits.get(tool), epoch, calls)
            person.changed.add(tool)
        now = epoch_of(self._clock())
        faded = [tool for tool, habit in person.habits.items() if not worth_keeping(habit, now)]
        crowd = sorted(person.habits, key=lambda t: as_of(person.habits[t], now).score)
        for tool in {*faded, *crowd[: max(0, len(crowd) - _MOST_TOOLS_EACH)]}:
            del person.habits[tool]
            person.changed.add(tool)

    async def _flush_for_ever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            try:
                await self.flush()
            except OperatorError as error:
                log.warning("habits could not be written: %s", error.message)


def _row(habit: Habit | None) -> HabitRow | None:
    return None if habit is None else astuple(habit)
