"""A head that is recognised means exactly what the parser would have read."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.heads import LONGEST_HEAD, Head

START = b"POST /mcp HTTP/1.1\r\nhost: a\r\n"


class Parsed:
    """What llhttp makes of one message."""

    def __init__(self, message: bytes) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.messages = 0
        httptools.HttpRequestParser(self).feed_data(message)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.messages += 1


def message(body: bytes, before: bytes = b"", after: bytes = b"", spelt: bytes = b"Content-Length: ") -> bytes:
    return START + before + spelt + b"%d\r\n" % len(body) + after + b"\r\n" + body


def test_only_the_length_may_differ() -> None:
    head = Head.of(message(b"one"), "meaning")
    assert head is not None
    assert head.meaning == "meaning"
    for body in (b"", b"1", b"one", b"much longer than the first one was", b"\r\n\r\n", b"x" * 70_000):
        assert head.body_of(message(body)) == body


@pytest.mark.parametrize(
    "other",
    [
        message(b"one", before=b"x: y\r\n"),
        message(b"one", after=b"x: y\r\n"),
        message(b"one", spelt=b"content-length: "),
        message(b"one", spelt=b"Content-Length:"),
        message(b"one", spelt=b"Content-Length:  "),
        message(b"one").replace(b"/mcp", b"/mcq"),
        message(b"one") + b"G",
        message(b"one")[:-1],
        message(b"one")[:20],
        message(b"one").replace(b": 3", b": 03"),
        message(b"one").replace(b": 3", b": +3"),
        message(b"one").replace(b": 3", b": 3 "),
        message(b"one").replace(b": 3", b": 0x3"),
        message(b"one").replace(b": 3", b": 3, 3"),
        message(b"one").replace(b": 3", b": "),
        message(b"one").replace(b": 3\r\n", b": 3\n"),
        message(b"one").replace(b": 3", b": 4294967299"),
        message(b"one").replace(b": 3", b": " + b"1" * 400),
        b"",
        b"\r\n" + message(b"one"),
    ],
    ids=repr,
)
def test_anything_else_is_for_the_parser(other: bytes) -> None:
    head = Head.of(message(b"one"), None)
    assert head is not None
    assert head.body_of(other) is None


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        message(b"one", after=b"content-length: 3\r\n"),
        message(b"one", before=b"CONTENT-LENGTH: 3\r\n"),
        message(b"one", before=b"x: " + b"y" * LONGEST_HEAD + b"\r\n"),
        message(b"one")[:30],
        message(b"one").replace(b": 3", b": 3 "),
        message(b"one").replace(b": 3", b": three"),
    ],
    ids=["no body", "twice", "twice, spelt otherwise", "long", "half", "space behind", "no number"],
)
def test_some_heads_are_not_kept(first: bytes) -> None:
    assert Head.of(first, None) is None


_names = st.sampled_from([b"X", b"accept", b"Content-Length-Not", b"mcp-name", b"X-Content-Length"])
_values = st.sampled_from([b"", b"1", b"a, b", b"content-length: 9", b"Content-Length", b"\t", b"7\tcontent-length: 5"])
_lines = st.lists(st.tuples(_names, _values), max_size=3).map(lambda h: b"".join(b"%b: %b\r\n" % each for each in h))
_lengths = st.sampled_from([b"Content-Length: ", b"content-length:", b"CONTENT-LENGTH:   "])
_bodies = st.binary(max_size=12) | st.sampled_from([b"\r\n\r\n", b"content-length: 3\r\n\r\nabc", START])
_messages = st.builds(message, _bodies, _lines, _lines, _lengths)
_changes = st.sampled_from([b"", b" ", b"0", b"1", b"\r\n", b"\n", b"\r", b"x: y\r\n", b"content-length: 1\r\n"])


@settings(max_examples=500, deadline=None)
@given(_messages, _messages, _changes, st.integers(0, 200))
def test_whatever_is_recognised_the_parser_reads_alike(first: bytes, second: bytes, change: bytes, at: int) -> None:
    head = Head.of(first, None)
    assert head is not None
    for sent in (second, first[:at] + change + first[at:], second[:at] + change + second[at:], first):
        body = head.body_of(sent)
        if body is not None:
            known, new = Parsed(first), Parsed(sent)
            assert new.messages == 1
            assert new.body == body
            assert new.url == known.url
            without = [[h for h in each.headers if h[0] != b"content-length"] for each in (known, new)]
            assert without[0] == without[1]
    assert head.body_of(first) == Parsed(first).body
