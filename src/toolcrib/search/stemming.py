"""Porter's stemmer (1980), so that "listing issues" meets "list_issue" on an install that has only numpy.

It knows English suffixes and nothing else: words that are not plain ASCII letters come back as they are. Compared with
the paper it leaves words of one or two letters alone, as every later version does.
"""

from functools import lru_cache
from itertools import pairwise

_VOWELS = frozenset("aeiou")

_STEP2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("abli", "able"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # fmt: skip
_STEP3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic", "ou",
)  # fmt: skip


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of one lower-case word."""
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _swap(word, _STEP2)
    word = _swap(word, _STEP3)
    return _tidy(_residue(word))


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        root = word[: -len(suffix)]
        if word.endswith(suffix) and _has_vowel(root):
            return _restored(root)
    return word


def _restored(root: str) -> str:
    """What -ed or -ing was attached to: "creat" was "create", "stopp" was "stop"."""
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _doubled(root) and root[-1] not in "lsz":
        return root[:-1]
    return root + "e" if _measure(root) == 1 and _short_end(root) else root


def _swap(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, other in rules:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            return root + other if _measure(root) > 0 else word
    return word


def _residue(word: str) -> str:
    for suffix in _STEP4:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            fits = _measure(root) > 1 and (suffix != "ion" or root.endswith(("s", "t")))
            return root if fits else word
    return word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        root = word[:-1]
        if _measure(root) > 1 or (_measure(root) == 1 and not _short_end(root)):
            word = root
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _consonants(word: str) -> list[bool]:
    flags: list[bool] = []
    for i, letter in enumerate(word):
        if letter == "y":
            flags.append(i == 0 or not flags[i - 1])
        else:
            flags.append(letter not in _VOWELS)
    return flags


def _measure(word: str) -> int:
    """Porter's m: how often a consonant follows a vowel."""
    flags = _consonants(word)
    return sum(after and not before for before, after in pairwise(flags))


def _has_vowel(word: str) -> bool:
    return not all(_consonants(word))


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1]


def _short_end(word: str) -> bool:
    """Ends consonant, vowel, consonant, the last not w, x or y: "fil", not "snow"."""
    return len(word) > 2 and _consonants(word)[-3:] == [True, False, True] and word[-1] not in "wxy"
