"""The express counter must not be noticed: the second time is answered like the first, and nothing stays behind.

The server runs in this process, behind a real socket, so that a test can see which way a request took.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.foundation.plain_http import Answer, Client, connected
from tests.interaction.gateway.front_door import Message, entry, request, routing, stateless, until
from tests.kit import FaultyUpstream, Tool, faulty_upstream

from toolcrib import app, settings
from toolcrib.errors import Unreachable
from toolcrib.storage import records_calls
from toolcrib.upstreams.dialogue import SHARED
from toolcrib.web.incoming import Incoming
from toolcrib.web.server import HttpServer

pytestmark = pytest.mark.anyio
TOKEN = "express-operator-token-0123456789"
_PROPERTIES = {"authType": "ApiKey", "category": "CustomKeys", "target": "", "credentials": {"key": "first"}}
KEYED: Message = {"properties": _PROPERTIES}
RAW: Message = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": []},
    "subscriptions/listen": {},
}
_OWN = ("date", "x-request-id")


@dataclass
class Shop:
    """A server with one toolbox `box`, and which requests went over the express counter."""

    port: int
    it: app.Opened
    server: HttpServer
    ways: list[bool] = field(default_factory=list[bool])

    async def rest(self, method: str, path: str, body: Message | None = None) -> Message:
        raw = json.dumps(body or {}).encode()
        head = {"host": "localhost", "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        async with connected(self.port) as client:
            await client.send(_http(method, f"/api/projects/default/{path}?api-version=v1", head, raw))
            answer = await client.answer()
        assert answer.status < 300, answer
        return json.loads(answer.body or b"{}")

    async def stock(self, *entries: Message) -> None:
        await self.rest("POST", "toolboxes/box/versions", {"tools": list(entries)})

    async def records(self) -> list[tuple[int, str, str]]:
        """(version, tool, outcome) of every call that was recorded."""
        calls = self.it.crib.counter.calls
        await calls.flush()
        found = await calls._db.read(lambda tx: list(records_calls.calls_of(tx, "default", "box")))
        return [(record.version, record.tool, record.outcome) for record in found]

    async def outcomes(self) -> list[str]:
        return [outcome for _, _, outcome in await self.records()]

    @property
    def guards(self) -> list[Any]:
        return list(self.it.crib.counter.plumbing._pool._guards.values())  # pyright: ignore[reportAttributeAccessIssue]

    def is_at_rest(self) -> bool:
        """Every slot is free, nothing is on its way."""
        free = all(guard._free == guard.limits.concurrent for guard in self.guards)
        return free and self.nothing_crosses()

    def nothing_crosses(self) -> bool:
        return not self.it.edge._express.crossings._running


@asynccontextmanager
async def shop(where: Path, **overrides: Any) -> AsyncGenerator[Shop]:
    given = {"log_level": "error", "admin_token": TOKEN, "max_result_bytes": 1_000_000, **overrides}
    async with app.opened(settings.load(None, where, given)) as it:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ways: list[bool] = []

            def hasten(incoming: Incoming) -> bool:
                ways.append(it.edge.hasten(incoming))
                return ways[-1]

            server = HttpServer(it.edge, hasten=hasten, on_stop=it.gateway.close)
            found = Shop(listener.getsockname()[1], it, server, ways)
            served = asyncio.create_task(server.run(listener))
            try:
                yield found
            finally:
                server.stop()
                await served


def _http(method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "content-length": str(len(body))}.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body


def call(name: str, arguments: Any = None, *, token: str = TOKEN, path: str = "mcp", **changes: Any) -> bytes:
    """A stateless call; `changes` are made to the message after its headers were."""
    params = stateless("tools/call", {"name": name, "arguments": {} if arguments is None else arguments})
    head = {"host": "localhost", "authorization": f"Bearer {token}", "content-type": "application/json"}
    message = {**request("tools/call", params), **changes}
    target = f"/api/projects/default/toolboxes/box/{path}?api-version=v1"
    return _http("POST", target, {**head, **routing("tools/call", params)}, json.dumps(message).encode())


def with_body(sent: bytes, body: bytes) -> bytes:
    """The same head in front of another body."""
    head, _, before = sent.partition(b"\r\n\r\n")
    return head.replace(b"content-length: %d" % len(before), b"content-length: %d" % len(body)) + b"\r\n\r\n" + body


async def begin_slow(it: Shop, up: FaultyUpstream, client: Client, text: str = "well", token: str = TOKEN) -> None:
    """`slow` is on its way, sent ahead. Its head is known from a call that was refused before it left the house."""
    before = up.executions["slow"]
    await ask(client, call("up.echo", token=token))
    await ask(client, with_body(call("up.slow", token=token), b"{}"))
    await client.send(call("up.slow", {"text": text}, token=token))
    await until(lambda: up.executions["slow"] == before + 1)
    assert it.ways[-1] is True


async def ask(client: Client, sent: bytes) -> Answer:
    await client.send(sent)
    return await client.answer()


def said(answer: Answer) -> tuple[int, dict[str, str], Any]:
    """What a client can tell two answers apart by."""
    headers = {name: value for name, value in answer.headers.items() if name not in _OWN}
    assert answer.headers["x-request-id"]
    return answer.status, headers, json.loads(answer.body)


async def test_a_call_repeated_on_its_connection_goes_over_the_express_counter(tmp_path: Path) -> None:
    async with faulty_upstream([Tool("echo")]) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as client:
            first = await ask(client, call("up.echo", {"text": "one"}))
            again = await ask(client, call("up.echo", {"text": "one"}))
            longer = await ask(client, call("up.echo", {"text": "two, and longer"}, id="seven"))
        assert said(first) == said(again)
        assert json.loads(longer.body)["id"] == "seven"
        assert json.loads(longer.body)["result"]["content"][0]["text"] == "two, and longer"
        assert it.ways == [True, True]
        assert up.executions["echo"] == 3
        assert await it.outcomes() == ["ok", "ok", "ok"]
        assert it.is_at_rest()


KINDS: list[tuple[str, float, bool]] = [
    ("error", 0, True),
    ("refuse", 0, True),
    ("delay", 0.3, True),
    ("hang", 0, True),
    ("cut", 20, True),
    ("die", 0, True),
    ("wrong_id", 0, True),
    ("garbage", 0, True),
    ("oversize", 2_000_000, True),
    ("oversize", 500_000, True),
    ("progress", 3, True),
    ("log", 0, False),
    ("elicit", 0, True),
]


@pytest.mark.parametrize(("does", "amount", "ahead"), KINDS, ids=str)
async def test_whatever_comes_back_it_is_the_same_as_on_the_ordinary_way(
    tmp_path: Path, does: Any, amount: float, ahead: bool
) -> None:
    """An echo before each, so that there is a connection open to send the call on.

    `ahead`: the second call is sent ahead. One that was answered in events the first time is not.
    """
    tools = [Tool("echo"), Tool("odd", does, amount)]
    async with faulty_upstream(tools, eras=("modern",)) as up, shop(tmp_path, call_timeout_s=1.0) as it:
        await it.stock(entry("up", up))
        answers: list[Answer] = []
        async with connected(it.port) as client:
            for _ in range(2):
                assert (await ask(client, call("up.echo", {"text": "x"}))).status == 200
                answers.append(await ask(client, call("up.odd", {"text": "x"})))
        ordinary, express = answers
        assert said(ordinary) == said(express)
        assert it.ways[-1] is ahead
        assert up.executions["odd"] == 2
        outcomes = await it.outcomes()
        assert outcomes[1] == outcomes[3]
        assert outcomes[::2] == ["ok", "ok"]
        assert it.is_at_rest()


async def test_an_upstream_that_answers_in_events_is_not_asked_ahead_again(tmp_path: Path) -> None:
    async with faulty_upstream([Tool("echo")], eras=("modern",), answers="sse") as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as client:
            answers = [said(await ask(client, call("up.echo", {"text": "x"}))) for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
        assert it.ways == [False, False]
        assert up.executions["echo"] == 3


VARIANTS: dict[str, Any] = {
    "capabilities": {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}},
    "progress": {"_meta": {"progressToken": 1}},
    "level": {"_meta": {"io.modelcontextprotocol/logLevel": "debug"}},
    "version": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2025-06-18"}},
    "no version": {"_meta": {"io.modelcontextprotocol/protocolVersion": None}},
    "state": {"requestState": "made-up"},
    "responses": {"inputResponses": {}},
    "name": {"name": "up.other"},
    "no arguments": {"arguments": None},
    "wrong arguments": {"arguments": {"text": 5}},
    "arguments no object": {"arguments": [1]},
}


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
async def test_what_is_not_plain_is_answered_as_if_nobody_had_called_before(tmp_path: Path, variant: str) -> None:
    changes = VARIANTS[variant]
    async with faulty_upstream([Tool("echo"), Tool("other")]) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        plain = call("up.echo", {"text": "x"})
        params = json.loads(plain.partition(b"\r\n\r\n")[2])["params"]
        meta = {**params["_meta"], **changes.get("_meta", {})}
        body = json.dumps(request("tools/call", {**params, **changes, "_meta": meta})).encode()
        async with connected(it.port) as client:
            await ask(client, plain)
            seasoned = await ask(client, with_body(plain, body))
        async with connected(it.port) as client:
            fresh = await ask(client, with_body(plain, body))
        if "text/event-stream" in fresh.headers.get("content-type", ""):
            assert seasoned.headers["content-type"] == fresh.headers["content-type"]
        else:
            assert said(seasoned) == said(fresh)
        assert it.ways == [variant == "no arguments"]
        assert it.is_at_rest()


BODIES = {
    "nothing": b"",
    "no JSON": b"{]",
    "half": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{',
    "a batch": b"[]",
    "another method": json.dumps(request("tools/list", stateless("tools/list"))).encode(),
    "a notification": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    "no id": call("up.echo").partition(b"\r\n\r\n")[2].replace(b'"id": 1, ', b""),
    "id of null": call("up.echo", id=None).partition(b"\r\n\r\n")[2],
    "id of floats": call("up.echo", id=1.5).partition(b"\r\n\r\n")[2],
    "id below zero": call("up.echo", id=-4).partition(b"\r\n\r\n")[2],
    "another JSON-RPC": call("up.echo", jsonrpc="1.0").partition(b"\r\n\r\n")[2],
    "bytes that are no text": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\xff"}}',
}


@pytest.mark.parametrize("kind", BODIES, ids=str)
async def test_any_body_behind_a_known_head_is_read_as_behind_a_new_one(tmp_path: Path, kind: str) -> None:
    async with faulty_upstream([Tool("echo")]) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        plain = call("up.echo", {"text": "x"})
        async with connected(it.port) as client:
            await ask(client, plain)
            seasoned = await ask(client, with_body(plain, BODIES[kind]))
        async with connected(it.port) as client:
            fresh = await ask(client, with_body(plain, BODIES[kind]))
        assert (seasoned.status, seasoned.body) == (fresh.status, fresh.body)
        assert it.ways == [False]


async def test_a_body_that_is_too_large_is_refused_behind_a_known_head_too(tmp_path: Path) -> None:
    async with faulty_upstream([Tool("echo")]) as up, shop(tmp_path, max_body_bytes=2_000) as it:
        await it.stock(entry("up", up))
        large = call("up.echo", {"text": "x" * 3_000})
        async with connected(it.port) as client:
            await ask(client, call("up.echo", {"text": "x"}))
            seasoned = await ask(client, large)
        async with connected(it.port) as client:
            assert said(await ask(client, large)) == said(seasoned)
        assert seasoned.status == 413
        assert up.executions["echo"] == 1


async def test_a_key_that_was_revoked_is_refused_on_a_connection_it_has_used(tmp_path: Path) -> None:
    async with faulty_upstream([Tool("echo")]) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        key = await it.rest("POST", "keys", {"role": "agent"})
        mine = call("up.echo", {"text": "x"}, token=key["key"])
        async with connected(it.port) as client:
            assert [(await ask(client, mine)).status for _ in range(2)] == [200, 200]
            await it.rest("DELETE", f"keys/{key['id']}")
            assert (await ask(client, mine)).status == 401
        assert it.ways == [True, False]
        assert up.executions["echo"] == 2


async def test_the_next_call_after_a_promotion_goes_to_the_promoted_version(tmp_path: Path) -> None:
    async with faulty_upstream([Tool("echo")]) as old, faulty_upstream([Tool("echo")]) as new, shop(tmp_path) as it:
        await it.stock(entry("up", old))
        await it.stock(entry("up", new))
        await it.rest("PATCH", "toolboxes/box", {"default_version": "1"})
        async with connected(it.port) as client:
            for _ in range(2):
                await ask(client, call("up.echo"))
            assert (old.executions["echo"], new.executions["echo"]) == (2, 0)
            await it.rest("PATCH", "toolboxes/box", {"default_version": "2"})
            for _ in range(2):
                await ask(client, call("up.echo"))
            assert (old.executions["echo"], new.executions["echo"]) == (2, 2)
            await ask(client, call("up.echo", path="versions/1/mcp"))
            await ask(client, call("up.echo", path="versions/1/mcp"))
        assert (old.executions["echo"], new.executions["echo"]) == (4, 2)
        assert it.ways[-1] is True


async def test_a_changed_credential_counts_from_the_next_call_on(tmp_path: Path) -> None:
    def keyed(key: str) -> Message:
        given = {"authType": "ApiKey", "category": "CustomKeys", "target": "", "credentials": {"key": key}}
        return {"properties": given}

    async with faulty_upstream([Tool("who", "whoami")]) as up, shop(tmp_path) as it:
        await it.rest("PUT", "connections/mine", keyed("first"))
        await it.stock(entry("up", up, project_connection_id="mine"))
        heard: list[str] = []
        async with connected(it.port) as client:
            for key in ("first", "second"):
                await it.rest("PUT", "connections/mine", keyed(key))
                for _ in range(3):
                    answer = await ask(client, call("up.who"))
                    heard.append(json.loads(answer.body)["result"]["content"][0]["text"])
        assert heard == ["Bearer first"] * 3 + ["Bearer second"] * 3
        assert it.ways[-1] is True


async def test_a_tool_that_was_held_back_is_refused_from_then_on(tmp_path: Path) -> None:
    stricter = {"type": "object", "properties": {"text": {"type": "string"}, "to": {"type": "string"}}}
    async with faulty_upstream([Tool("echo")]) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as client:
            for _ in range(2):
                assert not json.loads((await ask(client, call("up.echo"))).body)["result"].get("isError")
            up.set_tools([Tool("echo", schema={**stricter, "required": ["to"]})])
            await it.rest("POST", "toolboxes/box/sources/refresh")
            refused = await ask(client, call("up.echo"))
        async with connected(it.port) as client:
            assert said(await ask(client, call("up.echo"))) == said(refused)
        assert b"held back" in refused.body
        assert up.executions["echo"] == 2


@pytest.mark.parametrize("is_early", [True, False], ids=["at once", "after it was handed over"])
async def test_a_client_that_leaves_takes_its_call_with_it(tmp_path: Path, is_early: bool) -> None:
    async with faulty_upstream([Tool("echo"), Tool("slow", "hang")], eras=("modern",)) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as client:
            await ask(client, call("up.echo"))
            await client.send(call("up.slow"))
            await until(lambda: up.executions["slow"] == 1)
        async with connected(it.port) as client:
            await begin_slow(it, up, client)
            await until(lambda: is_early or it.nothing_crosses())
        await until(it.is_at_rest)
        assert (await it.outcomes()).count("cancelled") == 2
        async with connected(it.port) as client:
            assert (await ask(client, call("up.echo"))).status == 200


CHANGES = ["revoke", "promote", "remove", "connection"]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_call_on_its_way_is_not_touched_by_what_happens_meanwhile(tmp_path: Path, change: str) -> None:
    """It is seen to its end as it was begun, in every book: its answer, its record, its slot."""
    tools = [Tool("echo"), Tool("slow", "delay", 0.4)]
    async with (
        faulty_upstream(tools, eras=("modern",)) as up,
        faulty_upstream(tools, eras=("modern",)) as other,
        shop(tmp_path) as it,
    ):
        await it.rest("PUT", "connections/mine", KEYED)
        await it.stock(entry("up", up, project_connection_id="mine"))
        await it.stock(entry("up", other))
        await it.rest("PATCH", "toolboxes/box", {"default_version": "1"})
        key = await it.rest("POST", "keys", {"role": "agent"})
        async with connected(it.port) as client:
            await begin_slow(it, up, client, "done", key["key"])
            match change:
                case "revoke":
                    await it.it.crib.access.revoke_key("default", key["id"])
                case "promote":
                    await it.rest("PATCH", "toolboxes/box", {"default_version": "2"})
                case "remove":
                    up.set_tools([Tool("echo")])
                    await it.rest("POST", "toolboxes/box/sources/refresh")
                case _:
                    await it.rest("DELETE", "connections/mine")
            answer = await client.answer()
        assert json.loads(answer.body)["result"]["content"][0]["text"] == "done", answer
        assert (up.executions["slow"], other.executions["slow"]) == (1, 0)
        assert (await it.records())[-1] == (1, "slow", "ok")
        assert it.is_at_rest()


async def test_calls_already_sent_are_answered_although_others_have_failed(tmp_path: Path) -> None:
    """The breaker opens for what comes, not for what is on its way."""
    tools = [Tool("echo"), Tool("slow", "delay", 0.4), Tool("bad", "die")]
    async with faulty_upstream(tools, eras=("modern",)) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as slow, connected(it.port) as bad:
            await begin_slow(it, up, slow)
            for _ in range(5):
                await ask(bad, call("up.bad"))
            assert it.guards[0].breaker.is_open
            answer = await slow.answer()
        assert json.loads(answer.body)["result"]["content"][0]["text"] == "well"
        assert it.is_at_rest()


async def test_a_call_on_its_way_needs_no_other_dialogue_than_its_own(tmp_path: Path) -> None:
    tools = [Tool("echo"), Tool("slow", "delay", 0.4)]
    async with faulty_upstream(tools, eras=("modern",)) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as client:
            await begin_slow(it, up, client)
            link = next(iter(it.guards[0].kind._links.values()))
            link._let_go(link._berths[SHARED])  # as after a refusal that made another call doubt it

            async def refuse(lane: object) -> None:
                raise Unreachable("no more dialogues")

            link._opener.open = refuse
            answer = await client.answer()
        assert json.loads(answer.body)["result"]["content"][0]["text"] == "well"


@pytest.mark.parametrize("part", ["gateway.express.eras.complete", "upstreams.dialogue.messages.outcome"])
async def test_a_crash_of_ours_is_answered_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        raise RuntimeError("ours")

    async with faulty_upstream([Tool("echo")], eras=("modern",)) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as client:
            await ask(client, call("up.echo"))
            with monkeypatch.context() as patch:
                patch.setattr(f"toolcrib.{part}", broken)
                answer = await ask(client, call("up.echo"))
            assert json.loads(answer.body)["error"]["message"].endswith(f"{answer.headers['x-request-id']}.")
            with monkeypatch.context() as patch:
                patch.setattr("toolcrib.gateway.express.read_plain_call", broken)
                ordinary = await ask(client, call("up.echo"))
            assert "result" in json.loads(ordinary.body)
        assert it.ways == [True, False]
        assert [record.exc_info is not None for record in caplog.records if "crashed" in record.message] == [True] * 2
        assert it.is_at_rest()


async def test_a_missing_connection_is_refused_every_time_and_logs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with faulty_upstream([Tool("echo")], eras=("modern",)) as up, shop(tmp_path) as it:
        await it.rest("PUT", "connections/mine", KEYED)
        await it.stock(entry("up", up, project_connection_id="mine"))
        async with connected(it.port) as client:
            for _ in range(2):
                await ask(client, call("up.echo"))
            await it.rest("DELETE", "connections/mine")
            refused = [said(await ask(client, call("up.echo"))) for _ in range(3)]
        assert "mine" in str(refused[0])
        assert refused[0] == refused[1] == refused[2]
        gc.collect()
        assert [record.message for record in caplog.records if record.name == "asyncio"] == []


async def test_a_head_is_never_taken_for_that_of_a_request_still_in_hand(tmp_path: Path) -> None:
    tools = [Tool("echo"), Tool("slow", "delay", 0.2)]
    async with faulty_upstream(tools, eras=("modern",)) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        stranger = call("up.echo", token="tck_nobody_at_all")
        async with connected(it.port) as client:
            await client.send(call("up.slow"))
            await until(lambda: up.executions["slow"] == 1)
            await client.send(stranger)
            assert [(await client.answer()).status for _ in range(2)] == [200, 401]
            assert [(await ask(client, stranger)).status for _ in range(3)] == [401] * 3
        assert up.executions["echo"] == 0


WHOLE = b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","content":[]}}'
BROKEN_OFF = {
    "chunks without an end": lambda body: b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(body), body),
    "chunks that break": lambda body: b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\nzz\r\n" % (len(body), body),
    "less than announced": lambda body: b"content-length: %d\r\n\r\n%b" % (len(body) + 5, body),
    "more than may be": lambda body: (
        b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n%x\r\n" % (len(body), body, 2_000_000) + b" " * 2_000_000
    ),
}


@pytest.mark.parametrize("how", BROKEN_OFF, ids=str)
async def test_an_answer_that_broke_off_is_no_answer_although_it_could_be_read(tmp_path: Path, how: str) -> None:
    is_broken = False

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                message = json.loads(await reader.readexactly(size))
                if message["method"] == "tools/call" and is_broken:
                    writer.write(b"HTTP/1.1 200 OK\r\n" + BROKEN_OFF[how](WHOLE % message["id"]))
                    await writer.drain()
                    break
                body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": RAW[message["method"]]}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    upstream = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = upstream.sockets[0].getsockname()[1]
    async with upstream, shop(tmp_path) as it:
        await it.stock(entry("up", f"http://127.0.0.1:{port}/mcp"))
        answers: list[Answer] = []
        async with connected(it.port) as client:
            for is_broken in (False, True, False, True):
                answer = await ask(client, call("up.echo"))
                answers += [answer] if is_broken else []
        assert said(answers[0]) == said(answers[1])
        assert b'"isError":true' in answers[0].body
        assert it.ways[-1] is True
        assert it.is_at_rest()


async def test_every_slot_may_be_taken_by_calls_that_take_their_time(tmp_path: Path) -> None:
    """Each keeps its place when it is handed over, and its deadline began when it was sent."""
    tools = [Tool("echo"), Tool("slow", "delay", 0.3)]
    async with faulty_upstream(tools, eras=("modern",)) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as client:
            await ask(client, call("up.echo"))
        clients = it.guards[0].limits.concurrent
        seconds: list[float] = []
        ready = asyncio.Barrier(clients)

        async def one() -> None:
            async with connected(it.port) as client:
                await ask(client, with_body(call("up.slow"), b"{}"))
                await ask(client, call("up.echo"))
                await ready.wait()
                await ask(client, call("up.echo"))
                answer = await ask(client, call("up.slow", {"text": "there"}))
                assert json.loads(answer.body)["result"]["content"][0]["text"] == "there"

        deadlines, after = it.guards[0].deadlines, it.guards[0].deadlines.after
        deadlines.after = lambda s: seconds.append(s) or after(s)
        await asyncio.gather(*(one() for _ in range(clients)))
        assert it.ways.count(True) > clients // 4
        assert min(seconds) < it.guards[0].limits.call_s <= max(seconds)
        assert it.is_at_rest()


async def test_pieces_and_heaps_of_requests_are_all_answered_in_order(tmp_path: Path) -> None:
    async with faulty_upstream([Tool("echo")]) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as client:
            await ask(client, call("up.echo", {"text": "first"}))
            three = [call("up.echo", {"text": f"{n}"}, id=n) for n in range(3)]
            await client.send(b"".join(three))
            answers = [json.loads((await client.answer()).body)["id"] for _ in three]
            whole = call("up.echo", id=7)
            await client.send(whole[:50])
            await asyncio.sleep(0.02)
            await client.send(whole[50:-5])
            await asyncio.sleep(0.02)
            await client.send(whole[-5:])
            answers.append(json.loads((await client.answer()).body)["id"])
            answers.append(json.loads((await ask(client, call("up.echo", id=8))).body)["id"])
        assert answers == [0, 1, 2, 7, 8]
        assert it.is_at_rest()


async def test_calls_that_were_sent_ahead_are_answered_while_the_server_stops(tmp_path: Path) -> None:
    tools = [Tool("echo"), Tool("slow", "delay", 0.4)]
    async with faulty_upstream(tools, eras=("modern",)) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))
        async with connected(it.port) as client:
            await ask(client, call("up.slow", {"text": "x"}))
            await client.send(call("up.slow", {"text": "last"}))
            await until(lambda: up.executions["slow"] == 2)
            it.server.stop()
            answer = await client.answer()
        assert b"last" in answer.body
        assert answer.headers["connection"] == "close"
        assert it.ways == [True]


async def test_many_at_once_get_their_own_answers(tmp_path: Path) -> None:
    async with faulty_upstream([Tool("echo")]) as up, shop(tmp_path) as it:
        await it.stock(entry("up", up))

        async def one(number: int) -> None:
            async with connected(it.port) as client:
                for turn in range(10):
                    text = f"{number}-{turn}"
                    answer = await ask(client, call("up.echo", {"text": text}))
                    assert json.loads(answer.body)["result"]["content"][0]["text"] == text

        await asyncio.gather(*(one(number) for number in range(40)))
        assert up.executions["echo"] == 400
        assert it.ways.count(True) > 100
        assert it.is_at_rest()
        assert await it.outcomes() == ["ok"] * 400
