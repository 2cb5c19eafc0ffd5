"""HTTP/1.1 over real sockets: what clients may send, what they get, and what they can make us hold.

Most tests talk to a running server. Those that need a handler of their own serve it in this process, behind the same
edge and the same connections.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
from tests.interaction.foundation.plain_http import (
    BODY,
    CHUNKED,
    GUARD_S,
    HOST,
    SIZED,
    TOO_LARGE,
    UPGRADE,
    Client,
    connected,
    creation,
    get,
    in_chunks,
    post,
    serving,
)
from tests.interaction.gateway.front_door import until
from tests.kit.running import Server

from toolcrib.http import Request, Response
from toolcrib.web import line

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with connected(server.port) as it:
        yield it
    assert "Traceback" not in server.log.read_text()


# --- requests --------------------------------------------------------------------------------------------------------


async def test_requests_in_one_packet_are_answered_in_their_order(server: Server, client: Client) -> None:
    turns = [creation(server, "in-order") if n % 10 == 0 else get(b"/nothing/%d" % n) for n in range(200)]
    await client.send(b"".join(turns))
    for number in range(200):
        answer = await client.answer()
        expected = b'"name":"in-order"' if number % 10 == 0 else b"/nothing/%d." % number
        assert expected in answer.body


async def test_a_request_may_arrive_byte_by_byte(server: Server, client: Client) -> None:
    for request_bytes in (
        creation(server, "bytes"),
        creation(server, "bytes", in_chunks(BODY) + b"0\r\n\r\n", CHUNKED),
    ):
        await client.send(*(bytes([byte]) for byte in request_bytes))
        assert (await client.answer()).status == 200


async def test_headers_in_two_pieces_may_be_followed_by_any_body() -> None:
    async def measured(_: Any, request: Request) -> Response:
        return Response(200, b"%d" % len(request.body))

    async with serving(measured) as port, connected(port) as client:
        whole = post(b"x" * 200_000, b"Content-Length: 200000\r\n")
        await client.send(whole[:20])
        await asyncio.sleep(0.05)  # so that they are two reads
        await client.send(whole[20:])
        assert (await client.answer()).body == b"200000"


REFUSED = {
    "a chunk without a size": post(in_chunks(BODY) + b"zz\r\n", CHUNKED),
    "a chunk longer than it says": post(b"2\r\nabc\r\n0\r\n\r\n", CHUNKED),
    "both lengths": post(in_chunks(BODY) + b"0\r\n\r\n", SIZED + CHUNKED),
    "both lengths the other way round": post(in_chunks(BODY) + b"0\r\n\r\n", CHUNKED + SIZED),
    "two lengths": post(BODY, SIZED + SIZED),
    "a list of lengths": post(BODY, b"Content-Length: 33, 33\r\n"),
    "a length with a sign": post(BODY, b"Content-Length: +33\r\n"),
    "an empty length": post(BODY, b"Content-Length: \r\n"),
    "a coding that does not end": post(BODY, b"Transfer-Encoding: chunked, gzip\r\n"),
    "bare line feeds": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "a bare carriage return": get(b"/", b"X-Request-Id: a\rX-Evil: b\r\n"),
    "a NUL": get(b"/", b"X-Request-Id: a\0b\r\n"),
    "a folded line": get(b"/", b"X-Request-Id: a\r\n b\r\n"),
    "a space before the colon": get(b"/", b"X-Request-Id : a\r\n"),
    "CONNECT": b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", REFUSED.values(), ids=REFUSED)
async def test_what_could_be_read_in_two_ways_is_refused_and_ends_the_connection(
    client: Client, request_bytes: bytes
) -> None:
    await client.send(request_bytes, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await client.answer()
    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    assert b'"bad_request"' in answer.body
    assert await client.rest() == b""


async def test_what_was_asked_before_garbage_is_still_answered(client: Client) -> None:
    await client.send(get(b"/healthz") + get(b"/openapi.json") + b"\0\r\n\r\n")
    assert (await client.answer()).status == 200
    assert b'"openapi"' in (await client.answer()).body


@pytest.mark.parametrize("name", [b"Host", b"Authorization", b"X-Toolcrib-User"])
async def test_who_asks_whom_is_said_once(server: Server, client: Client, name: bytes) -> None:
    await client.send(get(b"/healthz", b"%b: somebody\r\n%b: else\r\n" % (name, name)))
    answer = await client.answer()
    assert answer.status == 400
    assert b"more than once" in answer.body


async def test_trailers_are_no_headers(server: Server, client: Client) -> None:
    trailers = f"0\r\nX-Request-Id: trailer\r\nAuthorization: Bearer {server.token}\r\nX-End: 1\r\n\r\n".encode()
    known = creation(server, "sly", in_chunks(BODY) + trailers, CHUNKED)
    anonymous = re.sub(rb"Authorization: [^\r]*\r\n", b"", known, count=1)
    await client.send(anonymous)
    answer = await client.answer()
    assert answer.status == 401
    assert answer.headers["x-request-id"] != "trailer"


@pytest.mark.parametrize("value", [b"100-continue", b"100-Continue"])
async def test_a_client_that_asks_first_is_told_to_go_on(server: Server, client: Client, value: bytes) -> None:
    await client.send(creation(server, "asked", b"", SIZED + b"Expect: " + value + b"\r\n"))
    assert (await client.head()).status == 100
    await client.send(BODY)
    assert (await client.answer()).status == 200


async def test_a_client_that_asks_first_is_refused_before_it_sends(server: Server, client: Client) -> None:
    head = b"Content-Length: %d\r\nExpect: 100-continue\r\n" % TOO_LARGE
    await client.send(creation(server, "asked", b"", head))
    assert (await client.answer()).status == 413


@pytest.mark.parametrize("headers", [SIZED, CHUNKED], ids=["sized", "chunked"])
async def test_a_request_that_offers_another_protocol_is_served_with_its_body(
    server: Server, client: Client, headers: bytes
) -> None:
    body = BODY if headers == SIZED else in_chunks(BODY) + b"0\r\n\r\n"
    whole = creation(server, "offered", body, headers + UPGRADE)
    for pieces in ([whole], [whole[:-10], whole[-10:]]):
        await client.send(*pieces, get(b"/healthz"))
        assert b'"name":"offered"' in (await client.answer()).body
        assert (await client.answer()).status == 200


async def test_an_offer_does_not_undo_what_the_request_says_of_its_connection(client: Client) -> None:
    await client.send(get(b"/healthz", b"Connection: close, Upgrade\r\nUpgrade: h2c\r\n"))
    assert (await client.answer()).headers.get("connection") == "close"
    assert await client.rest() == b""


async def test_any_number_of_offers_may_come_in_one_packet(client: Client) -> None:
    await client.send(get(b"/healthz", b"Connection: Upgrade\r\nUpgrade: x\r\n") * 800)
    for _ in range(800):
        assert (await client.answer()).status == 200


async def test_a_target_may_be_a_whole_url_or_none_at_all(client: Client) -> None:
    await client.send(get(b"http://localhost/healthz"), b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n")
    assert (await client.answer()).status == 200
    assert (await client.answer()).status == 404


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_every_answer_is_dated_and_has_an_id_and_no_line_of_the_clients(server: Server, client: Client) -> None:
    sly = [b"/x%0d%0ax-evil:%201", b"/api/projects/a%0d%0ax-evil:%201/toolboxes?api-version=v1", b"/healthz?a=%0d%0a"]
    for target in sly:
        await client.send(get(target, b"X-Ms-Client-Request-Id: a\tb\r\n"))
        answer = await client.answer()
        assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", answer.headers["date"])
        assert re.fullmatch(r"[0-9a-f]{8}-\d+", answer.headers["x-request-id"])
        assert "x-evil" not in answer.headers


async def test_head_is_answered_without_a_body(client: Client) -> None:
    await client.send(b"HEAD /healthz HTTP/1.1\r\n" + HOST + b"\r\n", get(b"/healthz"))
    assert int((await client.answer(bodiless=True)).headers["content-length"]) > 0
    assert b'"ok"' in (await client.answer()).body


@pytest.mark.parametrize(
    ("headers", "version", "said"),
    [
        (b"", b"1.1", None),
        (b"Connection: close\r\n", b"1.1", "close"),
        (b"", b"1.0", "close"),
        (b"Connection: keep-alive\r\n", b"1.0", "keep-alive"),
    ],
)
async def test_a_connection_stays_open_when_the_client_wants_it(
    client: Client, headers: bytes, version: bytes, said: str | None
) -> None:
    await client.send(get(b"/healthz", headers, version), get(b"/healthz", b"Connection: close\r\n"))
    assert (await client.answer()).headers.get("connection") == said
    assert (await client.rest()).count(b"HTTP/1.1 200") == (said != "close")


async def test_a_client_of_http_1_0_gets_its_stream_without_chunks() -> None:
    async def stream(_: Any, request: Request) -> None:
        request.channel.start([])
        await request.channel.end(b"piece")

    async with serving(stream) as port:
        for after in (b"", post()):  # whatever follows it on the connection
            async with connected(port) as client:
                await client.send(post(b"", b"Connection: keep-alive\r\n", b"1.0") + after)
                assert "transfer-encoding" not in (await client.head()).headers
                assert await client.rest() == b"piece"


async def test_a_crash_after_a_stream_began_breaks_it_off(caplog: pytest.LogCaptureFixture) -> None:
    async def crash(_: Any, request: Request) -> None:
        request.channel.start([])
        await request.channel.write(b"piece")
        raise RuntimeError("halfway")

    async with serving(crash) as port, connected(port) as client:
        await client.send(post(), post())
        assert (await client.head()).status == 200
        assert b"0\r\n\r\n" not in await client.rest()
    assert "halfway" in caplog.text


# --- what a client may make us hold ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [(b"x" * 70_000 + b"\r\n\r\n",), (b"x" * 60_000, b"x" * 10_000), (b"x" * 60_000, b"x" * 10_000 + b"\r\n\r\n")],
    ids=["in one piece", "without an end", "in two pieces"],
)
async def test_headers_over_64_kib_are_refused(client: Client, pieces: tuple[bytes, ...]) -> None:
    await client.send(get(b"/healthz", b"X-Large: ")[:-2] + pieces[0])
    for piece in pieces[1:]:
        await asyncio.sleep(0.02)  # so that they are two reads
        await client.send(piece)
    assert (await client.answer()).status == 413
    assert await client.rest() == b""


async def test_trailers_are_bounded_like_headers(server: Server, client: Client) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    client.writer.write(creation(server, "endless", b"0\r\n", CHUNKED))
    for _ in range(50):
        if client.writer.is_closing():
            break
        client.writer.write(b"a: b\r\n" * 10_000)
        await asyncio.sleep(0.005)
    async with connected(server.port) as other:  # by now it has read what was sent before
        await other.send(get(b"/healthz"))
        await other.answer()
    assert process.memory_info().rss - before < 20 * 2**20


@pytest.mark.parametrize("coding", ["sized", "chunked"])
@pytest.mark.parametrize("headers", [b"", b"Connection: close\r\n"], ids=["stays", "closes"])
async def test_a_client_that_sends_all_of_a_body_that_is_too_large_reads_why_it_was_refused(
    server: Server, client: Client, coding: str, headers: bytes
) -> None:
    body = b"x" * TOO_LARGE
    if coding == "sized":
        whole = creation(server, "large", body, b"Content-Length: %d\r\n" % len(body) + headers)
    else:
        whole = creation(server, "large", in_chunks(body, 50_000) + b"0\r\n\r\n", CHUNKED + headers)
    await client.send(*(whole[at : at + 100_000] for at in range(0, len(whole), 100_000)))
    answer = await client.answer()
    assert (answer.status, answer.headers.get("connection")) == (413, "close" if headers else None)
    if not headers:
        await client.send(get(b"/healthz"))
        assert (await client.answer()).status == 200


async def test_a_client_that_reads_no_answers_is_not_asked_for_more_requests() -> None:
    served = 0

    async def large(_: Any, __: Request) -> Response:
        nonlocal served
        served += 1
        return Response(200, b"x" * 2**20)

    async with serving(large) as port, connected(port, rcvbuf=2**16) as client:
        await client.send(post() * 60)
        with pytest.raises(TimeoutError):
            await until(lambda: served == 60, 0.5)
        for _ in range(60):
            assert len((await client.answer()).body) == 2**20


async def test_a_stream_waits_for_a_client_that_is_slow_to_read() -> None:
    written = 0
    ended = asyncio.Event()

    async def endless(_: Any, request: Request) -> None:
        nonlocal written
        request.channel.start([])
        while not request.channel.is_gone:
            await request.channel.write(b"x" * 2**16)
            written += 1
        ended.set()

    async with serving(endless) as port, connected(port, rcvbuf=2**16) as client:
        await client.send(post())
        with pytest.raises(TimeoutError):
            await until(lambda: written > 1000, 0.3)
        client.leave()
        await asyncio.wait_for(ended.wait(), GUARD_S)


async def test_a_client_that_reads_slowly_but_steadily_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "SLOW_READER_S", 0.5)

    async def large(_: Any, __: Request) -> Response:
        return Response(200, b"x" * 2**24)

    async with serving(large) as port, connected(port, rcvbuf=2**16) as client:
        await client.send(post())
        await client.head()
        for _ in range(2**4):
            await client.reader.readexactly(2**20)
            await asyncio.sleep(0.2)
