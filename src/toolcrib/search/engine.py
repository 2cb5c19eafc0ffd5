"""ToolIndex: tools in, ranked names out.

An index is a value: a change gives a new one that shares what did not change, so a search never waits for a build and
never sees half of one. It knows nothing of rights, toolboxes or MCP; who may see what comes in as `allowed`.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolcrib.search import storing
from toolcrib.search.dense import Encoder, VectorCache, Vectors, embed
from toolcrib.search.documents import Document, ToolDefinition, read_document
from toolcrib.search.fusion import Fused, fuse
from toolcrib.search.lexical import Postings, QueryTerm
from toolcrib.search.models import best_installed
from toolcrib.search.names import Directory
from toolcrib.search.words import query_terms, spelled

Allowed = Callable[[str], bool] | Container[str]
Flags = npt.NDArray[np.bool_]

_MAX_QUERY_CHARS = 4_000
_NAMED, _MISSPELT = 2.0, 1.0
_NO_EVIDENCE = 1e-6
_FEW = 32


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a tool was found: the terms it shares with the query, where they stand, and what each signal said."""

    terms: tuple[str, ...]
    fields: tuple[str, ...]
    signals: dict[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Hit:
    """A found tool. Scores order one answer (a named tool scores above 1); they do not compare across queries."""

    name: str
    score: float
    _why: Callable[[], Explanation]

    def explain(self) -> Explanation:
        """Worked out when asked, since most hits never are."""
        return self._why()


@dataclass(frozen=True)
class _Reading:
    """What the index made of one query."""

    query: str
    terms: list[QueryTerm]
    fused: Fused
    boosts: dict[int, float]

    @cached_property
    def words(self) -> dict[str, str]:
        return spelled(self.query)

    def signals(self, slot: int) -> dict[str, float]:
        said = {"words": float(self.fused.words[slot]), "words_share": self.fused.share}
        if self.fused.cosines is not None:
            said["cosine"] = float(self.fused.cosines[slot])
        if slot in self.boosts:
            said["name"] = self.boosts[slot]
        return said


@dataclass(frozen=True, slots=True, eq=False)
class ToolIndex:
    """A searchable, immutable set of tools."""

    names: tuple[str, ...]
    _documents: tuple[Document, ...]
    _slots: dict[str, int]
    _postings: Postings
    _directory: Directory
    _vectors: Vectors
    _encoder: Encoder
    _cache: VectorCache | None = None
    _visible: Flags | None = None

    @classmethod
    def build(
        cls, tools: Iterable[ToolDefinition], *, encoder: Encoder | None = None, cache: VectorCache | None = None
    ) -> "ToolIndex":
        """An index of these tools; blocks until the vectors of the encoder (else the best installed) are there."""
        documents = tuple(read_document(tool) for tool in tools)
        encoder = encoder or best_installed()
        return cls(
            tuple(document.name for document in documents),
            documents,
            _numbered(documents),
            Postings.build(documents),
            Directory.build((document.name, document.server) for document in documents),
            Vectors(encoder.model_id, embed(encoder, documents, cache)),
            encoder,
            cache,
        )

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._slots

    @property
    def model_id(self) -> str:
        """Whose vectors these are."""
        return self._vectors.model_id

    def search(self, query: str, limit: int = 5, *, allowed: Allowed | None = None) -> list[Hit]:
        """The best tools for this request among the allowed ones, best first; nothing for an empty query."""
        index = self if allowed is None else self.only(allowed)
        query = query[:_MAX_QUERY_CHARS]
        if limit < 1 or not self.names or not query.strip():
            return []
        reading = index._read(query)
        scores = reading.fused.scores
        return [
            Hit(self.names[slot], float(scores[slot]), lambda slot=slot: index._explain(reading, slot))
            for slot in _best(scores, limit)
        ]

    def only(self, allowed: Allowed) -> "ToolIndex":
        """The same index through narrower eyes; worth keeping where one principal searches often."""
        may_see = allowed if callable(allowed) else allowed.__contains__
        visible = np.fromiter((may_see(name) for name in self.names), np.bool_, len(self.names))
        return replace(self, _visible=visible if self._visible is None else visible & self._visible)

    def near_names(self, name: str, limit: int = 5) -> list[str]:
        """Known names that look like this one, for the answer to a name that nobody knows."""
        return self._directory.near(name, limit, self._sees)

    def with_changes(self, added: Iterable[ToolDefinition], removed: Iterable[str] = ()) -> "ToolIndex":
        """This index with these tools added, or replaced where the name is known, and these names gone."""
        arrivals = tuple(read_document(tool) for tool in added)
        _numbered(arrivals)
        gone = {*removed, *(document.name for document in arrivals)} & self._slots.keys()
        kept = np.ones(len(self.names), np.bool_)
        kept[[self._slots[name] for name in gone]] = False
        documents = (
            (*(d for d in self._documents if d.name not in gone), *arrivals) if gone else self._documents + arrivals
        )
        return replace(
            self,
            names=tuple(document.name for document in documents),
            _documents=documents,
            _slots=_numbered(documents),
            _postings=self._postings.changed(kept, arrivals),
            _directory=self._directory.changed(((d.name, d.server) for d in arrivals), gone),
            _vectors=self._vectors.changed(kept, embed(self._encoder, arrivals, self._cache)),
            _visible=None
            if self._visible is None
            else np.concatenate((self._visible[kept], np.ones(len(arrivals), np.bool_))),
        )

    def with_vectors(self, encoder: Encoder, *, pause: Callable[[], None] | None = None) -> "ToolIndex":
        """The same tools under another encoder; vectors of the same model are kept. `pause` may raise to stop it."""
        same = encoder.model_id == self._vectors.model_id
        rows = self._vectors.rows if same else embed(encoder, self._documents, self._cache, pause)
        return replace(self, _vectors=Vectors(encoder.model_id, rows), _encoder=encoder)

    def save(self, path: str | Path) -> None:
        """Writes the index to one file, whole or not at all."""
        storing.write(Path(path), self._documents, self._postings, self._vectors)

    @classmethod
    def load(cls, path: str | Path, *, encoder: Encoder | None = None, cache: VectorCache | None = None) -> "ToolIndex":
        """A saved index; its vectors are used if they are this encoder's (else the best installed one's)."""
        documents, postings, vectors = storing.read(Path(path))
        encoder = encoder or best_installed()
        if vectors.model_id != encoder.model_id:
            vectors = Vectors(encoder.model_id, embed(encoder, documents, cache))
        directory = Directory.build((document.name, document.server) for document in documents)
        names = tuple(document.name for document in documents)
        return cls(names, documents, _numbered(documents), postings, directory, vectors, encoder, cache)

    def _read(self, query: str) -> _Reading:
        asked = query_terms(query)
        terms = self._postings.understood(asked)
        words = self._postings.scores(terms)
        vector = self._encoder.embed_query(query)
        fused = fuse(words, len(asked), None if vector is None else self._vectors.cosines(vector), self._visible)
        boosts = self._named(query)
        for slot, boost in boosts.items():
            fused.scores[slot] += boost
        return _Reading(query, terms, fused, boosts)

    def _named(self, query: str) -> dict[int, float]:
        """Slots that the query names, with what that is worth; a named tool stands before every other."""
        if named := [name for name in self._directory.named(query) if self._sees(name)]:
            return {self._slots[name]: _NAMED for name in named}
        return {self._slots[name]: _MISSPELT for name in self._directory.misspelt(query) if self._sees(name)}

    def _sees(self, name: str) -> bool:
        return self._visible is None or bool(self._visible[self._slots[name]])

    def _explain(self, reading: _Reading, slot: int) -> Explanation:
        matches = self._postings.matches(reading.terms, slot)
        fields = dict.fromkeys(field for match in matches for field in match.fields)
        words = tuple(reading.words[match.term] for match in matches)
        return Explanation(words, tuple(fields), reading.signals(slot))


def _numbered(documents: tuple[Document, ...]) -> dict[str, int]:
    slots = {document.name: slot for slot, document in enumerate(documents)}
    if len(slots) != len(documents):
        seen: set[str] = set()
        twice = next(d.name for d in documents if d.name in seen or seen.add(d.name))
        raise ValueError(f"two tools are named {twice!r}; names in one index must be unique")
    return slots


def _best(scores: npt.NDArray[np.float32], limit: int) -> list[int]:
    """Slots by falling score, ties by slot, those without any evidence left out."""
    if limit > _FEW:
        slots = np.flatnonzero(scores > _NO_EVIDENCE)
        return [int(slot) for slot in slots[np.argsort(-scores[slots], kind="stable")[:limit]]]
    # A few passes over the scores beat partitioning them, which many equal scores make ten times slower.
    left, found = scores.copy(), list[int]()
    while len(found) < limit and len(left) and left[slot := int(left.argmax())] > _NO_EVIDENCE:
        found.append(slot)
        left[slot] = -1
    return found
