"""The token table: a text is the weighted sum of its tokens' rows, one look-up per token and no network.

It lands in the transformer's space, so the same query vector meets tools embedded by the table (a bare install) or by
the transformer (`transformer`). It knows where its own file lies and nothing of the other tower's.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolcrib.search.documents import Document
from toolcrib.search.weights import Weights, open_weights
from toolcrib.search.wordpiece import WordPiece

Floats = npt.NDArray[np.float32]

QUERY_TOKENS = 62
TOOL_TOKENS = 126
# what a passage is cut to before tokens are counted; a token is rarely longer than this
_CHARS_PER_TOKEN = 16


class Table:
    """The rows themselves, and texts as weighted sums of them."""

    def __init__(self, weights: Weights) -> None:
        self.model_id = weights.model_id
        self.pieces = WordPiece(weights.text("vocabulary.txt").split("\n"))
        table = weights.arrays("table.npz")
        self._rows = table["rows"]
        self._out: Floats = table["out"].astype(np.float32)
        scale: Floats = table["scale"].reshape(-1)
        self._query_weight: Floats = scale * table["query_weight"]
        self._tool_weight: Floats = scale * table["tool_weight"]

    def query(self, text: str) -> Floats | None:
        """The query's unit vector, or None where not one of its tokens is known."""
        ids = self._known(text, QUERY_TOKENS)
        return self._unit((self._query_weight[ids] @ self._rows[ids].astype(np.float32))[None])[0] if len(ids) else None

    def tools(self, texts: Sequence[str]) -> Floats:
        """One unit row per text; a row of zeros for a text without a known token."""
        pooled = np.zeros((len(texts), self._rows.shape[1]), np.float32)
        for row, text in zip(pooled, texts, strict=True):
            if len(ids := self._known(text, TOOL_TOKENS)):
                row[:] = self._tool_weight[ids] @ self._rows[ids].astype(np.float32)
        return self._unit(pooled)

    def _known(self, text: str, limit: int) -> list[int]:
        ids = self.pieces.ids(text[: limit * _CHARS_PER_TOKEN], limit)
        return [i for i in ids if i != self.pieces.unknown]

    def _unit(self, pooled: Floats) -> Floats:
        mapped = _normal(pooled) @ self._out
        return _normal(mapped)


class StaticEncoder:
    """The table on both sides: what a bare install searches with."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.model_id = f"{table.model_id}/table"

    def embed_query(self, query: str) -> Floats | None:
        """A look-up per token."""
        return self._table.query(query)

    def embed_tools(self, tools: Sequence[Document]) -> Floats:
        """The same for passages, with the weights that tools were trained with."""
        return self._table.tools([tool.passage() for tool in tools])


_SHIPPED = Path(__file__).parent / "table"


def table_is_shipped() -> bool:
    """Whether this install holds a table; a source tree before its first training does not."""
    return (_SHIPPED / "weights.json").exists()


@lru_cache(maxsize=1)
def shipped_table() -> Table:
    """The table of this install, read and checked once."""
    return Table(open_weights(_SHIPPED))


def _normal(rows: Floats) -> Floats:
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows / np.maximum(lengths, np.float32(1e-9))
