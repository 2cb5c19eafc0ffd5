"""Tool names as agents really write them: prefixed, quoted, in another case or with a typo.

Two names are the same when their letters and digits are, whatever separates them. The directory answers with names,
never with scores of their descriptions.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

_PREFIX = re.compile(r"___|__|[./:]")
_MAX_CHARS = 200
_MIN_TYPO_CHARS = 5
_MAX_TYPO_WORDS = 4
_MIN_SHARE = 0.25


def squash(name: str) -> str:
    """Only the letters and digits, caseless: `"GitHub___create-issue"` is githubcreateissue."""
    return "".join(letter for letter in name[:_MAX_CHARS].casefold() if letter.isalnum())


def endings(name: str) -> list[str]:
    """The squashed name whole, then without its first prefix, then without the second, and so on."""
    pieces = _PREFIX.split(name.strip()[:_MAX_CHARS])
    tails = (squash("".join(pieces[i:])) for i in range(min(len(pieces), 5)))
    return list(dict.fromkeys(tail for tail in tails if tail))


@dataclass(frozen=True)
class Directory:
    """Every name and its shorter forms."""

    forms: Mapping[str, tuple[str, ...]]

    @classmethod
    def build(cls, names: Iterable[tuple[str, str]]) -> "Directory":
        """A directory of (name, server) pairs."""
        return cls({}).changed(names, ())

    def changed(self, added: Iterable[tuple[str, str]], removed: Collection[str]) -> "Directory":
        """This directory with some names more and some fewer."""
        gone = frozenset(removed)
        forms = {
            form: rest
            for form, names in self.forms.items()
            if (rest := names if gone.isdisjoint(names) else tuple(n for n in names if n not in gone))
        }
        for name, server in added:
            for form in _forms(name, server):
                forms[form] = (*forms.get(form, ()), name)
        return Directory(forms)

    def named(self, query: str) -> tuple[str, ...]:
        """The tools that this query names, in full or without a prefix; nothing when it only resembles one."""
        if len(query) > _MAX_CHARS:
            return ()
        if whole := self.forms.get(squash(query)):
            return whole
        if any(letter.isspace() for letter in query.strip()):
            return ()
        tails = endings(query.strip("\"'`“”‘’«»()[]{}<>,;!? \t\r\n"))
        return next((self.forms[tail] for tail in tails if tail in self.forms), ())

    def misspelt(self, query: str) -> tuple[str, ...]:
        """The tools whose name is one slip away from this query, two for a long one."""
        words = len(query.split()) if len(query) <= _MAX_CHARS else _MAX_TYPO_WORDS + 1
        wanted = squash(query)
        if words > _MAX_TYPO_WORDS or len(wanted) < _MIN_TYPO_CHARS:
            return ()
        slips = 1 if len(wanted) < 12 or words > 1 else 2
        close = (form for form, share in self._grams.nearest(wanted, 8) if share > 0.5 and _within(form, wanted, slips))
        return tuple(dict.fromkeys(name for form in close for name in self.forms[form]))

    def near(self, name: str, limit: int, allowed: Callable[[str], bool] | None = None) -> list[str]:
        """Names that look like this one, nearest first."""
        ranked: dict[str, float] = {}
        for tail in endings(name):
            for form, share in self._grams.nearest(tail, 8 * limit + 24):
                for known in self.forms[form]:
                    if allowed is None or allowed(known):
                        ranked[known] = max(ranked.get(known, 0.0), share)
        return sorted(ranked, key=lambda known: (-ranked[known], known))[:limit]

    @cached_property
    def _grams(self) -> "_Grams":
        return _Grams(tuple(self.forms))


class _Grams:
    """Letter trigrams of all forms, for names that are nearly right."""

    def __init__(self, forms: tuple[str, ...]) -> None:
        self._forms = forms
        grams = [_trigrams(form) for form in forms]
        self._counts = np.array([len(g) for g in grams], np.float32)
        flat = np.concatenate(grams) if grams else np.empty(0, np.int64)
        order = np.argsort(flat, kind="stable")
        self._sorted = flat[order]
        self._owner = np.repeat(np.arange(len(forms), dtype=np.int32), [len(g) for g in grams])[order]

    def nearest(self, form: str, limit: int) -> list[tuple[str, float]]:
        """(form, Dice coefficient) pairs, best first, none that shares less than `_MIN_SHARE`."""
        wanted = _trigrams(form)
        starts = np.searchsorted(self._sorted, wanted).tolist()
        ends = np.searchsorted(self._sorted, wanted, "right").tolist()
        owners = np.concatenate([self._owner[start:end] for start, end in zip(starts, ends, strict=True)])
        share = 2 * np.bincount(owners, minlength=len(self._forms)) / (self._counts + len(wanted))
        close = np.flatnonzero(share >= _MIN_SHARE)
        best = close[np.argsort(-share[close], kind="stable")[:limit]]
        return [(self._forms[i], float(share[i])) for i in best]


def _trigrams(form: str) -> npt.NDArray[np.int64]:
    codes = np.array([0, *map(ord, form), 0], np.int64)
    return np.unique((codes[:-2] << 42) | (codes[1:-1] << 21) | codes[2:])


def _forms(name: str, server: str) -> set[str]:
    return {*endings(name), squash(server + name)} - {""}


def _within(left: str, right: str, slips: int) -> bool:
    """Whether at most this many letters were added, lost, changed or swapped."""
    if abs(len(left) - len(right)) > slips:
        return False
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        above, row = row, [i]
        for j, b in enumerate(right, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before = above
    return row[-1] <= slips
