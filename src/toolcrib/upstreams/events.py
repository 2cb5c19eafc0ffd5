"""Server-sent events, cut out of a byte stream with a bound on the size of each.

Knows the event-stream format and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib import errors


@dataclass(slots=True)
class Event:
    data: bytes = b""
    event: str = "message"
    id: str | None = None
    retry_ms: int | None = None


class EventParser:
    """Feed it bytes, get events. Comments and unknown fields are skipped, as the format says."""

    def __init__(self, source: str, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._partial: list[bytes] = []
        self._size = 0
        self._data: list[bytes] = []
        self._event = Event()
        self._after_cr = False
        self._touched = False

    def feed(self, piece: bytes) -> list[Event]:
        self._size += len(piece)
        if self._size > self._limit:
            message = f"{self._source!r} sent an event of more than {self._limit} bytes."
            raise errors.AnswerTooLarge(message, source=self._source)
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
        if piece:
            self._after_cr = piece.endswith(b"\r")
        if b"\n" not in piece and b"\r" not in piece:
            self._partial.append(piece)
            return []
        lines = b"".join([*self._partial, piece]).splitlines(keepends=True)
        self._partial = [] if lines[-1].endswith((b"\n", b"\r")) else [lines.pop()]
        return [event for line in lines if (event := self._line(line.rstrip(b"\r\n"))) is not None]

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._finish()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._event.event = value.decode("utf-8", "replace")
            case b"id":
                self._event.id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self._event.retry_ms = int(value)
            case _:
                return None
        self._touched = True
        return None

    def _finish(self) -> Event | None:
        event, touched = self._event, self._touched
        event.data = b"\n".join(self._data)
        self._event, self._data, self._touched = Event(), [], False
        self._size = sum(map(len, self._partial))
        return event if touched else None
