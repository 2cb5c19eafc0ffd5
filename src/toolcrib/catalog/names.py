"""What a tool is called outside, in each form, and which tool a called name means.

A name that we list always reaches the tool it was listed for; every other spelling is accepted when it can mean one
tool only. Knows labels and names; deliberately not what a tool is, where it lives or who may call it.
"""

from __future__ import annotations

import difflib
import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolcrib.catalog import text
from toolcrib.domain import NameForm

RESERVED = frozenset({"tool_search", "call_tool"})
MAX_NAME = 200
MAX_SAFE = 64

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_SPLIT = re.compile(r"[^a-z0-9]+|(?<=[a-z])(?=[0-9])")
_AMBIGUOUS = -1


@dataclass(frozen=True, slots=True)
class Name:
    """A tool's identity within a version. `label` is empty for entries that are one tool and carry its name."""

    label: str
    tool: str

    @property
    def dotted(self) -> str:
        return f"{self.label}.{self.tool}" if self.label else self.tool

    @property
    def triple(self) -> str:
        return f"{self.label}___{self.tool}" if self.label else self.tool


@dataclass(frozen=True, slots=True)
class Refusal:
    """A name that cannot be served, and why. The reason names both sides when there are two."""

    name: Name
    reason: str


def problem_with(name: Name) -> str | None:
    """Why this name could never be served, whatever else the version holds; None when it could."""
    dotted = name.dotted
    if not name.tool.strip():
        return "A tool without a name cannot be called."
    if len(dotted) > MAX_NAME:
        return f"The name '{text.escaped(dotted, 60)}' is {len(dotted)} characters long; the limit is {MAX_NAME}."
    if not text.is_visible(dotted) or "\n" in dotted or "\t" in dotted:
        return f"The name '{text.escaped(dotted)}' holds characters that cannot be seen."
    if not name.label and text.skeleton(name.tool) in RESERVED:
        return f"The name '{text.escaped(dotted)}' is reserved for the tool of that name that searches the toolbox."
    return None


def partition(names: Iterable[Name]) -> tuple[list[Name], list[Refusal]]:
    """The names that can stand beside each other, first come first served, and a refusal for each that cannot."""
    taken: dict[str, Name] = {}
    kept: list[Name] = []
    refused: list[Refusal] = []
    for name in names:
        reason = problem_with(name)
        shapes = {text.skeleton(name.dotted), text.skeleton(name.triple)}
        rival = next((taken[shape] for shape in shapes if shape in taken), None)
        if reason is None and rival is not None:
            reason = _collision(name, rival)
        if reason is not None:
            refused.append(Refusal(name, reason))
            continue
        taken.update(dict.fromkeys(shapes, name))
        kept.append(name)
    return kept, refused


def safe_names(names: Sequence[Name]) -> list[str]:
    """The `safe` form of each, unique among them and never a reserved word.

    All that collide are hashed, not only the later ones: a newcomer may cost a tool its short name, never take it over.
    """
    dotted = [name.dotted for name in names]
    plain = [_UNSAFE.sub("_", name) for name in dotted]
    hashed = {at for at, name in enumerate(plain) if len(name) > MAX_SAFE or name in RESERVED}
    while True:
        safe = [_hashed(plain[at], dotted[at]) if at in hashed else plain[at] for at in range(len(names))]
        counts = Counter(safe)
        colliding = {at for at, name in enumerate(safe) if counts[name] > 1} - hashed
        if not colliding:
            return safe
        hashed |= colliding


def _hashed(plain: str, dotted: str) -> str:
    return f"{plain[:55]}_{hashlib.sha256(dotted.encode()).hexdigest()[:8]}"


