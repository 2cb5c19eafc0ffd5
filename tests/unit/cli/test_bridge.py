"""The stdio bridge against a scripted endpoint: what it sends beside each message, and what it writes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2

from toolcrib.cli.bridge import Bridge

Handler = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
URL = "http://127.0.0.1:1/mcp?api-version=v1"
MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
LIMIT_S = 20


def relayed(handler: Handler, *messages: object) -> list[Any]:
    """What the client reads after sending these messages."""
    written: list[Any] = []

    async def lines() -> AsyncIterator[bytes]:
        for message in messages:
            yield message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            await asyncio.sleep(0)

    async def run() -> None:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(handler)) as http:
            bridge = Bridge(http, URL, lambda line: written.append(json.loads(line)))
            await asyncio.wait_for(bridge.run(lines()), LIMIT_S)

    asyncio.run(run())
    return written


def reply(request: httpx2.Request, **result: object) -> httpx2.Response:
    return httpx2.Response(200, json={"jsonrpc": "2.0", "id": json.loads(request.content)["id"], "result": result})


def test_a_session_is_remembered_and_ends_with_stdin() -> None:
    seen: list[tuple[str, str | None, str | None]] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        headers = request.headers
        seen.append((request.method, headers.get("mcp-session-id"), headers.get("mcp-protocol-version")))
        if request.method == "DELETE":
            return httpx2.Response(204)
        answered = reply(request, protocolVersion="2025-11-25")
        answered.headers["mcp-session-id"] = "s1"
        return answered

    first = relayed(answer, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
    assert first[0]["result"]["protocolVersion"] == "2025-11-25"
    assert seen == [("POST", None, None), ("DELETE", "s1", "2025-11-25")]


def test_a_stateless_request_carries_the_headers_its_era_wants() -> None:
    seen: list[httpx2.Headers] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers)
        return reply(request)

    relayed(answer, {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "größe", **MODERN}})
    assert seen[0]["mcp-protocol-version"] == "2026-07-28"
    assert seen[0]["mcp-method"] == "tools/call"
    assert seen[0]["mcp-name"] == "=?base64?Z3LDtsOfZQ==?="


def test_every_event_of_a_stream_becomes_one_line() -> None:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        events = (
            'event: message\r\ndata: {"method":"notifications/progress"}\r\n\r\n: ping\r\n\r\ndata: {"id":1}\r\n\r\n'
        )
        return httpx2.Response(200, text=events, headers={"content-type": "text/event-stream"})

    written = relayed(answer, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}})
    assert written == [{"method": "notifications/progress"}, {"id": 1}]


def test_a_slow_request_does_not_hold_up_the_next() -> None:
    second_came = asyncio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if json.loads(request.content)["id"] == 1:
            await second_came.wait()
        else:
            second_came.set()
        return reply(request)

    asked = [{"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}} for number in (1, 2)]
    assert {message["id"] for message in relayed(answer, *asked)} == {1, 2}


def test_cancelling_a_stateless_request_closes_it() -> None:
    started, closed = asyncio.Event(), asyncio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        message = json.loads(request.content)
        if message["id"] == 1:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                closed.set()
        await started.wait()
        return reply(request)

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", **MODERN}}
    other = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": MODERN}
    stop = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    written = relayed(answer, call, other, stop)
    assert [message["id"] for message in written] == [2]


def test_a_refusal_before_json_rpc_becomes_an_error_with_the_request_s_id() -> None:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(401, json={"error": {"code": "unauthenticated", "message": "no"}})

    written = relayed(answer, {"jsonrpc": "2.0", "id": 7, "method": "tools/list"})
    error = {"code": -32603, "message": "no", "data": {"code": "unauthenticated"}}
    assert written == [{"jsonrpc": "2.0", "id": 7, "error": error}]


def test_no_server_no_json_and_no_sense_are_answered_too() -> None:
    async def gone(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    async def html(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(502, text="<html>")

    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    assert relayed(gone, request)[0]["error"]["code"] == -32603
    assert relayed(html, request)[0]["error"]["code"] == -32603
    assert relayed(html, b"{nonsense\n")[0]["error"]["code"] == -32700
