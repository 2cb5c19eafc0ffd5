"""Which tools a principal uses often enough to be shown without a search: pure rules over habits and epochs.

The set for an epoch is a function of what happened before that epoch began, so it cannot change inside one: prompt
caches stay good. Counts decay by half every week; a tool comes in above one threshold and leaves below a lower one.
Knows neither storage nor clocks: time comes in as an epoch number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

EPOCH_S = 3600
HALF_LIFE_EPOCHS = 7 * 24
CAP = 5
ENTER_AT = 2.0
LEAVE_BELOW = 1.0
REPLACE_ABOVE = 1.25  # a challenger must be this much better than the weakest of a full set
WARM_CALLS, WARM_EPOCHS, WARM_IN_ONE = 3, 2, 5


@dataclass(frozen=True, slots=True)
class Habit:
    """Successful calls of one tool: `calls` in `epoch`, and the rest as they stood when that epoch began."""

    epoch: int
    calls: int = 0
    score: float = 0.0
    total: int = 0
    epochs: int = 0
    best: int = 0


@dataclass(frozen=True, slots=True)
class Pins:
    """The tools pinned for one epoch, each with the calls that earned it its place."""

    epoch: int
    tools: Mapping[str, int]


def epoch_of(now: float) -> int:
    return int(now // EPOCH_S)


def used(habit: Habit | None, epoch: int, calls: int = 1) -> Habit:
    """The habit after more calls. A clock that went back counts into the latest epoch known."""
    if habit is None:
        return Habit(epoch, calls)
    current = as_of(habit, epoch)
    return Habit(current.epoch, current.calls + calls, current.score, current.total, current.epochs, current.best)


def as_of(habit: Habit, epoch: int) -> Habit:
    """The habit seen from the beginning of an epoch: earlier calls folded in and decayed."""
    if epoch <= habit.epoch:
        return habit
    decay = 0.5 ** ((epoch - habit.epoch) / HALF_LIFE_EPOCHS)
    return Habit(
        epoch=epoch,
        calls=0,
        score=(habit.score + habit.calls) * decay,
        total=habit.total + habit.calls,
        epochs=habit.epochs + (1 if habit.calls else 0),
        best=max(habit.best, habit.calls),
    )


def choose(previous: Pins | None, habits: Mapping[str, Habit], epoch: int) -> Pins:
    """The pins of an epoch from those before it and from what was done before it began."""
    seen = {tool: as_of(habit, epoch) for tool, habit in habits.items()}
    held: Mapping[str, int] = previous.tools if previous is not None else {}
    staying = [t for t in held if t in seen and seen[t].score >= LEAVE_BELOW]
    coming = [t for t, h in seen.items() if t not in held and h.score >= ENTER_AT and _is_warm(h)]
    chosen = _ranked(staying, seen)[:CAP]
    for tool in _ranked(coming, seen):
        if len(chosen) < CAP:
            chosen.append(tool)
            continue
        weakest = _ranked(chosen, seen)[-1]
        if seen[tool].score > seen[weakest].score * REPLACE_ABOVE:
            chosen[chosen.index(weakest)] = tool
    return Pins(epoch, {tool: seen[tool].total for tool in sorted(chosen)})


def worth_keeping(habit: Habit, epoch: int) -> bool:
    """Whether a habit still says anything; what has faded is forgotten."""
    return as_of(habit, epoch).score >= 0.05 or habit.epoch >= epoch


def _is_warm(habit: Habit) -> bool:
    return habit.best >= WARM_IN_ONE or (habit.total >= WARM_CALLS and habit.epochs >= WARM_EPOCHS)


def _ranked(tools: Iterable[str], habits: Mapping[str, Habit]) -> list[str]:
    return sorted(tools, key=lambda tool: (-habits[tool].score, tool))
