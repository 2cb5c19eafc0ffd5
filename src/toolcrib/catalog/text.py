"""Text that others wrote and a model will read: what of it cannot be seen, and what of it reads like an order.

`visible` is what we show a model, `escaped` what we show a person, `marks` what makes a person want to look.
Deliberately knows neither tools nor schemas, and judges nothing: a mark is a reason to look, not a verdict.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_ANSI = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]|\x9b[0-?]*[ -/]*[@-~]"
_CONTROL = r"[\x00-\x08\x0b\x0c\x0d\x0e-\x1f\x7f-\x9f]"
_BIDI = r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_TAG = r"[\U000e0000-\U000e007f]"
_ZERO_WIDTH = (
    r"[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e0fff]"
)
_LONE_SURROGATE = r"[\ud800-\udfff]"

_HIDDEN = re.compile(
    f"(?P<ansi>{_ANSI})|(?P<control>{_CONTROL})|(?P<bidi>{_BIDI})|(?P<tag>{_TAG})"
    f"|(?P<zero_width>{_ZERO_WIDTH})|(?P<surrogate>{_LONE_SURROGATE})"
)

# Scripts whose spelling needs the joiners: Arabic and Syriac to Thaana, the Indic blocks, Mongolian. No range below
# may hold a character that is itself hidden.
_JOINING = re.compile(r"[\u0600-\u061b\u061d-\u08ff\u0900-\u0dff\u1800-\u180a\u1810-\u18af\ufb50-\ufdff\ufe70-\ufefc]")
_SYMBOL_BLOCKS = re.compile(
    r"[#*0-9\u00a9\u00ae\u203c\u2049\u2100-\u214f\u2190-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001faff]"
)

CONFUSABLES = str.maketrans(
    {
        # Cyrillic
        **dict(zip("аеорсухѕіјԁһӏԛԝкмтвнгпգ", "aeopcyxsijdhlqwkmtbhrng", strict=True)),
        # Greek
        **dict(zip("αοριυνκτχγβ", "aopiuvktxyb", strict=True)),
        # Armenian, and Latin letters that pass for plainer ones
        **dict(zip("օսոցհıɡɑℓɩ", "ounghigali", strict=True)),
    }
)
_LATIN = re.compile(r"[A-Za-z]")
_FOREIGN = re.compile(r"[\u0370-\u0587]")  # Greek, Cyrillic, Armenian: Turkish or German letters are no disguise
_FULLWIDTH = re.compile(r"[\uff21-\uff5a]")
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """One reason to look: what kind it is, and the words (or characters, escaped) that gave it away."""

    kind: str
    found: str


def visible(text: str) -> str:
    """The text without what cannot be seen; line breaks, tabs, emoji and joining scripts keep what they need."""
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(lambda hit: hit[0] if _is_needed(hit) else "", text.replace("\r\n", "\n"))


def is_visible(text: str) -> bool:
    return visible(text) == text


def escaped(text: str, limit: int = 160) -> str:
    """The text for a person: hidden characters and look-alike letters as escapes, shortened in the middle."""
    shown = _HIDDEN.sub(lambda hit: hit[0] if _is_needed(hit) else _codes(hit[0]), text.replace("\r\n", "\n"))
    if not shown.isascii():
        shown = _WORD.sub(lambda word: _codes(word[0]) if _is_mixed(word[0]) else word[0], shown)
    shown = shown.replace("\n", "\\n").replace("\t", "\\t")
    if len(shown) <= limit:
        return shown
    half = (limit - 3) // 2
    return f"{shown[:half]}...{shown[-half:]}"


def skeleton(text: str) -> str:
    """What the text looks like to a hurried reader: two texts with one skeleton are confusable."""
    if text.isascii():
        return text.lower()
    bare = "".join(_unhidden(unicodedata.normalize("NFKC", text)))
    folded = unicodedata.normalize("NFKD", bare.casefold()).translate(CONFUSABLES)
    return unicodedata.normalize("NFKC", "".join(c for c in folded if not unicodedata.combining(c)))


def marks(text: str) -> frozenset[Mark]:
    """Everything in the text that a careful person would want to see before a model does."""
    return frozenset(_marks(text))


def _marks(text: str) -> Iterator[Mark]:
    if not (text.isascii() and text.isprintable()):
        for hit in _HIDDEN.finditer(text.replace("\r\n", "\n")):
            if not _is_needed(hit):
                yield Mark(hit.lastgroup or "control", _codes(hit[0])[:40])
        if not text.isascii():
            yield from (Mark("homoglyph", escaped(word, 40)) for word in _WORD.findall(text) if _is_mixed(word))
    if len(text) < _SHORTEST_ORDER:
        return
    plain = " ".join(visible(text).split())
    lowered = plain.lower()
    for kind, needles, pattern in _ORDERS:
        if any(needle in lowered for needle in needles):
            for hit in pattern.finditer(plain):
                yield Mark(kind, escaped(hit[0], 80))
    for hit in _BLOB.finditer(plain) if len(plain) >= 80 else ():
        if _is_encoded(hit[0]):
            yield Mark("encoded", escaped(hit[0], 40))


def _unhidden(text: str) -> Iterator[str]:
    return (c for c in text if not _HIDDEN.fullmatch(c))


def _codes(text: str) -> str:
    return "".join(_code(c) for c in text)


def _code(char: str) -> str:
    if char.isascii() and char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _is_needed(hit: re.Match[str]) -> bool:
    """Whether a joiner or variation selector is spelling rather than smuggling: one, after what it can join."""
    if hit.lastgroup != "zero_width" or hit[0] not in "\u200c\u200d\ufe0e\ufe0f":
        return False
    text, at = hit.string, hit.start()
    before = text[at - 1 : at]
    if hit[0] in "\ufe0e\ufe0f":
        return bool(_SYMBOL_BLOCKS.fullmatch(before))
    after = text[at + 1 : at + 2]
    joined = text[at - 2 : at - 1] if before == "\ufe0f" else before
    if hit[0] == "\u200d" and _SYMBOL_BLOCKS.fullmatch(joined):
        return bool(_SYMBOL_BLOCKS.fullmatch(after)) and not after.isascii()
    return bool(_JOINING.fullmatch(before) and _JOINING.fullmatch(after))


def _is_mixed(word: str) -> bool:
    """Latin letters with look-alikes from another script among them, as no language writes."""
    if word.isascii() or not _LATIN.search(word):
        return False
    return any(_FOREIGN.match(c) and ord(c.lower()) in CONFUSABLES for c in word) or bool(_FULLWIDTH.search(word))


def _is_encoded(blob: str) -> bool:
    """Base64 rather than a long identifier, a hex digest or a path: it mixes cases and digits throughout."""
    head = blob[:80]
    return (
        sum(c.isupper() for c in head) >= 8
        and sum(c.islower() for c in head) >= 8
        and sum(c.isdigit() for c in head) >= 3
        and head.count("/") <= 6
    )


def _order(kind: str, needles: str, pattern: str) -> tuple[str, tuple[str, ...], re.Pattern[str]]:
    """`needles` are cheap: a text with none of them cannot match, and most texts have none."""
    return kind, tuple(needles.split("|")), re.compile(pattern, re.IGNORECASE)


_SHORTEST_ORDER = 6


_TOOL = r"[`'\"]?[\w.-]{2,60}[`'\"]?"

# Bounded repetition only: these run over text that an adversary wrote.
_ORDERS = (
    _order(
        "instruction",
        "ignore|disregard|forget|override|bypass",
        r"\b(?:ignore|disregard|forget|override|bypass)\b(?: \S{1,20}){0,3} "
        r"(?:instruction|prompt|rule|guideline|guardrail|direction|polic(?:y|ies)|context)s?\b",
    ),
    _order(
        "instruction",
        "user",
        r"\b(?:do not|don't|never|must not|should not|without)(?: \S{1,20}){0,2} "
        r"(?:tell|telling|inform|informing|mention|mentioning|reveal|revealing|notify|notifying|alert|alerting|warn)"
        r"(?: \S{1,20}){0,3} users?\b",
    ),
    _order(
        "instruction", "from the user", r"\b(?:hide|conceal|keep)\b(?: \S{1,20}){0,4} (?:from|secret from) the users?\b"
    ),
    _order("instruction", "instruction", r"\b(?:new|updated|real|hidden|secret) (?:system )?instructions?\s?:"),
    _order(
        "instruction",
        "you are now|system prompt|as an ai|developer mode|jailbreak",
        r"\byou are now\b|\bsystem prompt\b|\bas an ai\b|\bdeveloper mode\b|\bjailbreak",
    ),
    _order(
        "instruction",
        "important|critical|attention|note",
        r"\b(?:important|critical|attention|note)(?: \w{1,12}){0,2} (?:ai|llm|assistant|model|agent)s?\s?[:!]",
    ),
    _order(
        "first_call",
        "before|prior to",
        r"\b(?:before|prior to)(?: \S{1,20}){0,2} (?:using|calling|invoking|running)"
        r"(?: \S{1,20}){0,2} (?:this|any|other|all|another)(?: \S{1,20}){0,2} tools?\b",
    ),
    _order(
        "first_call",
        "first|before|prior",
        rf"\b(?:always|must|first|immediately)(?: first)? (?:call|invoke|run|use) "
        rf"(?:the )?{_TOOL}(?: tool)? (?:first|before|prior)\b",
    ),
    _order("first_call", "first", rf"\bcall (?:the )?{_TOOL}(?: tool)? first\b"),
    _order(
        "first_call",
        "instead of",
        rf"\binstead of (?:using |calling )?(?:the |any )?(?:other |original |official )?{_TOOL} tools?\b",
    ),
    _order(
        "exfiltration",
        "conversation|chat history|api key|credential|password|private key|secret|system prompt",
        r"\b(?:send|forward|post|upload|copy|bcc|exfiltrate|append|include|pass)\b(?: \S{1,30}){0,8} "
        r"(?:conversation|chat history|api keys?|credentials?|passwords?|private keys?|secrets?|system prompt)"
        r"(?: \S{1,30}){0,6} (?:to|as|in|at|into) ",
    ),
    _order(
        "exfiltration",
        "~/.|id_rsa|id_ed25519|/etc/",
        r"~/\.(?:ssh|aws|config|cursor|env|netrc|kube)\b|\bid_(?:rsa|ed25519)\b|/etc/(?:passwd|shadow)\b",
    ),
    _order(
        "hidden_tag",
        "<",
        r"<!--.{0,200}?-->|</?(?:important|system|instructions?|secret|hidden|admin|assistant|override)\b[^>]{0,80}>",
    ),
    _order(
        "hidden_tag",
        "<|[inst|[/inst|{{#|###",
        r"<\|[a-z_]{2,30}\|>|\[/?INST\]|<<SYS>>|\{\{#system|### ?(?:system|instruction)s?\s?:",
    ),
    _order(
        "hidden_tag",
        "<",
        r"<[a-z]{1,10}[^>]{0,80}(?:display\s?:\s?none|visibility\s?:\s?hidden|font-size\s?:\s?0)[^>]{0,80}>",
    ),
)
_BLOB = re.compile(r"[A-Za-z0-9+/]{80,}={0,2}|(?:[A-Za-z0-9_-]{80,})")
