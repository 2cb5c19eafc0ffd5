"""How two opinions become one order: a weighted sum of min-max scores.

The words' share follows how much of the query they explain: a query whose rare words all stand in one tool is decided
by words, a paraphrase by vectors. It knows arrays, not tools.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

# chosen by leaving one evaluation set out at a time; see docs/concepts/search.md
LEXICAL_SHARE = 0.25
EVIDENCE_SHARE = 0.2
# below this a vector without a single shared word is noise, not an answer
WORDLESS_COSINE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """The final scores with the parts they were made of."""

    scores: Floats
    words: Floats
    cosines: Floats | None
    share: float


def fuse(words: Floats, whole: float, cosines: Floats | None, visible: npt.NDArray[np.bool_] | None) -> Fused:
    """`whole` is what a document would score for holding all of the query; hidden slots count for nothing."""
    if visible is not None:
        words = np.where(visible, words, np.float32(0))
        cosines = None if cosines is None else np.where(visible, cosines, np.float32(-1))
    top = float(words.max(initial=0.0))
    lexical = _scaled(words, 1 / max(top, 1e-9))
    if cosines is None:
        return Fused(lexical.copy(), lexical, None, 1.0)
    share = LEXICAL_SHARE + EVIDENCE_SHARE * min(1.0, top / max(whole, 1e-9))
    dense = _spread(cosines)
    scores = _scaled(lexical, share) + _scaled(dense, 1 - share)
    scores[(words <= 0) & (cosines < WORDLESS_COSINE)] = 0
    return Fused(scores, lexical, cosines, share)


def _spread(cosines: Floats) -> Floats:
    """Cosines between 0 and 1, the best at 1; how far below zero an unrelated tool lies says nothing."""
    floor = max(0.0, float(cosines.min(initial=1.0)))
    span = max(float(cosines.max(initial=0.0)) - floor, 1e-9)
    return _scaled(np.maximum(cosines - np.float32(floor), np.float32(0)), 1 / span)


def _scaled(values: Floats, factor: float) -> Floats:
    return np.multiply(values, factor, dtype=np.float32)
