"""BERT's uncased WordPiece in plain Python, so that a bare install can look tokens up in a table.

Gives the token ids that the training saw; special tokens are the caller's. Words met before are remembered, which makes
one query a handful of dictionary look-ups.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

_MAX_WORD_CHARS = 100
_MAX_CHARS = 20_000
_REMEMBERED = 50_000
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"
_ASCII_PIECE = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_PIECE = re.compile(rf"[!-/:-@\[-`{{-~]|[{_CHINESE}]|[^\s!-/:-@\[-`{{-~{_CHINESE}]+")


class WordPiece:
    """Text to token ids by longest match from the left."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {token: number for number, token in enumerate(vocabulary)}
        self.unknown = self._ids["[UNK]"]
        self._known: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str, limit: int) -> list[int]:
        """The first `limit` token ids of a text."""
        found: list[int] = []
        for word in _words(text[:_MAX_CHARS]):
            found.extend(self._word(word))
            if len(found) >= limit:
                break
        return found[:limit]

    def _word(self, word: str) -> tuple[int, ...]:
        known = self._known.get(word)
        if known is None:
            known = self._pieces(word)
            if len(self._known) < _REMEMBERED:
                self._known[word] = known
        return known

    def _pieces(self, word: str) -> tuple[int, ...]:
        if len(word) > _MAX_WORD_CHARS:
            return (self.unknown,)
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end = self._longest(word, start)
            if end == start:
                return (self.unknown,)
            pieces.append(self._ids[word[start:end] if start == 0 else "##" + word[start:end]])
            start = end
        return tuple(pieces)

    def _longest(self, word: str, start: int) -> int:
        mark = "##" if start else ""
        return next((end for end in range(len(word), start, -1) if mark + word[start:end] in self._ids), start)


def _words(text: str) -> Iterable[str]:
    lowered = text.lower()
    if lowered.isascii():
        return _ASCII_PIECE.findall(lowered)
    plain = "".join(letter for letter in unicodedata.normalize("NFD", lowered) if unicodedata.category(letter) != "Mn")
    return (piece for word in _PIECE.findall(plain) for piece in _at_punctuation(word))


def _at_punctuation(word: str) -> list[str]:
    """A word cut around Unicode punctuation, which the regular expression above does not know; controls dropped."""
    if word.isalnum():
        return [word]
    pieces = [""]
    for letter in word:
        category = unicodedata.category(letter)
        if category.startswith("P"):
            pieces += [letter, ""]
        elif not category.startswith("C") and letter != "\ufffd":
            pieces[-1] += letter
    return [piece for piece in pieces if piece]
