"""Vectors beside the words: what an encoder is, and how tool vectors are kept, cached and compared.

An encoder may treat queries and tools differently (two towers) as long as both land in one space. Nothing here knows a
particular model, and nothing here touches a file or the network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from toolcrib.search.documents import Document

Floats = npt.NDArray[np.float32]
_PART = 64


class Encoder(Protocol):
    """Turns queries and tools into vectors of one space."""

    @property
    def model_id(self) -> str:
        """Names the space of the tool vectors; vectors with different ids are never compared."""
        ...

    def embed_query(self, query: str) -> Floats | None:
        """One unit vector, or None where the model has nothing to say about this text."""
        ...

    def embed_tools(self, tools: Sequence[Document]) -> Floats:
        """One unit row per tool."""
        ...


class VectorCache(Protocol):
    """Remembers tool vectors by model and content, so that no text is embedded twice."""

    def get(self, model_id: str, content_hash: str) -> Floats | None: ...

    def put(self, model_id: str, content_hash: str, vector: Floats) -> None: ...


class MemoryCache:
    """The simplest cache: a dictionary, unbounded."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, str], Floats] = {}

    def get(self, model_id: str, content_hash: str) -> Floats | None:
        return self._vectors.get((model_id, content_hash))

    def put(self, model_id: str, content_hash: str, vector: Floats) -> None:
        self._vectors[model_id, content_hash] = vector

    def __len__(self) -> int:
        return len(self._vectors)


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """One unit row per slot, all of one model."""

    model_id: str
    rows: Floats

    def changed(self, kept: npt.NDArray[np.bool_], added: Floats) -> "Vectors":
        """Only the kept rows, then the added ones."""
        return Vectors(self.model_id, np.concatenate((self.rows[kept], added)) if len(added) else self.rows[kept])

    def cosines(self, query: Floats) -> Floats:
        """How near each slot is to the query."""
        # not `@`: BLAS shares this out to threads, and on a busy machine waiting for them took 8 ms instead of 0.6
        return np.einsum("ij,j->i", self.rows, query)


def embed(
    encoder: Encoder, documents: Sequence[Document], cache: VectorCache | None, pause: Callable[[], None] | None = None
) -> Floats:
    """The documents' vectors, from the cache where it has them. `pause` runs between parts and may raise to stop."""
    hashes = [document.content_hash() for document in documents] if cache is not None else []
    rows = (
        [cache.get(encoder.model_id, content) for content in hashes] if cache is not None else [None] * len(documents)
    )
    missing = [i for i, row in enumerate(rows) if row is None]
    step = _PART if pause is not None else max(1, len(missing))
    for start in range(0, len(missing), step):
        part = missing[start : start + step]
        for i, row in zip(part, _embedded(encoder, [documents[i] for i in part]), strict=True):
            rows[i] = row
            if cache is not None:
                cache.put(encoder.model_id, hashes[i], row)
        if pause is not None:
            pause()
    return np.stack([row for row in rows if row is not None]) if rows else _embedded(encoder, ())


def _embedded(encoder: Encoder, documents: Sequence[Document]) -> Floats:
    return np.ascontiguousarray(encoder.embed_tools(documents), np.float32)
