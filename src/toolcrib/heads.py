"""Heads of HTTP messages that were read before: the next message with the same one need not be parsed.

Peers that keep a connection say the same head again and again; only the length of the body differs. Two texts are
compared byte for byte around that length, so nothing is ever read differently from how the parser read it the first
time. Knows neither requests nor responses.
"""

from __future__ import annotations

from typing import Any, Final

LONGEST_HEAD: Final = 4096
_LENGTH: Final = b"\r\ncontent-length:"
_END: Final = b"\r\n\r\n"
_MOST_DIGITS: Final = 10


class Head:
    """One head, and in `meaning` what its reader made of it."""

    __slots__ = ("_after", "_at", "_before", "_rest", "meaning")

    def __init__(self, before: bytes, after: bytes, meaning: Any) -> None:
        self._before = before
        self._after = after
        self._at = len(before)
        self._rest = len(after)
        self.meaning = meaning

    @classmethod
    def of(cls, message: bytes, meaning: Any) -> Head | None:
        """The head of a message that was read as one with a body of known length; None for one not worth keeping."""
        end = message.find(_END, 0, LONGEST_HEAD) + len(_END)
        head = message[:end].lower()
        at = head.find(_LENGTH) + len(_LENGTH)
        if end < len(_END) or at < len(_LENGTH) or head.find(_LENGTH, at) >= 0:
            return None
        while message[at : at + 1] == b" ":
            at += 1
        stop = message.find(b"\r", at)
        digits = message[at:stop]
        return cls(message[:at], message[stop:end], meaning) if digits.isdigit() else None

    def body_of(self, message: bytes) -> bytes | None:
        """The body of a message that has this head and is whole, with nothing after it; else None."""
        if not message.startswith(self._before):
            return None
        stop = message.find(b"\r", self._at, self._at + _MOST_DIGITS)
        if stop < 0 or not message.startswith(self._after, stop):
            return None
        body = message[stop + self._rest :]
        return body if message[self._at : stop] == b"%d" % len(body) else None
