"""The HTTP client against servers that are written byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trustme

from toolcrib import egress, errors

pytestmark = pytest.mark.anyio

REQUEST = b"POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[egress.Origin]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(10):
            yield egress.Origin("https" if tls else "http", "localhost" if tls else "127.0.0.1", port)
    finally:
        server.close()


async def take(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)


def pool(origin: egress.Origin, tls: ssl.SSLContext | None = None) -> egress.HttpPool:
    return egress.HttpPool(origin, source="up", connect_s=2.0, tls=tls)


def always(*pieces: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await take(reader)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    return talk


async def test_one_connection_serves_many_requests() -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await always(OK)(reader, writer)

    async with serving(talk) as origin:
        client = pool(origin)
        for _ in range(5):
            assert (await client.send(REQUEST, limit=100)).body == b"ok"
        await client.aclose()
    assert connections == 1


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([bytes([byte]) for byte in OK], b"ok"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"], b"ok"),
        ([b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK], b"ok"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], b"ok"),
        ([b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"], b""),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
    ],
)
async def test_answers_in_every_legal_form(pieces: list[bytes], body: bytes) -> None:
    async with serving(always(*pieces)) as origin:
        client = pool(origin)
        assert (await client.send(REQUEST, limit=100)).body == body
        assert (await client.send(REQUEST, limit=100)).body == body
        await client.aclose()


HEAD = b"HTTP/1.1 200 OK\r\nserver: s\r\ncontent-length: %d\r\n\r\n%b"


def _ok(body: bytes) -> bytes:
    return HEAD % (len(body), body)


async def test_answers_with_a_head_that_was_seen_before_are_read_as_they_are() -> None:
    bodies = [b"one", b"", b"one", b"longer than before", b"\r\n\r\n", b"x" * 90]
    answers = iter([_ok(body) for body in bodies])

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await take(reader)
            writer.write(answer)

    async with serving(talk) as origin:
        client = pool(origin)
        for body in bodies:
            answer = await client.send(REQUEST, limit=100)
            assert (answer.body, answer.status, answer.headers["server"]) == (body, 200, "s")
        await client.aclose()


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (_ok(b"x" * 101), errors.AnswerTooLarge),
        (_ok(b"two").replace(b": 3", b": 4"), errors.Unreachable),
        (_ok(b"two").replace(b": 3", b": 3\r\ntransfer-encoding: chunked"), errors.BadAnswer),
        (_ok(b"two").replace(b"server: s", b"content-encoding: br"), errors.BadAnswer),
        (_ok(b"two").replace(b"200 OK", b"2OO OK"), errors.BadAnswer),
    ],
    ids=["too large", "too short", "two lengths", "compressed", "no HTTP"],
)
async def test_a_second_answer_is_judged_like_the_first(second: bytes, error: type[errors.SourceError]) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take(reader)
        writer.write(_ok(b"one"))
        await take(reader)
        writer.write(second)

    async with serving(talk) as origin:
        client = pool(origin)
        assert (await client.send(REQUEST, limit=100)).body == b"one"
        with pytest.raises(error):
            await client.send(REQUEST, limit=100)
        await client.aclose()


async def test_a_body_may_end_with_the_connection() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nto the end")

    async with serving(talk) as origin:
        assert (await pool(origin).send(REQUEST, limit=100)).body == b"to the end"


async def test_a_connection_that_was_closed_while_idle_is_not_used_for_a_request_that_must_not_be_lost() -> None:
    seen = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        await take(reader)
        seen += 1
        writer.write(OK)
        await writer.drain()
        writer.transport.abort()

    async with serving(talk) as origin:
        client = pool(origin)
        for expected in range(1, 21):
            assert (await client.send(REQUEST, limit=100)).body == b"ok"
            assert seen == expected
        await client.aclose()


async def test_a_connection_idle_for_too_long_is_left_alone() -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await always(b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-length: 2\r\n\r\nok")(reader, writer)

    async with serving(talk) as origin:
        client = pool(origin)
        await client.send(REQUEST, limit=100)
        await client.send(REQUEST, limit=100)
        await client.aclose()
    assert connections == 2


async def test_a_connection_that_breaks_before_the_answer_may_have_been_read() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take(reader)

    async with serving(talk) as origin:
        with pytest.raises(errors.Unreachable) as broken:
            await pool(origin).send(REQUEST, limit=100)
    assert broken.value.sent is True


async def test_nobody_listening_means_nothing_was_sent() -> None:
    async with serving(always(OK)) as origin:
        pass
    with pytest.raises(errors.Unreachable) as gone:
        await pool(origin).send(REQUEST, limit=100)
    assert gone.value.sent is False


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"SSH-2.0-OpenSSH\r\n", errors.BadAnswer),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-encoding: gzip\r\n\r\nok", errors.BadAnswer),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n", errors.AnswerTooLarge),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n" + b"x" * 255 + b"\r\n", errors.AnswerTooLarge),
        (b"HTTP/1.1 200 OK\r\n" + b"x-filler: " + b"x" * 500_000, errors.BadAnswer),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", errors.BadAnswer),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", errors.BadAnswer),
    ],
)
async def test_answers_that_are_not_acceptable(answer: bytes, error: type[errors.SourceError]) -> None:
    async with serving(always(answer)) as origin:
        with pytest.raises(error):
            await pool(origin).send(REQUEST, limit=100)


async def test_bytes_nobody_asked_for_close_the_connection_and_reach_nobody() -> None:
    async with serving(always(OK + OK)) as origin:
        client = pool(origin)
        for _ in range(3):
            assert (await client.send(REQUEST, limit=100)).body == b"ok"
        await client.aclose()


async def test_a_stream_waits_for_its_reader_and_gives_its_connection_back() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"

    async with serving(always(head, *[chunk] * 64, b"0\r\n\r\n")) as origin:
        client = pool(origin)
        answer = await client.send(REQUEST, limit=100)
        assert answer.streamed
        size = 0
        while piece := await answer.read():
            assert len(piece) <= egress.STREAM_BUFFER_BYTES + 512 * 1024
            size += len(piece)
            await asyncio.sleep(0)
        assert size == 64 * 65536
        await client.aclose()


async def test_a_cancelled_request_closes_its_connection() -> None:
    closed = asyncio.Event()
    asked = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take(reader)
        asked.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        closed.set()

    async with serving(talk) as origin:
        task = asyncio.create_task(pool(origin).send(REQUEST, limit=100))
        await asked.wait()
        task.cancel()
        await asyncio.wait([task])
        await closed.wait()


async def test_tls_is_verified_against_the_trust_store() -> None:
    authority = trustme.CA()
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server_tls)
    trusting = egress.trust_store()
    authority.configure_trust(trusting)
    async with serving(always(OK), server_tls) as origin:
        client = pool(origin, trusting)
        assert (await client.send(REQUEST, limit=100)).body == b"ok"
        assert (await client.send(REQUEST, limit=100)).body == b"ok"
        await client.aclose()
        with pytest.raises(errors.Unreachable, match="certificate"):
            await pool(origin, egress.trust_store()).send(REQUEST, limit=100)


async def test_a_name_that_does_not_resolve_is_a_matter_of_dns() -> None:
    origin = egress.Origin("http", "no-such-host.invalid", 80)
    with pytest.raises(errors.Unreachable) as gone:
        await pool(origin).send(REQUEST, limit=100)
    assert gone.value.sent is False


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://", "https://user:pw@host/", "//host", "http://[::1"])
def test_only_plain_http_addresses_are_origins(url: str) -> None:
    with pytest.raises(ValueError):
        egress.Origin.of(url)


def test_ports_and_ipv6_appear_in_the_host_header_as_they_must() -> None:
    assert egress.Origin.of("https://Example.com/x").host_header == "example.com"
    assert egress.Origin.of("http://[::1]:8080/x").host_header == "[::1]:8080"


def test_a_header_cannot_carry_a_line_break() -> None:
    with pytest.raises(ValueError):
        egress.head("GET", "/", egress.Origin("http", "x", 80), {"a": "b\r\nc: d"})
