"""How two opinions become one order: a weighted sum of min-max scores.

The words' share grows with the words there are. A short request is a paraphrase that vectors read best; a long one
names many things, which words keep apart and one vector blurs. It knows arrays, not tools.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

# chosen by leaving one evaluation set out at a time; see docs/concepts/search.md
SHORT_TERMS, SHORT_SHARE = 5, 0.3
LONG_TERMS, LONG_SHARE = 25, 0.7
# below this a vector without a single shared word is noise, not an answer
WORDLESS_COSINE = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """The final scores with the parts they were made of."""

    scores: Floats
    words: Floats
    cosines: Floats | None
    share: float


def fuse(words: Floats, terms: int, cosines: Floats | None, visible: npt.NDArray[np.bool_] | None) -> Fused:
    """One score per slot from its words' and its vector's, for a query of so many terms; hidden slots get nothing."""
    if visible is not None:
        words = np.where(visible, words, np.float32(0))
        cosines = None if cosines is None else np.where(visible, cosines, np.float32(-1))
    lexical = _scaled(words, 1 / max(float(words.max(initial=0.0)), 1e-9))
    if cosines is None:
        return Fused(lexical.copy(), lexical, None, 1.0)
    share = words_share(terms)
    scores = _scaled(lexical, share) + _scaled(_spread(cosines), 1 - share)
    scores[(words <= 0) & (cosines < WORDLESS_COSINE)] = 0
    return Fused(scores, lexical, cosines, share)


def words_share(terms: int) -> float:
    """How much the words count in a query of so many terms."""
    long = (terms - SHORT_TERMS) / (LONG_TERMS - SHORT_TERMS)
    return SHORT_SHARE + (LONG_SHARE - SHORT_SHARE) * min(1.0, max(0.0, long))


def _spread(cosines: Floats) -> Floats:
    """Cosines between 0 and 1, the best at 1; how far below zero an unrelated tool lies says nothing."""
    floor = max(0.0, float(cosines.min(initial=1.0)))
    span = max(float(cosines.max(initial=0.0)) - floor, 1e-9)
    return _scaled(np.maximum(cosines - np.float32(floor), np.float32(0)), 1 / span)


def _scaled(values: Floats, factor: float) -> Floats:
    return np.multiply(values, factor, dtype=np.float32)
