"""Field-weighted BM25 over numpy postings.

Each posting holds its finished BM25F weight. Field lengths are normalised by fixed typical lengths instead of corpus
averages, so a document's weights do not depend on its neighbours: one changed tool is a few array inserts, and only
the inverse document frequency is worked out at query time. It knows terms and slots, not names, vectors or ranking.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcrib.search.documents import FIELDS, Document
from toolcrib.search.words import terms

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

_K1 = 1.2
_B = 0.6
_MAX_FIELD_TERMS = 400
_MAX_QUERY_TERMS = 48

# weight and typical length in terms; the sets of the evaluation hardly tell neighbouring values apart
_FIELD = {
    "name": (2.5, 4.0),
    "server": (0.8, 3.0),
    "keywords": (2.5, 8.0),
    "examples": (1.0, 24.0),
    "description": (1.0, 24.0),
    "parameters": (0.4, 8.0),
    "parameter_text": (0.4, 32.0),
}


@dataclass(frozen=True, slots=True)
class Match:
    """How one query term met one document."""

    term: str
    fields: tuple[str, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One term of a query that the index knows, and what a document earns for holding it."""

    term: str
    row: int
    weight: float


def weigh(document: Document) -> dict[str, tuple[float, int]]:
    """Each term of a document with its BM25F weight and the bits of the fields it stands in."""
    mass: Counter[str] = Counter()
    bits: Counter[str] = Counter()
    for bit, (field, text) in enumerate(document.texts()):
        if not text:
            continue
        found = terms(text, keep_stop_words=field == "name")
        weight, typical = _FIELD[field]
        share = weight / (1 - _B + _B * len(found) / typical)
        for term, count in Counter(found[:_MAX_FIELD_TERMS]).items():
            mass[term] += share * count  # pyright: ignore[reportArgumentType]
            bits[term] |= 1 << bit
    return {term: (tf * (_K1 + 1) / (tf + _K1), bits[term]) for term, tf in mass.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Term rows in one block of arrays: row r is `starts[r]:starts[r + 1]`, slots ascending."""

    rows: Mapping[str, int]
    starts: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int32]
    weights: Floats
    fields: npt.NDArray[np.uint8]
    size: int

    @classmethod
    def build(cls, documents: Iterable[Document]) -> "Postings":
        """The postings of these documents, slots numbered as they come."""
        empty = cls({}, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.uint8), 0)
        return empty.changed(np.empty(0, np.bool_), list(documents))

    def changed(self, kept: Flags, added: Sequence[Document]) -> "Postings":
        """These postings with only the kept slots, renumbered without gaps, and the added documents after them."""
        alive = kept[self.slots]
        starts = np.concatenate(([0], np.cumsum(alive)))[self.starts]
        renumbered = (np.cumsum(kept) - 1).astype(np.int32)
        slots = renumbered[self.slots[alive]]
        remaining = int(kept.sum())
        rows, at = dict(self.rows), (array := _Arrivals()).row
        for offset, document in enumerate(added):
            for term, (weight, bits) in weigh(document).items():
                at.append(rows.setdefault(term, len(rows)))
                array.add(remaining + offset, weight, bits)
        return self._merged(
            rows, starts, (slots, self.weights[alive], self.fields[alive]), array, remaining + len(added)
        )

    @staticmethod
    def _merged(
        rows: Mapping[str, int],
        starts: npt.NDArray[np.int64],
        old: tuple[npt.NDArray[np.int32], Floats, npt.NDArray[np.uint8]],
        new: "_Arrivals",
        size: int,
    ) -> "Postings":
        starts = np.concatenate((starts, np.full(len(rows) + 1 - len(starts), starts[-1])))
        row = np.array(new.row, np.int64)
        order = np.argsort(row, kind="stable")
        where = starts[row[order] + 1]
        slots, weights, fields = old
        return Postings(
            rows,
            starts + np.concatenate(([0], np.cumsum(np.bincount(row, minlength=len(rows))))),
            np.insert(slots, where, np.array(new.slot, np.int32)[order]),
            np.insert(weights, where, np.array(new.weight, np.float32)[order]),
            np.insert(fields, where, np.array(new.bits, np.uint8)[order]),
            size,
        )

    def understood(self, query_terms: Sequence[str]) -> list[QueryTerm]:
        """The query's terms that stand here, the rarest first, with what each is worth."""
        known: list[QueryTerm] = []
        for term, count in Counter(query_terms).items():
            row = self.rows.get(term)
            holders = 0 if row is None else int(self.starts[row + 1] - self.starts[row])
            if row is not None and holders:
                known.append(QueryTerm(term, row, self._rarity(holders) * (1 + math.log(count))))
        known.sort(key=lambda term: -term.weight)
        return known[:_MAX_QUERY_TERMS]

    def scores(self, query: Sequence[QueryTerm]) -> Floats:
        """The BM25F score of every slot."""
        scores = np.zeros(self.size, np.float32)
        for term in query:
            start, end = self.starts[term.row], self.starts[term.row + 1]
            scores[self.slots[start:end]] += self.weights[start:end] * np.float32(term.weight)
        return scores

    def matches(self, query: Sequence[QueryTerm], slot: int) -> list[Match]:
        """Which of the query's terms this slot holds, and where, heaviest first."""
        found: list[Match] = []
        for term in query:
            start, end = int(self.starts[term.row]), int(self.starts[term.row + 1])
            at = bisect_left(self.slots, slot, start, end)  # quicker than numpy's for a single number
            if at < end and self.slots[at] == slot:
                bits = int(self.fields[at])
                fields = tuple(field for bit, field in enumerate(FIELDS) if bits >> bit & 1)
                found.append(Match(term.term, fields, term.weight * float(self.weights[at])))
        return sorted(found, key=lambda match: -match.weight)

    def _rarity(self, holders: int) -> float:
        return math.log1p((self.size - holders + 0.5) / (holders + 0.5))


class _Arrivals:
    """Postings on their way in, column by column."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.slot: list[int] = []
        self.weight: list[float] = []
        self.bits: list[int] = []

    def add(self, slot: int, weight: float, bits: int) -> None:
        self.slot.append(slot)
        self.weight.append(weight)
        self.bits.append(bits)
