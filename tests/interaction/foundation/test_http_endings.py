"""How connections end: clients that leave in the middle, and a server that is told to stop while it is busy."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.interaction.foundation.plain_http import (
    CHUNKED,
    GUARD_S,
    HOST,
    TOO_LARGE,
    connected,
    creation,
    get,
    post,
    serving,
)
from tests.interaction.gateway.front_door import entry, eventually, gate, request, until
from tests.kit import Tool, faulty_upstream
from tests.kit.running import Server, clean_environment, running

from toolcrib.http import NO_CONTENT, Request, Response

pytestmark = pytest.mark.anyio


# --- clients that leave ----------------------------------------------------------------------------------------------


async def test_a_client_that_leaves_ends_what_wants_to_end_and_nothing_else() -> None:
    happened: list[str] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def work(_: Any, request: Request) -> Response:
        begun.set()
        try:
            if request.body == b"call":
                request.channel.on_gone = request.channel.cancel
            await goes_on.wait()
        except asyncio.CancelledError:
            happened.append(f"{request.body.decode()} cancelled")
            raise
        happened.append(f"{request.body.decode()} done")
        return NO_CONTENT

    async with serving(work) as port:
        for body in (b"call", b"save"):
            async with connected(port) as client:
                await client.send(post(body, b"Content-Length: 4\r\n"))
                await asyncio.wait_for(begun.wait(), GUARD_S)
                begun.clear()
        await until(lambda: happened == ["call cancelled"], GUARD_S)
        goes_on.set()
        await until(lambda: happened == ["call cancelled", "save done"], GUARD_S)


@pytest.mark.parametrize("after", [post(), b"\0"], ids=["another request", "garbage"])
async def test_a_client_that_leaves_ends_its_call_whatever_it_had_sent_after_it(after: bytes) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def call(_: Any, request: Request) -> Response:
        request.channel.on_gone = request.channel.cancel
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return NO_CONTENT

    async with serving(call) as port, connected(port) as client:
        await client.send(post() + after)
        await asyncio.wait_for(begun.wait(), GUARD_S)
        client.leave()
        await asyncio.wait_for(cancelled.wait(), 1)


async def test_half_a_request_is_never_handled() -> None:
    handled: list[bytes] = []

    async def work(_: Any, request: Request) -> Response:
        handled.append(request.body)
        return NO_CONTENT

    async with serving(work) as port:
        for headers, body in ((b"Content-Length: 5\r\n", b"half"), (CHUNKED, b"4\r\nhalf\r\n")):
            async with connected(port) as client:
                await client.send(post(body, headers))
        async with connected(port) as client:
            await client.send(post(b"whole", b"Content-Length: 5\r\n"))
            await client.answer()
    assert handled == [b"whole"]


async def test_a_write_is_done_though_its_client_said_goodbye(server: Server) -> None:
    async with connected(server.port) as client:
        await client.send(creation(server, "goodbye"))
        client.writer.write_eof()
        await client.rest()
    async with gate(server) as door:

        async def is_there() -> bool:
            return (await door.http.get("toolboxes/goodbye", params={"api-version": "v1"})).status_code == 200

        await eventually(is_there, GUARD_S)


# --- the end of the server -------------------------------------------------------------------------------------------


async def refuses(port: int) -> None:
    """Until the server takes no more connections: it has been told to stop."""
    async with asyncio.timeout(GUARD_S):
        while True:
            try:
                async with connected(port):
                    await asyncio.sleep(0.01)
            except ConnectionError:
                return


async def test_sigterm_answers_what_is_running_and_ends_streams_without_waiting_for_their_clients(
    data_dir: Path,
) -> None:
    async with faulty_upstream([Tool("late", "delay", 0.5)]) as up:
        with running(data_dir) as server:
            async with gate(server) as door, connected(server.port) as stream, connected(server.port) as idle:
                box = await door.box(entry("up", up))
                await box.tools()
                await idle.send(get(b"/healthz"))
                await idle.answer()
                accept = f"Authorization: Bearer {server.token}\r\nAccept: text/event-stream\r\n".encode()
                await stream.send(get(box.url.removeprefix(server.address).encode(), accept))
                assert (await stream.head()).status == 200
                calling = asyncio.create_task(box.post(request("tools/call", {"name": "up.late"})))
                await until(lambda: up.executions["late"] == 1)
                server.process.send_signal(signal.SIGTERM)
                answer = await calling
                assert answer.status_code == 200
                assert answer.headers["connection"] == "close"
                assert await idle.rest() == b""
                assert (await stream.rest()).endswith(b"0\r\n\r\n")
                assert await asyncio.to_thread(server.process.wait, GUARD_S) == 0
            assert "Traceback" not in server.log.read_text()


async def test_a_second_signal_does_not_wait_for_what_is_running(data_dir: Path) -> None:
    async with faulty_upstream([Tool("never", "hang")]) as up:
        with running(data_dir) as server:
            async with gate(server) as door, connected(server.port) as client:
                box = await door.box(entry("up", up))
                await box.tools()
                body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up.never"}}'
                target = box.url.removeprefix(server.address)
                head = f"POST {target} HTTP/1.1\r\nAuthorization: Bearer {server.token}\r\n".encode()
                await client.send(head, HOST, b"Content-Length: %d\r\n\r\n" % len(body), body)
                await until(lambda: up.executions["never"] == 1)
                server.process.send_signal(signal.SIGTERM)
                await refuses(server.port)
                server.process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(server.process.wait, GUARD_S) == 0
            assert "Traceback" not in server.log.read_text()


def certified(directory: Path) -> tuple[dict[str, str], ssl.SSLContext]:
    """The settings of a server with a certificate, and a client's context that trusts it."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    cert, key = directory / "cert.pem", directory / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    key.write_bytes(certificate.private_key_pem.bytes())
    authority.cert_pem.write_to_path(directory / "authority.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]
    return {"TOOLCRIB_TLS_CERT": str(cert), "TOOLCRIB_TLS_KEY": str(key)}, context


async def test_all_of_it_works_over_tls(data_dir: Path, tmp_path: Path) -> None:
    environment, context = certified(tmp_path)
    with running(data_dir, environment=environment) as server:
        async with connected(server.port, context) as client:
            too_large = creation(server, "tls", b"x" * TOO_LARGE, b"Content-Length: %d\r\n" % TOO_LARGE)
            await client.send(creation(server, "tls") + get(b"/openapi.json"), too_large, get(b"/healthz"))
            assert [(await client.answer()).status for _ in range(4)] == [200, 200, 413, 200]
            server.process.send_signal(signal.SIGTERM)
            assert await client.rest() == b""
        assert await asyncio.to_thread(server.process.wait, GUARD_S) == 0


def test_the_command_line_trusts_whom_it_is_told_to(data_dir: Path, tmp_path: Path) -> None:
    environment, _ = certified(tmp_path)
    with running(data_dir, environment=environment) as server:
        endpoint = f"https://localhost:{server.port}/api/projects/default"
        known = {"TOOLCRIB_ENDPOINT": endpoint, "TOOLCRIB_TOKEN": server.token}
        listed = [sys.executable, "-c", "import toolcrib.cli.main as m; raise SystemExit(m.run())", "toolbox", "list"]
        for more, code, said in (({}, 5, "not trusted"), ({"SSL_CERT_FILE": str(tmp_path / "authority.pem")}, 0, "")):
            done = subprocess.run(
                listed, env=clean_environment(**known, **more), capture_output=True, text=True, timeout=60, check=False
            )
            assert (done.returncode, said in done.stderr) == (code, True), done.stderr


async def test_the_end_does_not_wait_for_a_pooled_tls_connection(data_dir: Path, tmp_path: Path) -> None:
    environment, context = certified(tmp_path)
    with running(data_dir, environment=environment) as server:
        plain = socket.create_connection(("127.0.0.1", server.port), GUARD_S)
        with context.wrap_socket(plain, server_hostname="localhost") as pooled:  # nobody reads from it
            pooled.sendall(get(b"/healthz"))
            assert pooled.recv(12) == b"HTTP/1.1 200"
            server.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(server.process.wait, GUARD_S) == 0
