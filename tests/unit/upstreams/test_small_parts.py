"""Events, lines, breaker and messages, each on its own."""

from __future__ import annotations

import random

import msgspec
import pytest

from toolcrib import errors
from toolcrib.domain import Principal, Role
from toolcrib.upstreams import messages
from toolcrib.upstreams.breaker import Breaker
from toolcrib.upstreams.conversation import Oversized
from toolcrib.upstreams.events import EventParser
from toolcrib.upstreams.stdio import LineCutter
from toolcrib.upstreams.upstream import Background, Complete, InputRequired

STREAM = (
    b": hello\r\n\r\nid: 1\r\ndata: one\r\n\r\nevent: endpoint\ndata:/x\n\nretry: 50\rdata: a\rdata: b\r\r"
    b"data\n\nunknown: x\n\nid: 2\n\n"
)


@pytest.mark.parametrize("seed", range(50))
def test_events_do_not_depend_on_how_the_bytes_arrive(seed: int) -> None:
    chance, parser, events = random.Random(seed), EventParser("up", 1000), []
    at = 0
    while at < len(STREAM):
        size = chance.randint(1, 12)
        events += parser.feed(STREAM[at : at + size])
        at += size
    assert [(e.event, e.data, e.id, e.retry_ms) for e in events] == [
        ("message", b"one", "1", None),
        ("endpoint", b"/x", None, None),
        ("message", b"a\nb", None, 50),
        ("message", b"", None, None),
        ("message", b"", "2", None),
    ]


def test_an_event_over_the_limit_is_refused_but_many_small_ones_are_not() -> None:
    parser = EventParser("up", 100)
    for _ in range(100):
        assert len(parser.feed(b"data: 0123456789\n\n")) == 1
    assert parser.feed(b"0" * 100) == []
    with pytest.raises(errors.AnswerTooLarge):
        parser.feed(b"0")


@pytest.mark.parametrize("seed", range(20))
def test_lines_do_not_depend_on_how_the_bytes_arrive_and_long_ones_keep_their_edges(seed: int) -> None:
    text = b"one\n" + b'{"id": 7, ' + b"x" * 5000 + b', "id": 8}\n' + b"two\nrest"
    chance, cutter, lines, at = random.Random(seed), LineCutter(1000), [], 0
    while at < len(text):
        size = chance.randint(1, 700)
        lines += cutter.feed(text[at : at + size])
        at += size
    first, long, second = lines
    assert (first, second) == (b"one", b"two")
    assert isinstance(long, Oversized)
    assert b'"id": 7' in long.head
    assert b'"id": 8' in long.tail


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_open_breaker_says_what_went_wrong_and_gives_way_to_a_person() -> None:
    clock = Clock()
    breaker = Breaker("up", threshold=1, clock=clock)
    breaker.admit()
    breaker.failed("the connection was refused.")
    with pytest.raises(errors.CircuitOpen, match="the connection was refused"):
        breaker.admit()
    breaker.admit(insist=True)
    breaker.succeeded()
    breaker.admit()


def test_the_breaker_opens_after_failures_in_a_row_and_lets_one_probe_through() -> None:
    clock = Clock()
    breaker = Breaker("up", threshold=3, first_s=1.0, clock=clock)
    for _ in range(3):
        breaker.admit()
        breaker.failed()
    with pytest.raises(errors.CircuitOpen) as refused:
        breaker.admit()
    assert 0.5 <= (refused.value.retry_after_s or 0) <= 1.0
    clock.now += 1.0
    breaker.admit()
    with pytest.raises(errors.CircuitOpen):
        breaker.admit()
    breaker.succeeded()
    breaker.admit()
    breaker.admit()


def test_each_failed_probe_doubles_the_pause_up_to_the_longest() -> None:
    clock = Clock()
    breaker = Breaker("up", threshold=1, first_s=1.0, longest_s=8.0, clock=clock)
    pauses = []
    for _ in range(8):
        breaker.admit()
        breaker.failed()
        with pytest.raises(errors.CircuitOpen) as refused:
            breaker.admit()
        pauses.append(refused.value.retry_after_s)
        clock.now += 8.0
    assert all(0.5 * min(8, 2**n) <= pause <= min(8, 2**n) for n, pause in enumerate(pauses))


def test_an_abandoned_probe_makes_way_for_the_next() -> None:
    clock = Clock()
    breaker = Breaker("up", threshold=1, clock=clock)
    breaker.admit()
    breaker.failed()
    clock.now += 100
    breaker.admit()
    breaker.abandoned()
    breaker.admit()


def test_a_success_in_between_keeps_it_closed() -> None:
    breaker = Breaker("up", threshold=2)
    for _ in range(10):
        breaker.admit()
        breaker.failed()
        breaker.succeeded()
    breaker.admit()


def outcome(text: bytes) -> object:
    return messages.outcome(messages.read(text, "up"), 5, "up")


def test_a_result_is_sliced_not_parsed() -> None:
    assert outcome(b'{"jsonrpc":"2.0","id":5,"result":{ "a" : [1.0, "\\u00e9"]}}') == Complete(
        b'{ "a" : [1.0, "\\u00e9"]}'
    )
    assert outcome(b'{"result":{"say":"input_required"},"id":5}') == Complete(b'{"say":"input_required"}')
    assert isinstance(outcome(b'{"id":5,"result":{"resultType":"input_required","requestState":"s"}}'), InputRequired)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b'{"id":5}',
        b'{"id":6,"result":{}}',
        b'{"id":"5","result":{}}',
        b'{"id":5,"result":[]}',
        b'{"id":5,"result":null}',
        b'{"id":5,"result":{"a":NaN}}',
        b'{"id":5,"result":{"a":"\xff"}}',
        b'{"id":5,"result":{"a":"\\ud800"}}',
        b'{"id":5,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"id":5,"error":"no"}',
        b'{"id":5.5,"result":{}}',
    ],
)
def test_anything_else_is_a_bad_answer(text: bytes) -> None:
    with pytest.raises(errors.BadAnswer):
        outcome(text)


def test_reserved_meta_of_one_hop_does_not_travel_to_the_next() -> None:
    exchange = Background(Principal("k", Role.agent, None), wants_progress=True)
    given = {
        "progressToken": "theirs",
        "io.modelcontextprotocol/clientInfo": {"name": "them"},
        "io.modelcontextprotocol/logLevel": "debug",
        "traceparent": "00-1-2-3",
    }
    modern = messages.modern_params({"name": "x", "_meta": given}, exchange, 9)["_meta"]
    assert modern["traceparent"] == "00-1-2-3"
    assert modern["progressToken"] == 9
    assert modern["io.modelcontextprotocol/clientInfo"]["name"] == "toolcrib"
    assert "io.modelcontextprotocol/logLevel" not in modern
    legacy = messages.legacy_params({"name": "x", "_meta": given}, exchange, 9)["_meta"]
    assert legacy == {"traceparent": "00-1-2-3", "progressToken": 9}


@pytest.mark.parametrize("tool", ["echo", "ümlaut", 'quo"te', "\u2028"])
@pytest.mark.parametrize("arguments", [b"{}", b'{"a": [1, 2.0, "\xc3\xa9"]}'])
def test_a_call_sent_ahead_is_worded_like_any_other(tool: str, arguments: bytes) -> None:
    nobody = Background(Principal("k", Role.agent, None))
    params = {"name": tool, "arguments": msgspec.Raw(arguments)}
    ordinary = messages.request(7, "tools/call", messages.modern_params(params, nobody, 7))
    assert messages.bare_modern_call(7, tool, arguments) == ordinary
