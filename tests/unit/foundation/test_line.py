"""What time does to a connection: idle, stalled and unread ones end, and nothing else does."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from toolcrib.web.incoming import BODY_AHEAD_BYTES, Incoming
from toolcrib.web.line import KEEP_ALIVE_S, MOST_HEADS, SLOW_READER_S, STALL_S, Line

pytestmark = pytest.mark.anyio
GET = b"GET / HTTP/1.1\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"


class Transport:
    """Notes what is done to it."""

    def __init__(self) -> None:
        self.written = b""
        self.is_aborted = False
        self.is_closed = False
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def get_write_buffer_size(self) -> int:
        return len(self.written)


class House:
    """Time passes when a test says so; a request is served until it is released."""

    def __init__(self) -> None:
        self.date = b"date: today\r\n"
        self.now = 1000.0
        self.is_closing = False
        self.served: list[Incoming] = []
        self.release = asyncio.Event()
        self.reads = True

    def begin(self, incoming: Incoming) -> None:
        self.serve(incoming)

    def serve(self, incoming: Incoming) -> None:
        incoming.task = asyncio.create_task(self._serve(incoming))
        incoming.task.add_done_callback(lambda _: incoming.over())

    async def _serve(self, incoming: Incoming) -> None:
        self.served.append(incoming)
        if self.reads:
            await incoming.body(2**30)
        await self.release.wait()
        incoming.answer(200, [], b"done")

    def enter(self, line: Line) -> None: ...

    def leave(self, line: Line) -> None: ...


class Wire:
    """A connection with a house at one end and a test at the other."""

    def __init__(self) -> None:
        self.house = House()
        self.transport = Transport()
        self.line = Line(self.house)
        self.line.connection_made(cast("asyncio.Transport", self.transport))

    async def say(self, data: bytes) -> None:
        self.line.data_received(data)
        for _ in range(5):
            await asyncio.sleep(0)

    def after(self, seconds: float) -> bool:
        """Is it still there this much later?"""
        self.house.now += seconds
        self.line.look(self.house.now)
        return not self.transport.is_aborted

    async def answer_it(self) -> None:
        self.house.release.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert b"done" in self.transport.written


@pytest.fixture
async def wire() -> Wire:
    return Wire()


async def test_a_connection_without_a_request_ends_when_it_has_been_kept_long_enough(wire: Wire) -> None:
    assert wire.after(KEEP_ALIVE_S)
    assert not wire.after(1)


async def test_the_time_a_connection_is_kept_counts_from_its_last_answer(wire: Wire) -> None:
    await wire.say(GET)
    assert wire.after(KEEP_ALIVE_S + 1)
    await wire.answer_it()
    assert wire.after(KEEP_ALIVE_S)
    assert not wire.after(1)


async def test_a_request_in_hand_may_take_as_long_as_it_takes(wire: Wire) -> None:
    await wire.say(GET)
    assert wire.after(10 * KEEP_ALIVE_S)


async def test_a_request_that_nobody_answers_any_more_ends_its_connection(wire: Wire) -> None:
    await wire.say(GET)
    (incoming,) = wire.house.served
    incoming.cancel()  # by somebody else: its client is still there
    await wire.say(b"")
    assert wire.transport.is_aborted


BEHIND = {
    "half a request": b"GET / HT",
    "garbage": b"\0",
    "one that asks first": b"POST / HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
}


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
async def test_a_request_in_hand_is_not_ended_by_what_was_sent_behind_it(wire: Wire, behind: bytes) -> None:
    await wire.say(GET)
    await wire.say(behind)
    assert wire.after(STALL_S + 1)
    await wire.answer_it()


async def test_the_last_piece_is_sent_once(wire: Wire) -> None:
    wire.house.reads = False
    await wire.say(GET)
    (incoming,) = wire.house.served
    incoming.start([])
    await incoming.end(b"last")
    said = wire.transport.written
    await incoming.end(b"once more")
    await incoming.write(b"and more")
    assert wire.transport.written == said


async def test_headers_that_trickle_in_do_not_hold_a_connection(wire: Wire) -> None:
    await wire.say(b"GET / HTTP/1.1\r\n")
    for _ in range(int(STALL_S)):
        assert wire.after(1)
        await wire.say(b"a: b\r\n")
    assert not wire.after(1)
    assert wire.house.served == []


async def test_a_body_that_stalls_ends_its_request_and_one_that_moves_does_not(wire: Wire) -> None:
    await wire.say(POST)
    for _ in range(3):
        await wire.say(b"x")
        assert wire.after(STALL_S)
    assert not wire.after(1)


async def test_a_body_that_we_do_not_take_is_not_its_clients_fault(wire: Wire) -> None:
    wire.house.reads = False
    await wire.say(POST)
    await wire.say(b"x" * (BODY_AHEAD_BYTES + 1))
    assert not wire.transport.is_reading
    assert wire.after(STALL_S + 1)


async def test_chunks_without_content_do_not_hold_a_connection(wire: Wire) -> None:
    await wire.say(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a=")
    for _ in range(int(STALL_S)):
        assert wire.after(1)
        await wire.say(b"b")
    assert not wire.after(1)


async def test_a_line_end_too_many_is_not_the_beginning_of_a_request(wire: Wire) -> None:
    await wire.say(GET + b"\r\n")
    assert wire.after(STALL_S + 1)
    await wire.answer_it()
    assert wire.after(STALL_S + 1)


async def test_a_client_that_reads_nothing_of_its_answer_is_cut_off(wire: Wire) -> None:
    await wire.say(GET)
    wire.line.pause_writing()
    await wire.answer_it()
    assert wire.after(SLOW_READER_S)
    assert not wire.after(1)


async def test_a_client_that_has_read_its_answer_is_just_idle(wire: Wire) -> None:
    await wire.say(GET)
    wire.line.pause_writing()
    await wire.answer_it()
    assert wire.after(SLOW_READER_S)
    wire.line.resume_writing()
    assert wire.after(1)


async def test_a_client_that_reads_nothing_cannot_stay_by_asking_for_more(wire: Wire) -> None:
    wire.house.release.set()
    await wire.say(GET)
    wire.line.pause_writing()
    for _ in range(int(SLOW_READER_S)):
        assert wire.after(1)
        if wire.transport.is_reading:
            await wire.say(GET)
    assert not wire.after(1)


async def test_requests_wait_until_what_was_answered_has_been_read(wire: Wire) -> None:
    wire.house.release.set()
    await wire.say(GET)
    wire.line.pause_writing()
    await wire.say(GET + GET)
    assert len(wire.house.served) < 3
    wire.line.resume_writing()
    await wire.say(b"")
    assert len(wire.house.served) == 3


async def test_a_stream_that_ends_while_the_server_stops_ends_its_connection(wire: Wire) -> None:
    wire.house.reads = False
    await wire.say(GET)
    (incoming,) = wire.house.served
    incoming.start([])
    wire.house.is_closing = True
    wire.line.close()
    assert not wire.transport.is_closed
    await incoming.end(b"last")
    assert wire.transport.is_closed


def small(body: bytes, headers: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), headers, body)


async def test_a_request_said_like_the_last_one_is_the_same_but_for_its_body(wire: Wire) -> None:
    wire.house.release.set()
    for body in (b"one", b"another", b""):
        await wire.say(small(body, b"X: y\r\n"))
    first, *others = wire.house.served
    assert [await incoming.body(100) for incoming in wire.house.served] == [b"one", b"another", b""]
    for incoming in others:
        assert (incoming.method, incoming.target, incoming.version) == (first.method, first.target, first.version)
        assert incoming.raw_headers == first.raw_headers
        assert incoming.said is first.said is not None
    assert wire.transport.written.count(b"done") == 3


@pytest.mark.parametrize(
    "request_text",
    [
        GET,
        small(b"x", b"Connection: close\r\n"),
        small(b"x").replace(b"HTTP/1.1", b"HTTP/1.0"),
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ],
    ids=["no body", "the last", "1.0", "chunks"],
)
async def test_what_the_next_request_cannot_be_read_by_is_not_kept(wire: Wire, request_text: bytes) -> None:
    await wire.say(request_text)
    assert [incoming.said for incoming in wire.house.served] == [None]


async def test_only_a_few_heads_are_kept_the_latest_ones(wire: Wire) -> None:
    wire.house.release.set()
    for number in range(MOST_HEADS + 1):
        await wire.say(small(b"x", b"X: %d\r\n" % number))
    known = [incoming.said for incoming in wire.house.served]
    await wire.say(small(b"x", b"X: %d\r\n" % MOST_HEADS))
    assert wire.house.served[-1].said is known[-1]
    await wire.say(small(b"x", b"X: 0\r\n"))
    assert wire.house.served[-1].said not in known


ONE, TWO = small(b"one"), small(b"two", b"X: b\r\n")


@pytest.mark.parametrize(("before", "then"), [(ONE, TWO), (ONE[:-1], ONE[-1:] + TWO)], ids=["in hand", "arriving"])
async def test_what_is_kept_is_the_head_that_was_said(wire: Wire, before: bytes, then: bytes) -> None:
    """Also when it was said while another request was in hand, or still arriving."""
    await wire.say(before)
    await wire.say(then)
    await wire.answer_it()
    await wire.say(small(b"three", b"X: b\r\n"))
    assert (b"x", b"b") in wire.house.served[-1].raw_headers


async def test_a_request_said_before_waits_its_turn_like_any_other(wire: Wire) -> None:
    await wire.say(small(b"one"))
    await wire.say(small(b"two"))
    assert len(wire.house.served) == 1
    await wire.answer_it()
    assert [await incoming.body(100) for incoming in wire.house.served] == [b"one", b"two"]
