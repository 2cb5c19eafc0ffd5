"""Request states with a clock that tests move; and what happens to records and habits while the database is away."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from toolcrib.catalog.names import Name
from toolcrib.domain import Content, Principal, Role, Version
from toolcrib.errors import InvalidPayload, StorageFailed
from toolcrib.gateway.states import LIFETIME_S, StateSeal, bind
from toolcrib.storage.records_habits import Owner
from toolcrib.toolboxes.calls import CallLog
from toolcrib.toolboxes.usage import Usage

ADA = bind("ada", "tb_1:1", "tools/call", "up.send", arguments=b'{"to": "bob", "n": 1}')


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_state_opens_for_its_own_request_however_the_arguments_are_spelled() -> None:
    seal = StateSeal(b"k" * 32)
    text = seal.seal(ADA, upstream="theirs")
    same = bind("ada", "tb_1:1", "tools/call", "up.send", arguments=b' {"n":1,"to":"bob"} ')
    assert seal.open(text, same).upstream == "theirs"


@pytest.mark.parametrize(
    "other",
    [
        bind("bob", "tb_1:1", "tools/call", "up.send", arguments=b'{"to": "bob", "n": 1}'),
        bind("ada", "tb_1:2", "tools/call", "up.send", arguments=b'{"to": "bob", "n": 1}'),
        bind("ada", "tb_1:1", "prompts/get", "up.send", arguments=b'{"to": "bob", "n": 1}'),
        bind("ada", "tb_1:1", "tools/call", "up.read", arguments=b'{"to": "bob", "n": 1}'),
        bind("ada", "tb_1:1", "tools/call", "up.send", arguments=b'{"to": "eve", "n": 1}'),
        bind("ada", "tb_1:1", "tools/call", "up.send"),
        bind("ada", "tb_1:1", "tools/call", "up.send", arguments=b"{nonsense"),
    ],
)
def test_a_state_does_not_open_for_another_request(other: bytes) -> None:
    seal = StateSeal(b"k" * 32)
    text = seal.seal(ADA, parked=7)
    with pytest.raises(InvalidPayload):
        seal.open(text, other)
    with pytest.raises(InvalidPayload):
        StateSeal(b"x" * 32).open(text, ADA)
    assert seal.open(text, ADA).parked == 7


def test_a_state_expires_and_opens_once() -> None:
    clock = Clock()
    seal = StateSeal(b"k" * 32, clock)
    late, used = seal.seal(ADA, upstream="a"), seal.seal(ADA, upstream="b")
    assert seal.open(used, ADA).upstream == "b"
    with pytest.raises(InvalidPayload):
        seal.open(used, ADA)
    clock.now += LIFETIME_S + 1
    for text in (late, used):
        with pytest.raises(InvalidPayload):
            seal.open(text, ADA)
    seal.open(seal.seal(ADA), ADA)
    assert len(seal._spent) == 1  # what has expired need not be remembered as used


def test_none_of_ten_thousand_forged_states_opens() -> None:
    seal, rng = StateSeal(b"k" * 32), random.Random(7)
    good = seal.seal(ADA, upstream="theirs")
    accepted = 0
    for _ in range(10_000):
        text = list(good)
        for _ in range(rng.randint(1, 3)):
            text[rng.randrange(len(text))] = rng.choice("ABCdef019-_=+/ \u00e9")
        forged = "".join(text)[: rng.choice([None, None, rng.randrange(len(good))])]
        if forged == good:
            continue
        try:
            seal.open(forged, ADA)
            accepted += 1
        except InvalidPayload:
            pass
    assert accepted == 0


class Away:
    """A database that fails until it is back, and keeps what it is told to do."""

    def __init__(self) -> None:
        self.is_back = False
        self.writes = 0

    async def read(self, work: Callable[[Any], Any]) -> Any:
        return {}, None

    async def write(self, work: Callable[[Any], Any]) -> Any:
        if not self.is_back:
            raise StorageFailed("gone")
        self.writes += 1
        return 0


@pytest.mark.anyio
async def test_records_and_habits_wait_for_a_database_that_is_away() -> None:
    db = Away()
    calls, usage = CallLog(db), Usage(db)  # pyright: ignore[reportArgumentType]
    version = Version("p", "box", 1, "tb_1:1", 0, "", Content(tools=()))
    calls.add(version, Principal("key", Role.agent, "p"), Name("up", "send"), "ok", 0.0, {"a": 1})
    usage.note(Owner("p", "box", "key"), "up.send")
    for part in (calls, usage):
        with pytest.raises(StorageFailed):
            await part.flush()
    db.is_back = True
    await calls.flush()
    await usage.flush()
    assert db.writes == 2
    await calls.flush()
    await usage.flush()
    assert db.writes == 2
