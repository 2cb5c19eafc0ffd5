"""Hot reads come from memory; memory never goes back in time, however slowly the database answers.

A database that does its work at once but answers when it is told to stands in for slow threads: hypothesis chooses who
is answered next. Whatever begins after a write was acknowledged must see that write, or something newer.
"""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib import wire
from toolcrib.access import OPERATOR, Access
from toolcrib.connections.sealing import Sealer
from toolcrib.domain import Role
from toolcrib.errors import NotFound, RequestError, Unauthenticated
from toolcrib.storage import migrations
from toolcrib.storage.database import Transaction
from toolcrib.storage.records_toolboxes import epoch_of
from toolcrib.storage.sqlite import SqliteTransaction
from toolcrib.toolboxes.resolve import Shelf
from toolcrib.toolboxes.versions import Toolboxes

T = TypeVar("T")
BODY = wire.CreateVersion(tools=[{"type": "web_search"}])
BOX = ("default", "box")


class SlowDatabase:
    """Commits at once, answers when told."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        weakref.finalize(self, self.connection.close)
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.waiting: list[asyncio.Future[None]] = []
        self.slow = False

    async def write(self, verb: Callable[[Transaction], T]) -> T:
        self.connection.execute("BEGIN")
        try:
            result = verb(SqliteTransaction(self.connection))
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")
        if self.slow:
            answered = asyncio.get_running_loop().create_future()
            self.waiting.append(answered)
            await answered
        return result

    async def read(self, verb: Callable[[Transaction], T]) -> T:
        return await self.write(verb)

    async def close(self) -> None:
        self.connection.close()

    def epoch(self) -> int:
        return epoch_of(SqliteTransaction(self.connection), *BOX)


class World:
    """A shelf with its toolboxes, and what was acknowledged so far."""

    def __init__(self) -> None:
        self.db = SlowDatabase()
        self.acknowledged = 0  # the highest epoch a finished write is known to have reached
        self.ended: set[int] = set()  # the epochs at which the toolbox was deleted
        self.shelf = Shelf(self.db)
        self.access = Access(self.db, "operator-token")
        self.access.on_project_deleted.append(self.shelf.drop_project)
        self.toolboxes = Toolboxes(self.db, Sealer(bytes(range(32))), self.shelf)
        self.tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        await self.db.write(migrations.apply_pending)
        await self.access.load()
        self.db.slow = True

    async def act(self, what: str) -> None:
        """Do one thing; `epoch` is taken when the database has committed it, before anybody is told."""
        project, name = BOX
        before = self.db.epoch()
        verb: Coroutine[Any, Any, Any] = {
            "create": lambda: self.toolboxes.create_version(OPERATOR, project, name, BODY),
            "promote": lambda: self.toolboxes.promote(OPERATOR, project, name, max(1, before)),
            "delete": lambda: self.toolboxes.delete(project, name),
            "delete version": lambda: self.toolboxes.delete_version(project, name, max(1, before - 1)),
        }[what]()
        task = asyncio.ensure_future(verb)
        await asyncio.sleep(0)  # the first step: up to the commit
        reached = self.db.epoch()
        if what.startswith("delete") and reached > before and not self.exists():
            self.ended.add(reached)
        try:
            await task
        except RequestError:
            return
        self.acknowledged = max(self.acknowledged, reached)

    def exists(self) -> bool:
        return self.db.connection.execute("SELECT 1 FROM toolboxes WHERE name = ?", BOX[1:]).fetchone() is not None

    async def look(self) -> None:
        floor = self.acknowledged
        try:
            seen = (await self.shelf.current(*BOX)).toolbox.epoch
        except NotFound:
            assert floor == 0 or max(self.ended, default=0) >= floor, "a toolbox that was there was not found"
            return
        assert seen >= floor, f"epoch {seen} was seen after {floor} was acknowledged"

    async def step(self, choice: int) -> None:
        waiting = self.db.waiting
        if waiting:
            waiting.pop(choice % len(waiting)).set_result(None)
        for _ in range(4):
            await asyncio.sleep(0)

    def begin(self, verb: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(verb))

    async def finish(self) -> None:
        while any(not task.done() for task in self.tasks):
            await self.step(0)
        await asyncio.gather(*self.tasks)
        await self.db.close()


ACTIONS = st.one_of(
    st.sampled_from(["create", "promote", "delete", "delete version", "look", "look", "look"]),
    st.integers(0, 7),  # answer one of those who wait
)


@settings(max_examples=300, deadline=None, database=None)
@given(st.lists(ACTIONS, min_size=5, max_size=60))
def test_memory_never_goes_back_in_time(actions: list[str | int]) -> None:
    async def play() -> None:
        world = World()
        await world.open()
        for action in actions:
            if isinstance(action, int):
                await world.step(action)
            else:
                world.begin(world.look() if action == "look" else world.act(action))
                await asyncio.sleep(0)
        await world.finish()

    asyncio.run(play())


@pytest.mark.anyio
async def test_a_read_that_began_before_a_project_was_deleted_does_not_bring_its_toolbox_back() -> None:
    world = World()
    await world.open()
    world.db.slow = False
    await world.access.create_project("p")
    await world.toolboxes.create_version(OPERATOR, "p", "box", BODY)
    world.shelf = Shelf(world.db)
    world.access.on_project_deleted = [world.shelf.drop_project]
    world.db.slow = True
    late = asyncio.ensure_future(world.shelf.current("p", "box"))
    await asyncio.sleep(0)
    world.db.slow = False
    await world.access.delete_project("p")
    world.db.waiting.pop().set_result(None)
    assert (await late).toolbox.name == "box"  # it asked while the project was there
    await world.access.create_project("p")
    with pytest.raises(NotFound):
        await world.shelf.current("p", "box")
    await world.db.close()


@pytest.mark.anyio
async def test_a_key_that_was_being_verified_when_it_was_revoked_is_not_remembered() -> None:
    world = World()
    await world.open()
    world.db.slow = False
    issued = await world.access.issue_key("default", Role.viewer, "", may_act_for_users=False)
    world.db.slow = True
    late = asyncio.ensure_future(world.access.authenticate(issued.secret))
    await asyncio.sleep(0)
    world.db.slow = False
    await world.access.revoke_key("default", issued.key.id)
    world.db.waiting.pop().set_result(None)
    with pytest.raises(Unauthenticated):
        await late
    with pytest.raises(Unauthenticated):
        await world.access.authenticate(issued.secret)
    await world.db.close()


@pytest.mark.anyio
async def test_a_version_written_into_a_project_that_just_went_is_not_found() -> None:
    world = World()
    await world.open()
    world.db.slow = False
    await world.access.create_project("p")
    await world.access.delete_project("p")
    with pytest.raises(NotFound) as refused:
        await world.toolboxes.create_version(OPERATOR, "p", "box", BODY)
    assert "'p'" in refused.value.message
    with pytest.raises(NotFound):
        await world.access.issue_key("p", Role.viewer, "", may_act_for_users=False)
    await world.db.close()
