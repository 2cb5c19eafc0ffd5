"""Text to terms: split identifiers, drop stop words, stem, and cut unspaced scripts into bigrams.

Documents and queries go through the same door, so a term means the same on both sides. It does not know fields, weights
or tools.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from toolcrib.search.stemming import stem

MAX_CHARS = 65_536

_STOP_TEXT = """
a about above after again against all also am an and any are aren as at be because been before being below between both
but by can cannot could d did didn do does doesn doing don down during each etc few for from further had has have having
he her here hers him his how i id if im in into is isn it its itself ive just let lets ll m may me might more most must
my myself no nor not of off on once only or other our ours out over own per re s same shall she should so some such t
than that the their theirs them themselves then there these they this those through to too under until up us ve very via
was we were what when where which while who whom why will with would you your yours yourself
please want need help like looking able know tell give show
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Japanese, Chinese
)
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_ANY_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_UNSPACED_WORD = re.compile(rf"[{_UNSPACED}]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


def terms(text: str, *, keep_stop_words: bool = False) -> list[str]:
    """The terms of a text, in order, repeats included."""
    found: list[str] = []
    for word in _words(text[:MAX_CHARS]):
        found.extend(_word_terms(word, keep_stop_words))
    return found


def query_terms(query: str) -> list[str]:
    """The terms of a query; one made of stop words alone keeps them, since a tool may be named so."""
    return terms(query) or terms(query, keep_stop_words=True)


def spelled(query: str) -> dict[str, str]:
    """Each term of a query as the query spells it, for telling people what matched."""
    found: dict[str, str] = {}
    for word in _words(query[:MAX_CHARS]):
        pieces = _split(word)
        for form in [word] if len(pieces) == 1 else [word, *pieces]:
            found.setdefault(stem(form.casefold()), form)
    return found


def parts(identifier: str) -> list[str]:
    """An identifier's pieces in lower case: `getHTTPResponse2` is get, http, response, 2."""
    return [part.lower() for word in _words(identifier) for part in _split(word)]


def _words(text: str) -> Iterator[str]:
    if text.isascii():
        yield from _ASCII_WORD.findall(text)
        return
    for word in _ANY_WORD.findall(_without_marks(text)):
        if _UNSPACED_WORD.match(word):
            yield from (word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            yield word


def _without_marks(text: str) -> str:
    """Width and compatibility forms folded, accents off Latin letters: `Café` is found by `cafe`."""
    folded = unicodedata.normalize("NFKC", text)
    if not re.search("[\u00c0-\u024f]", folded):
        return folded
    letters = unicodedata.normalize("NFD", folded)
    return unicodedata.normalize("NFC", re.sub("(?<=[A-Za-z])[\u0300-\u036f]+", "", letters))


@lru_cache(maxsize=65536)
def _word_terms(word: str, keep_stop_words: bool) -> tuple[str, ...]:
    pieces = _split(word)
    forms = [word.casefold()] if len(pieces) == 1 else [word.casefold(), *(piece.casefold() for piece in pieces)]
    return tuple(stem(form) for form in forms if keep_stop_words or form not in STOP_WORDS)


def _split(word: str) -> list[str]:
    """A word cut at case and digit borders; `iPhone15` gives i, Phone, 15."""
    return [word] if word.islower() and word.isalpha() else _PART.findall(word) or [word]
