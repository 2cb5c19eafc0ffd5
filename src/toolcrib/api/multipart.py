"""A `multipart/form-data` body as its parts: the one place that meets the parser library.

The body is already in memory and bounded by the edge; here the number of parts and of their headers is bounded too. A
file's name is kept as it was sent, path and all; whoever stores it must judge it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from toolcrib.errors import InvalidPayload, TooLarge

_MOST_HEADERS = 16
_LONGEST_HEADER = 4096
_QUOTED = re.compile(r';\s*filename="((?:[^"\\]|\\.)*)"', re.IGNORECASE)


@dataclass(slots=True)
class Part:
    """One part; `filename` is None for a plain field."""

    name: str = ""
    filename: str | None = None
    content_type: str = ""
    data: bytes = b""


@dataclass(slots=True)
class _Reader:
    """Collects parts from the parser's callbacks."""

    most_parts: int
    parts: list[Part] = field(default_factory=list[Part])
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _data: list[bytes] = field(default_factory=list[bytes])
    is_complete: bool = False

    def begin(self) -> None:
        if len(self.parts) >= self.most_parts:
            raise TooLarge(f"The body has more than {self.most_parts} parts.", param="files")
        self.parts.append(Part())
        self._data = []

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def header_end(self) -> None:
        name, value = bytes(self._header).lower().decode("latin-1"), bytes(self._value)
        self._header.clear()
        self._value.clear()
        if name == "content-disposition":
            self._disposition(value)
        elif name == "content-type":
            self.parts[-1].content_type = value.partition(b";")[0].strip().lower().decode("latin-1")

    def data(self, data: bytes, start: int, end: int) -> None:
        self._data.append(data[start:end])

    def end(self) -> None:
        self.parts[-1].data = b"".join(self._data)

    def finish(self) -> None:
        self.is_complete = True

    def _disposition(self, value: bytes) -> None:
        _, options = parse_options_header(value)
        self.parts[-1].name = _text(options.get(b"name", b""))
        if b"filename" in options:
            # The parser cuts `C:\\…` down to its last part; a path has to arrive as it was sent, to be refused.
            quoted = _QUOTED.search(value.decode("latin-1"))
            raw = quoted[1].encode("latin-1") if quoted else options[b"filename"]
            self.parts[-1].filename = _text(raw.replace(b'\\\\"', b'"').replace(b"%22", b'"'))


def read_parts(content_type: bytes, body: bytes, *, most_parts: int) -> list[Part]:
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise InvalidPayload("The Content-Type names no boundary.", param="Content-Type")
    reader = _Reader(most_parts)
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": reader.begin,
                "on_part_data": reader.data,
                "on_part_end": reader.end,
                "on_header_field": reader.header_field,
                "on_header_value": reader.header_value,
                "on_header_end": reader.header_end,
                "on_end": reader.finish,
            },
            max_header_count=_MOST_HEADERS,
            max_header_size=_LONGEST_HEADER,
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise InvalidPayload(f"The multipart body cannot be read: {error}.", param="body") from None
    if not reader.is_complete:
        raise InvalidPayload("The multipart body ends too early.", param="body")
    return reader.parts


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidPayload(f"The name {raw[:100]!r} is not UTF-8.", param="files") from None
