"""Auto-pinning as a state machine: real storage, an injected clock, two principals who must never mix."""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from toolcrib.storage import migrations
from toolcrib.storage.records_habits import Owner
from toolcrib.storage.sqlite import SqliteDatabase
from toolcrib.toolboxes.autopin import (
    CAP,
    EPOCH_S,
    HALF_LIFE_EPOCHS,
    LEAVE_BELOW,
    WARM_CALLS,
    WARM_IN_ONE,
    Habit,
    Pins,
    as_of,
    choose,
    used,
)
from toolcrib.toolboxes.usage import Usage

PRINCIPALS = ("ann", "bob")
TOOLS = [f"s.{name}" for name in "abcdefgh"]


class AutoPinning(RuleBasedStateMachine):
    """Calls, lists, hours passing, restarts and erasures in any order."""

    moments = Bundle("moments")

    @initialize()
    def open(self) -> None:
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.now = 1_000 * EPOCH_S + 1.0
        self.calls: dict[str, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
        self.shown: dict[str, tuple[int, dict[str, int]]] = {}
        self.db: SqliteDatabase = self.run(self._open_database())
        self.usage = Usage(self.db, clock=lambda: self.now)

    async def _open_database(self) -> SqliteDatabase:
        db = SqliteDatabase(Path(self.folder.name) / "crib.sqlite3")
        await db.write(migrations.apply_pending)
        await db.write(
            lambda tx: tx.run(
                "INSERT INTO toolboxes (project, name, id, created_at, updated_at, default_version)"
                " VALUES ('default', 'box', 'tb_1', 0, 0, 1)"
            )
        )
        return db

    def run(self, awaitable: Any) -> Any:
        return self.runner.run(awaitable)

    @property
    def epoch(self) -> int:
        return int(self.now // EPOCH_S)

    @rule(who=st.sampled_from(PRINCIPALS), tool=st.sampled_from(TOOLS), times=st.integers(1, 8))
    def call(self, who: str, tool: str, times: int) -> None:
        for _ in range(times):
            self.usage.note(Owner("default", "box", who), tool)
        self.calls[who][tool][self.epoch] += times

    @rule(hours=st.sampled_from([0.1, 0.5, 1, 2, 24, 24 * 10, 24 * 40]))
    def time_passes(self, hours: float) -> None:
        self.now += hours * 3600

    @rule(who=st.sampled_from(PRINCIPALS))
    def look_at_the_list(self, who: str) -> None:
        pins = self.run(self.usage.pins(Owner("default", "box", who)))
        known_epoch, known = self.shown.get(who, (-1, {}))
        if known_epoch == self.epoch:
            assert dict(pins.tools) == known, "the list changed inside an epoch"
        self.shown[who] = (self.epoch, dict(pins.tools))
        assert len(pins.tools) <= CAP
        for tool in pins.tools:
            before = {e: n for e, n in self.calls[who][tool].items() if e < self.epoch}
            assert sum(before.values()) >= WARM_CALLS, "pinned without warm-up (or by somebody else's calls)"
            score = sum(n * 0.5 ** ((self.epoch - e) / HALF_LIFE_EPOCHS) for e, n in before.items())
            assert score >= LEAVE_BELOW - 1e-6, "a stale tool stayed"

    @rule(who=st.sampled_from(PRINCIPALS))
    def erase(self, who: str) -> None:
        self.run(self.usage.erase(Owner("default", "box", who)))
        self.calls.pop(who, None)
        self.shown.pop(who, None)
        assert self.run(self.usage.habits(Owner("default", "box", who))) == {}
        assert not self.run(self.usage.pins(Owner("default", "box", who))).tools
        self.shown[who] = (self.epoch, {})

    @rule()
    def restart(self) -> None:
        self.run(self.usage.flush())
        self.usage = Usage(self.db, clock=lambda: self.now)

    @precondition(lambda self: hasattr(self, "usage"))
    @invariant()
    def nothing_is_known_of_tools_never_called(self) -> None:
        for who in PRINCIPALS:
            habits = self.run(self.usage.habits(Owner("default", "box", who)))
            assert set(habits) <= set(self.calls[who])

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.run(self.db.close())
            self.runner.close()
            self.folder.cleanup()


AutoPinning.TestCase.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
test_auto_pinning = AutoPinning.TestCase


def pinned_after(habits: dict[str, Habit], epoch: int, previous: Pins | None = None) -> set[str]:
    return set(choose(previous, habits, epoch).tools)


def test_five_calls_in_one_epoch_pin_from_the_next_on() -> None:
    habit = used(None, 10, WARM_IN_ONE)
    assert pinned_after({"t": habit}, 10) == set()
    assert pinned_after({"t": habit}, 11) == {"t"}


def test_three_calls_on_two_epochs_pin_and_on_one_do_not() -> None:
    assert pinned_after({"t": used(None, 10, 3)}, 11) == set()
    assert pinned_after({"t": used(used(None, 10, 2), 11, 1)}, 12) == {"t"}


def test_a_pinned_tool_stays_between_the_thresholds_and_a_new_one_does_not_come_in() -> None:
    fading = as_of(used(None, 0, 5), HALF_LIFE_EPOCHS * 2)  # 5 → 1.25: below 2, above 1
    at = HALF_LIFE_EPOCHS * 2
    assert pinned_after({"t": fading}, at) == set()
    assert pinned_after({"t": fading}, at, Pins(at - 1, {"t": 5})) == {"t"}
    assert pinned_after({"t": fading}, at * 2, Pins(at - 1, {"t": 5})) == set()


def test_a_challenger_must_be_clearly_better_than_the_weakest_of_a_full_set() -> None:
    habits = {f"t{i}": used(None, 1, 10) for i in range(CAP)}
    held = choose(None, habits, 2)
    slightly = {**habits, "new": used(None, 1, 12)}
    clearly = {**habits, "new": used(None, 1, 13)}
    assert "new" not in pinned_after(slightly, 2, held)
    assert "new" in pinned_after(clearly, 2, held)


@pytest.mark.parametrize("order", [1, -1])
def test_the_choice_does_not_depend_on_the_order_of_calls(order: int) -> None:
    habits = {t: used(None, 1, 5 + i % 3) for i, t in list(enumerate(TOOLS))[::order]}
    assert list(choose(None, habits, 2).tools) == sorted(choose(None, habits, 2).tools)
    assert pinned_after(habits, 2) == pinned_after(dict(sorted(habits.items())), 2)