class Names:
    """Finds the position of a tool by any accepted form of its name. Built once, then only read."""

    __slots__ = ("_exact", "_loose", "_names", "_safe", "safe")

    def __init__(self, names: Sequence[Name]) -> None:
        """`names` must be what `partition` kept, in list order."""
        self._names = names
        self.safe: tuple[str, ...] = tuple(safe_names(names))
        self._safe = {name: at for at, name in enumerate(self.safe)}
        self._exact: dict[str, int] = {}
        self._loose: dict[str, int] = {}
        for at, name in enumerate(names):
            self._exact[name.dotted] = at
            self._exact[name.triple] = at
        for at, name in enumerate(names):
            for alias in self._aliases(at, name):
                self._loose[alias] = at if self._loose.get(alias, at) == at else _AMBIGUOUS

    def __len__(self) -> int:
        return len(self._names)

    def exposed(self, at: int, form: NameForm) -> str:
        name = self._names[at]
        if form == "dot":
            return name.dotted
        return name.triple if form == "triple" else self.safe[at]

    def find(self, called: str, form: NameForm = "dot") -> int | None:
        """The one tool that `called` means to somebody who was listed names in `form`; None when none or several."""
        if form == "safe" and (at := self._safe.get(called)) is not None:
            return at
        if (at := self._exact.get(called)) is not None:
            return at
        at = self._loose.get(called, _AMBIGUOUS)
        return None if at == _AMBIGUOUS else at

    def candidates(self, called: str) -> list[int]:
        """The tools that `called` could mean, when it could mean several; empty when it is simply unknown."""
        if self._loose.get(called) != _AMBIGUOUS:
            return []
        return [at for at, name in enumerate(self._names) if called in self._aliases(at, name)]

    def nearest(self, called: str, limit: int = 5) -> list[int]:
        """Tools somebody may have meant: first those that only miss their label, then by likeness."""
        wanted = called[:MAX_NAME].lower()
        bare = _after_label(wanted)
        missed = [at for at, name in enumerate(self._names) if name.tool.lower() in (wanted, bare)]
        if len(missed) >= limit:
            return missed[:limit]
        seen = set(missed)
        return missed + [at for at in self._alike(wanted, limit + len(missed)) if at not in seen][: limit - len(missed)]

    def _alike(self, wanted: str, limit: int) -> list[int]:
        """Cheap overlap of word parts and some letter triples over all, then real likeness over the best few."""
        parts = {part for part in _SPLIT.split(wanted) if len(part) > 1}
        step = max(1, len(wanted) // 10)
        needles = [wanted[at : at + 3] for at in range(0, max(1, len(wanted) - 2), step)] + 2 * sorted(parts)[:8]
        scored: list[tuple[int, int]] = []
        for at, name in enumerate(self._names):
            shared = sum(map(name.dotted.lower().__contains__, needles))
            if shared:
                scored.append((-shared, at))
        best = ((self._likeness(wanted, parts, at), at) for _, at in heapq.nsmallest(20, scored))
        closest = sorted((-likeness, at) for likeness, at in best if likeness >= 0.45)
        return [at for _, at in closest[:limit]]

    def _likeness(self, wanted: str, parts: set[str], at: int) -> float:
        name = self._names[at]
        ratio = max(
            difflib.SequenceMatcher(None, wanted, spelled.lower(), autojunk=False).ratio()
            for spelled in (name.dotted, name.tool)
        )
        own = {part for part in _SPLIT.split(name.dotted.lower()) if len(part) > 1}
        overlap = len(parts & own) / len(parts | own) if parts or own else 0.0
        return max(ratio, overlap)

    def _aliases(self, at: int, name: Name) -> set[str]:
        """Spellings beyond the listed ones. A reserved word or somebody's listed name never becomes an alias."""
        loose = {name.tool, self.safe[at], _UNSAFE.sub("_", name.dotted)}
        if name.label:
            loose |= {f"{name.label}__{name.tool}", f"{name.label}_{name.tool}"}
        return {alias for alias in loose if alias not in RESERVED and self._exact.get(alias, at) == at}


def _after_label(called: str) -> str:
    for separator in ("___", "__", "."):
        _, found, rest = called.partition(separator)
        if found and rest:
            return rest
    return called


def _collision(name: Name, rival: Name) -> str:
    mine, theirs = text.escaped(name.dotted), text.escaped(rival.dotted)
    if name.dotted == rival.dotted:
        both = "" if name == rival else f" (label '{name.label}' and label '{rival.label}')"
        return f"The name '{mine}' is taken{both}: two tools may not share it."
    return f"The name '{mine}' is confusable with '{theirs}', which was there first."
