"""What time does to a connection: idle, stalled and unread ones end, and nothing else does."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from toolcrib.web.connection import BODY_AHEAD_BYTES, KEEP_ALIVE_S, SLOW_READER_S, STALL_S, Connection, Incoming

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

    async def serve(self, incoming: Incoming, /) -> None:
        self.served.append(incoming)
        if self.reads:
            await incoming.body(2**30)
        await self.release.wait()
        incoming.answer(200, [], b"done")

    def enter(self, connection: Connection) -> None: ...

    def leave(self, connection: Connection) -> None: ...


class Line:
    """A connection with a house at one end and a test at the other."""

    def __init__(self) -> None:
        self.house = House()
        self.transport = Transport()
        self.connection = Connection(self.house)
        self.connection.connection_made(cast("asyncio.Transport", self.transport))

    async def say(self, data: bytes) -> None:
        self.connection.data_received(data)
        for _ in range(5):
            await asyncio.sleep(0)

    def after(self, seconds: float) -> bool:
        """Is it still there this much later?"""
        self.house.now += seconds
        self.connection.look(self.house.now)
        return not self.transport.is_aborted

    async def answer_it(self) -> None:
        self.house.release.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert self.transport.written.endswith(b"done")


@pytest.fixture
async def line() -> Line:
    return Line()


async def test_a_connection_without_a_request_ends_when_it_has_been_kept_long_enough(line: Line) -> None:
    assert line.after(KEEP_ALIVE_S)
    assert not line.after(1)


async def test_the_time_a_connection_is_kept_counts_from_its_last_answer(line: Line) -> None:
    await line.say(GET)
    assert line.after(KEEP_ALIVE_S + 1)
    await line.answer_it()
    assert line.after(KEEP_ALIVE_S)
    assert not line.after(1)


async def test_a_request_in_hand_may_take_as_long_as_it_takes(line: Line) -> None:
    await line.say(GET)
    assert line.after(10 * KEEP_ALIVE_S)


async def test_headers_that_trickle_in_do_not_hold_a_connection(line: Line) -> None:
    await line.say(b"GET / HTTP/1.1\r\n")
    for _ in range(int(STALL_S)):
        assert line.after(1)
        await line.say(b"a: b\r\n")
    assert not line.after(1)
    assert line.house.served == []


async def test_a_body_that_stalls_ends_its_request_and_one_that_moves_does_not(line: Line) -> None:
    await line.say(POST)
    for _ in range(3):
        await line.say(b"x")
        assert line.after(STALL_S)
    assert not line.after(1)


async def test_a_body_that_we_do_not_take_is_not_its_clients_fault(line: Line) -> None:
    line.house.reads = False
    await line.say(POST)
    await line.say(b"x" * (BODY_AHEAD_BYTES + 1))
    assert not line.transport.is_reading
    assert line.after(STALL_S + 1)


async def test_chunks_without_content_do_not_hold_a_connection(line: Line) -> None:
    await line.say(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a=")
    for _ in range(int(STALL_S)):
        assert line.after(1)
        await line.say(b"b")
    assert not line.after(1)


async def test_a_line_end_too_many_is_not_the_beginning_of_a_request(line: Line) -> None:
    await line.say(GET + b"\r\n")
    assert line.after(STALL_S + 1)
    await line.answer_it()
    assert line.after(STALL_S + 1)


async def test_a_client_that_reads_nothing_of_its_answer_is_cut_off(line: Line) -> None:
    await line.say(GET)
    line.connection.pause_writing()
    await line.answer_it()
    assert line.after(SLOW_READER_S)
    assert not line.after(1)


async def test_a_client_that_has_read_its_answer_is_just_idle(line: Line) -> None:
    await line.say(GET)
    line.connection.pause_writing()
    await line.answer_it()
    assert line.after(SLOW_READER_S)
    line.connection.resume_writing()
    assert line.after(1)


async def test_a_client_that_reads_nothing_cannot_stay_by_asking_for_more(line: Line) -> None:
    line.house.release.set()
    await line.say(GET)
    line.connection.pause_writing()
    for _ in range(int(SLOW_READER_S)):
        assert line.after(1)
        if line.transport.is_reading:
            await line.say(GET)
    assert not line.after(1)


async def test_requests_wait_until_what_was_answered_has_been_read(line: Line) -> None:
    line.house.release.set()
    await line.say(GET)
    line.connection.pause_writing()
    await line.say(GET + GET)
    assert len(line.house.served) < 3
    line.connection.resume_writing()
    await line.say(b"")
    assert len(line.house.served) == 3


async def test_a_stream_that_ends_while_the_server_stops_ends_its_connection(line: Line) -> None:
    line.house.reads = False
    await line.say(GET)
    (incoming,) = line.house.served
    await incoming.start([])
    line.house.is_closing = True
    line.connection.close()
    assert not line.transport.is_closed
    await incoming.end(b"last")
    assert line.transport.is_closed
