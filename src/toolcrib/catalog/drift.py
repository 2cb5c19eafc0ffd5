"""What follows from a change upstream: follow it, keep serving what was accepted, or hold the tool back.

The policy is the entry's; without one, harmless grades are followed and the rest waits for a person. Knows neither when
definitions were seen nor where they are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from toolcrib.catalog.changes import Change, Grade, compare, worst
from toolcrib.domain import JsonObject

Policy = Literal["default", "follow", "pin", "quarantine"]

FOLLOWED_BY_DEFAULT = Grade.optional_argument
INCOMPATIBLE = frozenset(
    # A loosened annotation counts: under `pin` the accepted hints are served, and clients decide by them what to ask.
    {Grade.required_argument, Grade.argument_removed, Grade.values, Grade.annotation, Grade.removed}
)


class Outcome(StrEnum):
    """What happens to the tool: the new definition is served, the accepted one is, or none until somebody accepts."""

    followed = "followed"
    pinned = "pinned"
    quarantined = "quarantined"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All changes of one tool, and what follows. `blocks` says that calls are refused although a text is served."""

    outcome: Outcome
    changes: tuple[Change, ...]
    blocks: bool = False

    @property
    def grade(self) -> Grade:
        return worst(self.changes)


def judge(before: JsonObject | None, after: JsonObject | None, policy: Policy = "default") -> Verdict | None:
    """The verdict on a tool's change; None when nothing that matters changed. None as definition: there is no tool."""
    changes = compare(before, after)
    if not changes:
        return None
    outcome = decide(worst(changes), policy)
    blocks = outcome is Outcome.pinned and any(change.grade in INCOMPATIBLE for change in changes)
    return Verdict(outcome, changes, blocks)


def decide(grade: Grade, policy: Policy) -> Outcome:
    match policy:
        case "follow":
            return Outcome.followed
        case "pin":
            return Outcome.pinned
        case "quarantine":
            return Outcome.quarantined
        case _:
            return Outcome.followed if grade <= FOLLOWED_BY_DEFAULT else Outcome.quarantined
