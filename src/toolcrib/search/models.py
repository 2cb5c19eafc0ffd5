"""Which encoder an index gets when nobody chose one: the best that this install holds.

It only chooses; how each model works is in `static` and `transformer`, and no weight is read before it is chosen.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from toolcrib.search import transformer
from toolcrib.search.dense import Encoder
from toolcrib.search.documents import Document
from toolcrib.search.static import StaticEncoder, shipped_table, table_is_shipped


class WordsOnly:
    """No vectors: ranking by words alone."""

    model_id = "words-only"

    def embed_query(self, query: str) -> None:
        """Nothing to say about any query."""
        return

    def embed_tools(self, tools: Sequence[Document]) -> npt.NDArray[np.float32]:
        """Rows of no length."""
        return np.empty((len(tools), 0), np.float32)


@lru_cache(maxsize=1)
def best_installed() -> Encoder:
    """The strongest encoder whose queries cost a look-up: two towers, else the table alone."""
    if not table_is_shipped():
        return WordsOnly()
    return two_towers() if transformer.is_installed() else static_table()


@lru_cache(maxsize=1)
def quickest() -> Encoder:
    """The strongest encoder that embeds tools at once: the table, else nothing but words."""
    return static_table() if table_is_shipped() else WordsOnly()


def static_table() -> Encoder:
    """The token table on both sides; part of every install."""
    return StaticEncoder(shipped_table())


def two_towers() -> Encoder:
    """Tools by the transformer, queries by the table; needs the server's extra."""
    table = shipped_table()
    return transformer.TwoTowers(transformer.shipped_transformer(table), table)


def full_transformer() -> Encoder:
    """The transformer on both sides, some milliseconds a query; needs the server's extra."""
    table = shipped_table()
    return transformer.FullTransformer(transformer.shipped_transformer(table), table)
