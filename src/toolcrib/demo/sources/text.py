"""Text utilities: pure functions over what the agent sends. Patterns are bounded, because they come from strangers."""

import base64
import binascii
import csv
import difflib
import hashlib
import io
import json
import re
import textwrap
import unicodedata
from collections import Counter
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Refused, Source, reads

Passage = Annotated[str, Meta(max_length=200_000)]

_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}")
_URL = re.compile(r"https?://[^\s<>\"')\]]+")
_PHONE = re.compile(r"\+?\d[\d ()/-]{6,18}\d")
_COMMON = frozenset(("and", "are", "for", "from", "has", "its", "not", "that", "the", "this", "was", "with"))


class Text(Source):
    """The `text` source."""

    label = "text"
    about = "Counting, comparing, converting and cleaning text. Nothing is stored."

    @reads
    def count_words(self, text: Passage) -> dict[str, int]:
        """Word count, characters (with and without spaces), lines and sentences of a text."""
        return {
            "words": len(text.split()),
            "characters": len(text),
            "characters_without_spaces": len("".join(text.split())),
            "lines": len(text.splitlines()),
            "sentences": len(re.findall(r"[.!?]+(?:\s|$)", text)),
        }

    @reads
    def diff_texts(self, before: Passage, after: Passage) -> str:
        """Unified diff between two versions of a text."""
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
        return "\n".join(lines) or "No difference."

    @reads
    def compare_similarity(self, first: Passage, second: Passage) -> float:
        """How alike are two strings? 1.0 means identical, 0.0 nothing in common."""
        return round(difflib.SequenceMatcher(None, first[:5000], second[:5000]).ratio(), 4)

    @reads
    def change_case(self, text: Passage, style: Literal["upper", "lower", "title", "snake", "camel", "kebab"]) -> str:
        """Convert between UPPER, lower, Title, snake_case, camelCase and kebab-case."""
        words = re.findall(r"[A-Z]?[^\W_A-Z]+|[A-Z]+(?![^\W_A-Z])", text)
        match style:
            case "snake" | "kebab":
                return ("_" if style == "snake" else "-").join(word.lower() for word in words)
            case "camel":
                joined = "".join(word.capitalize() for word in words)
                return joined[:1].lower() + joined[1:]
            case _:
                return {"upper": text.upper, "lower": text.lower, "title": text.title}[style]()

    @reads
    def slugify(self, text: Annotated[str, Meta(max_length=1000)]) -> str:
        """URL-friendly slug."""
        plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
        return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")

    @reads
    def find_and_replace(
        self, text: Passage, find: Annotated[str, Meta(min_length=1)], replace: str, ignore_case: bool = False
    ) -> dict[str, object]:
        """Replace every occurrence of a phrase in the given text; says how many were replaced."""
        pattern = re.compile(re.escape(find), re.IGNORECASE if ignore_case else 0)
        result, count = pattern.subn(lambda _: replace, text)
        return {"text": result, "replaced": count}

    @reads
    def extract_entities(self, text: Passage, kind: Literal["email", "url", "phone"]) -> list[str]:
        """Pull all e-mail addresses, links or phone numbers out of a piece of text, without duplicates."""
        pattern = {"email": _EMAIL, "url": _URL, "phone": _PHONE}[kind]
        return list(dict.fromkeys(pattern.findall(text)))

    @reads
    def extract_keywords(self, text: Passage, limit: Annotated[int, Meta(ge=1, le=50)] = 10) -> list[str]:
        """Most frequent significant terms of a text."""
        words = [w for w in re.findall(r"[^\W\d_]{3,}", text.lower()) if w not in _COMMON]
        return [word for word, _ in Counter(words).most_common(limit)]

    @reads
    def summarize(self, text: Passage, sentences: Annotated[int, Meta(ge=1, le=10)] = 3) -> str:
        """Shorten a long text to its most important sentences (extractive; nothing is rephrased)."""
        found = re.split(r"(?<=[.!?])\s+", text.strip())
        weights = Counter(self.extract_keywords(text, 50))
        ranked = sorted(found, key=lambda s: -sum(weights[w] for w in set(re.findall(r"[^\W\d_]{3,}", s.lower()))))
        best = set(ranked[:sentences])
        return " ".join(sentence for sentence in found if sentence in best)

    @reads
    def sort_lines(
        self, text: Passage, order: Literal["ascending", "descending"] = "ascending", unique: bool = False
    ) -> str:
        """Sort lines alphabetically; optionally drop duplicate lines."""
        lines = list(dict.fromkeys(text.splitlines())) if unique else text.splitlines()
        return "\n".join(sorted(lines, key=str.casefold, reverse=order == "descending"))

    @reads
    def wrap_text(self, text: Passage, width: Annotated[int, Meta(ge=10, le=400)] = 80) -> str:
        """Break long lines at a given width."""
        return "\n\n".join(textwrap.fill(part, width) for part in text.split("\n\n"))

    @reads
    def encode_base64(self, text: Passage) -> str:
        """Base64-encode UTF-8 text."""
        return base64.b64encode(text.encode()).decode()

    @reads
    def decode_base64(self, data: Annotated[str, "Base64 string"]) -> str:
        """Turns base64 back into readable text."""
        try:
            return base64.b64decode(data, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise Refused(f"Not base64 of a UTF-8 text: {error}") from error

    @reads
    def hash_text(self, text: Passage, algorithm: Literal["sha256", "sha512", "sha1", "md5"] = "sha256") -> str:
        """Checksum (hex digest) of a text."""
        return hashlib.new(algorithm, text.encode(), usedforsecurity=False).hexdigest()

    @reads
    def format_json(self, text: Passage, indent: Annotated[int, Meta(ge=0, le=8)] = 2) -> str:
        """Validate and pretty-print JSON. The error names line and column when it is malformed."""
        try:
            return json.dumps(json.loads(text), indent=indent or None, ensure_ascii=False)
        except (ValueError, RecursionError) as error:
            raise Refused(f"Invalid JSON: {error}") from error

    @reads
    def csv_to_json(self, text: Passage, delimiter: Annotated[str, Meta(min_length=1, max_length=1)] = ",") -> object:
        """Parse comma-separated values with a header row into a list of objects."""
        return msgspec.to_builtins(list(csv.DictReader(io.StringIO(text), delimiter=delimiter)), str_keys=True)

    @reads
    def strip_markdown(self, text: Passage) -> str:
        """Markdown in, plain text out: headings, emphasis, links, code fences and list markers are removed."""
        text = re.sub(r"^```.*$\n?", "", text, flags=re.MULTILINE)
        text = re.sub(r"!?\[([^\[\]]*)\]\([^()\s]*\)", r"\1", text)
        text = re.sub(
            r"^[ \t]{0,3}(?:#{1,6}[ \t]+|[-*+][ \t]+|>[ \t]?|\d{1,3}[.)][ \t]+)", "", text, flags=re.MULTILINE
        )
        return re.sub(r"(\*\*|__|\*|`)(\S[^*_`\n]{0,500}?)\1", r"\2", text).strip()
