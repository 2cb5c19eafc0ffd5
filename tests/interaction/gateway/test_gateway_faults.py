"""Upstreams that hang, die, lie or flood, behind a running server: what its clients see, and what is left behind."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.interaction.gateway.front_door import (
    Box,
    Gate,
    Message,
    entry,
    eventually,
    gate,
    last,
    names_of,
    request,
    routing,
    stateless,
    text_of,
    until,
)
from tests.kit import Tool, faulty_upstream, stdio_twin
from tests.kit.running import running, start

pytestmark = pytest.mark.anyio
MUTANTS = 3000 * int(os.environ.get("TOOLCRIB_SOAK", "1"))

FAILURE = "io.toolcrib/failure"
NOWHERE = "http://127.0.0.1:9/mcp"
AT_ONCE_S = 4.0  # a hang guard, a hundred times what a list takes


async def test_lists_ask_no_upstream_and_do_not_wait_for_the_one_that_hangs(door: Gate) -> None:
    async with faulty_upstream([Tool("echo")]) as healthy, faulty_upstream([Tool("never")], lists="hang") as hung:
        box = await door.box(*(entry(f"s{n}", healthy) for n in range(49)), entry("hung", hung), search=True)
        first = await box.legacy("tools/list", expose="all")
        assert len(first["result"]["tools"]) == 49
        states = {s["label"]: s["status"] for s in first["result"]["_meta"]["io.toolcrib/sources"]}
        assert states.pop("hung") == "pending"
        assert set(states.values()) == {"ok"}
        asked = len(healthy.script.requests), len(hung.script.requests)
        async with asyncio.timeout(AT_ONCE_S):
            for _ in range(20):
                assert len(await box.tools(expose="all")) == 49
                assert len((await box.modern("tools/list", expose="all"))["result"]["tools"]) == 49
                await box.call("tool_search", {"query": "echo"})
            assert text_of(await box.call("s17.echo", {"text": "x"})) == "x"
        assert (len(healthy.script.requests) - 1, len(hung.script.requests)) == asked  # the one is the call


async def test_any_of_the_upstreams_may_be_dead_and_the_list_stays(door: Gate) -> None:
    async with faulty_upstream([Tool("a")]) as a, faulty_upstream([Tool("b")]) as b, faulty_upstream([Tool("c")]) as c:
        ups = {"a": a, "b": b, "c": c}
        box = await door.box(*(entry(label, up) for label, up in ups.items()))
        assert names_of(await box.tools()) == ["a.a", "b.b", "c.c"]
        await box.refresh()
        for size in (1, 2, 3):
            for dead in itertools.combinations(ups, size):
                for label in dead:
                    await ups[label].stop()
                states = await box.refresh()
                for label in ups:
                    assert states[label]["status"] == ("stale" if label in dead else "ok"), states
                    result = await box.call(f"{label}.{label}", {"text": "hi"})
                    if label in dead:
                        assert result["isError"]
                        assert result["_meta"][FAILURE]["source"] == label
                        assert label in text_of(result)
                    else:
                        assert text_of(result) == "hi"
                assert names_of(await box.tools()) == ["a.a", "b.b", "c.c"]
                for label in dead:
                    await ups[label].start()
                # one that is back is asked, whatever the breaker thinks of it
                await eventually(lambda b=box: _all_ok(b))


async def _all_ok(box: Box) -> bool:
    return {s["status"] for s in (await box.refresh()).values()} == {"ok"}


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 302}, {"lists": "garbage"}, {"token": "x"}], ids=str)
async def test_a_source_that_never_worked_is_named_and_the_others_serve(door: Gate, fault: dict[str, object]) -> None:
    async with faulty_upstream([Tool("good")]) as good, faulty_upstream([Tool("bad")], **fault) as bad:
        box = await door.box(entry("good", good), entry("bad", bad), entry("gone", NOWHERE))
        listed = (await box.legacy("tools/list"))["result"]
        assert names_of(listed["tools"]) == ["good.good"]
        states = {s["label"]: s for s in listed["_meta"]["io.toolcrib/sources"]}
        assert states["bad"]["status"] == ("auth_failed" if "token" in fault else "unreachable")
        assert states["gone"]["status"] == "unreachable"
        assert states["bad"]["reason"]
        assert states["bad"]["remedy"]


async def test_when_nothing_was_ever_fetched_the_answer_is_a_retryable_error(door: Gate) -> None:
    async with faulty_upstream([Tool("bad")], status=503) as bad:
        for search in (False, True):
            box = await door.box(entry("bad", bad), entry("gone", NOWHERE), search=search)
            answers = [await box.legacy("tools/list"), await box.modern("tools/list")]
            answers.append(await box.legacy("tools/call", {"name": "bad.bad"}))
            if search:
                answers.append(await box.legacy("tools/call", {"name": "tool_search", "arguments": {"query": "x"}}))
            for answer in answers:
                assert answer["error"]["code"] == -32007, answer
                assert answer["error"]["data"]["retryAfterMs"] > 0
            assert "bad" in answers[0]["error"]["message"]


async def test_a_cold_start_with_everything_down_serves_the_stored_list(tmp_path: Path) -> None:
    data = tmp_path / "crib"
    async with faulty_upstream([Tool("one"), Tool("two")]) as up, faulty_upstream([Tool("three")]) as other:
        with running(data) as server:
            async with gate(server) as door:
                box = await door.box(entry("up", up), entry("other", other), name="kept")
                before = await box.tools()
                assert len(before) == 3
        await up.stop()
        await other.stop()
        with running(data) as server:
            async with gate(server) as door:
                box = Box(server, "kept", door.http)
                for answer in (await box.legacy("tools/list"), await box.modern("tools/list")):
                    assert answer["result"]["tools"] == before
                    states = {s["label"]: s["status"] for s in answer["result"]["_meta"]["io.toolcrib/sources"]}
                    assert states == {"up": "stale", "other": "stale"}
                assert (await box.call("up.one"))["_meta"][FAILURE]["source"] == "up"
            assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize("eras", [("modern",), ("legacy",), ("sse",)], ids=str)
@pytest.mark.parametrize("fault", ["die", "cut"])
async def test_a_write_is_executed_at_most_once_when_the_upstream_dies_over_it(
    door: Gate, eras: tuple[str, ...], fault: str
) -> None:
    tools = [Tool("write", fault, 10), Tool("echo")]  # pyright: ignore[reportArgumentType]
    async with faulty_upstream(tools, eras=eras) as up:
        box = await door.box(entry("up", up), search=True)
        await box.tools()
        calls = [("up.write", {}), ("call_tool", {"name": "up.write", "arguments": {}})]
        for number, (name, arguments) in enumerate(calls, 1):
            result = await box.call(name, arguments)
            assert result["isError"]
            assert result["_meta"][FAILURE]["source"] == "up"
            assert up.executions["write"] == number
        assert text_of(await box.call("up.echo", {"text": "and on"})) == "and on"


@pytest.mark.parametrize("eras", [("modern",), ("legacy",)], ids=str)
async def test_two_hundred_clients_with_the_same_ids_never_get_each_others_answers(
    door: Gate, eras: tuple[str, ...]
) -> None:
    async with faulty_upstream([Tool("echo"), Tool("late", "delay", 0.05)], eras=eras) as up:
        box = await door.with_key(await door.box(entry("up", up), search=True), act_for_users=True)
        await box.tools()

        async def visit(number: int) -> int:
            mine = box.seen_by(f"user-{number}")
            crossed = 0
            for turn, tool in enumerate(("up.late", "up.echo")):
                secret = f"secret-of-{number}-{turn}"
                inner: Message = {"name": tool, "arguments": {"text": secret}}
                direct, through = await asyncio.gather(
                    mine.legacy("tools/call", inner),
                    mine.modern("tools/call", {"name": "call_tool", "arguments": inner}),
                )
                crossed += [text_of(a["result"]) for a in (direct, through)] != [secret, secret]
            return crossed

        gate_of_40 = asyncio.Semaphore(40)  # the upstream takes 64 at a time, and queues for 5 s

        async def patiently(number: int) -> int:
            async with gate_of_40:
                return await visit(number)

        assert sum(await asyncio.gather(*(patiently(n) for n in range(200)))) == 0
        await until(lambda: len(box.records()) == 800)
        for record in box.records():
            assert record["principal"].rpartition("/")[2].startswith("user-")


# --- what a server survives -------------------------------------------------------------------------------------------

SEEDS: list[tuple[dict[str, str], Message]] = [
    ({}, request("tools/list")),
    ({}, request("tools/call", {"name": "up.echo", "arguments": {"text": "x"}, "_meta": {"progressToken": 1}})),
    ({}, request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {"sampling": {}}})),
    ({}, request("tools/call", {"name": "tool_search", "arguments": {"query": "echo", "limit": 3}})),
    ({}, request("tools/call", {"name": "call_tool", "arguments": {"name": "up.echo", "arguments": {"text": "x"}}})),
    ({}, request("completion/complete", {"ref": {"type": "ref/prompt", "name": "up.p"}, "argument": {"name": "a"}})),
    ({}, request("resources/read", {"uri": "twin://a"})),
    ({}, {"jsonrpc": "2.0", "id": "q", "result": {"a": 1}}),
    ({}, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    (routing("tools/list", {}), request("tools/list", stateless("tools/list"))),
    (
        routing("tools/call", {"name": "up.echo"}),
        request("tools/call", stateless("tools/call", {"name": "up.echo", "arguments": {"text": "x"}})),
    ),
    (routing("server/discover", {}), request("server/discover", stateless("server/discover"))),
]
ODD_VALUES = [
    *(
        "null",
        "true",
        "-1",
        "0",
        "1e999",
        "NaN",
        "[]",
        "{}",
        '""',
        '"\\ud800"',
        '"\\u0000"',
        "123456789012345678901234",
    ),
    *('{"a":' * 200 + "1" + "}" * 200, "[" * 5000, "9" * 5000, '"' + "x" * 5000 + '"', '"=?base64?AA==?="'),
]
ODD_OBJECTS: list[object] = [
    *(None, True, -1, 0, 1.5, 1e308, 10**30, [], {}, "", "\0", "\u202e", "tool_search", "call_tool", "x" * 3000),
    *([[[]]], {"a": {"a": {}}}, {"name": 5}, {"name": "up.echo", "arguments": "{"}, {"text": 5}, "up.echo", "\u0663"),
    *({"q1": 5}, {"query": 5, "limit": "\u00b2"}, {"limit": 1e300, "query": "x"}, {"detail": [], "query": "echo"}),
]
ODD_HEADERS = [
    *("accept: */*", "accept: text/event-stream", "accept: x", "mcp-session-id: nonsense", "mcp-name: x"),
    *("mcp-protocol-version: 2026-07-28", "mcp-protocol-version: 2025-06-18", "mcp-protocol-version: \xff"),
    *("mcp-method: tools/list", "content-type: text/plain", "mcp-param-x: y", "x-toolcrib-user: \xe9", "expect: y"),
]


def copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


def with_odd_values(message: Message, rng: random.Random) -> Message:
    """Still JSON, but with the wrong thing in a place or two."""
    copy = copied(message)
    for _ in range(rng.randint(1, 2)):
        parent: Message = copy
        key = rng.choice(list(parent))
        while isinstance(parent[key], dict) and parent[key] and rng.random() < 0.8:
            parent = parent[key]
            key = rng.choice(list(parent))
        if rng.random() < 0.15:
            del parent[key]
            if not copy:
                break
        else:
            parent[rng.choice([key, key, key, "arguments", "_meta", "requestState"])] = copied(rng.choice(ODD_OBJECTS))
    return copy


def mutated(rng: random.Random) -> bytes:
    """One HTTP request made from a good one by a few accidents."""
    headers, message = rng.choice(SEEDS)
    misshapen = rng.random() < 0.6
    body = json.dumps(with_odd_values(message, rng) if misshapen else message)
    for _ in range(rng.choice([0, 0, 1]) if misshapen else rng.randint(1, 3)):
        at = rng.randrange(len(body) + 1)
        match rng.randrange(7):
            case 0:
                body = body[:at]
            case 1:
                body = body[:at] + chr(rng.choice([0, 1, 34, 91, 93, 123, 125, 0xE9, 0x20AC])) + body[at + 1 :]
            case 2:
                body = body[:at] + body[at : at + rng.randint(1, 30)] * 2 + body[at:]
            case 3:
                spots = [i for i, c in enumerate(body) if c == ":"] or [0]
                spot = rng.choice(spots) + 1
                end = min((i for i in (body.find(c, spot) for c in ",}") if i >= 0), default=len(body))
                body = body[:spot] + rng.choice(ODD_VALUES) + body[end:]
            case 4:
                body = "[" + body + rng.choice(["]", ",]", "," + body + "]", ""])
            case 5:
                quoted = [i for i, c in enumerate(body) if c == '"'] or [0]
                spot = rng.choice(quoted)
                body = body[:spot] + rng.choice(ODD_VALUES) + body[spot:]
            case _:
                body = body.replace(rng.choice(["id", "method", "params", "name", "_meta", "jsonrpc"]), "x", 1)
    raw = body.encode("utf-16" if rng.random() < 0.03 else "utf-8", "surrogatepass")
    if rng.random() < 0.2:
        cut = bytearray(raw or b"x")
        for _ in range(3):
            cut[rng.randrange(len(cut))] ^= 1 << rng.randrange(8)
        raw = bytes(cut)
    lines = [f"{k}: {v}" for k, v in headers.items() if rng.random() > 0.1]
    lines += rng.sample(ODD_HEADERS, rng.choice([0, 0, 1, 2]))
    return "\r\n".join(lines).encode("latin-1") + (b"\r\n" if lines else b"") + b"\0" + raw


async def exchanged(box: Box, fuzz: bytes) -> tuple[int, bytes]:
    head, _, body = fuzz.partition(b"\0")
    reader, writer = await asyncio.open_connection("127.0.0.1", box.server.port)
    start_line = f"POST /api/projects/default/{box.path}?api-version=v1 HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    fixed = f"authorization: Bearer {box.server.token}\r\nconnection: close\r\ncontent-length: {len(body)}\r\n"
    writer.write(start_line.encode() + fixed.encode() + head + b"\r\n" + body)
    try:
        answer = await reader.read()
    finally:
        writer.close()
    headers, _, rest = answer.partition(b"\r\n\r\n")
    return int(headers[9:12]), rest


async def test_three_thousand_mutated_messages_are_answered_and_forgotten(door: Gate) -> None:
    async with faulty_upstream([Tool("echo")], resources=("twin://a",), prompts=("p",)) as up:
        box = await door.box(entry("up", up), search=True)
        await box.tools()
        await box.call("tool_search", {"query": "warm"})
        rng = random.Random(20261115)
        process = psutil.Process(box.server.process.pid)
        todo = [mutated(rng) for _ in range(MUTANTS)]
        for fuzz in todo[:200]:
            await exchanged(box, fuzz)
        before = process.memory_info().rss
        at = iter(todo)
        seen: dict[int, int] = {}

        async def worker() -> None:
            for fuzz in at:
                async with asyncio.timeout(20):
                    status, body = await exchanged(box, fuzz)
                seen[status] = seen.get(status, 0) + 1
                assert 200 <= status < 500, (status, fuzz, body)
                assert b'"code":-32603' not in body, (fuzz, body)

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(worker())
        assert sum(seen.values()) == MUTANTS
        assert {200, 400} <= set(seen)
        assert process.memory_info().rss - before < 64 * 2**20
        assert text_of(await box.call("up.echo", {"text": "still"})) == "still"


async def test_five_hundred_abrupt_disconnects_leave_nothing_behind(tmp_path: Path) -> None:
    async with faulty_upstream([Tool("stuck", "hang"), Tool("echo")], eras=("modern",)) as up:
        with running(tmp_path / "crib") as server:
            async with gate(server) as door:
                box = await door.box(entry("up", up))
                await box.tools()
                await box.call("up.echo", {"text": "x"})
                await _leave(box, up, "call", 5)
                process = psutil.Process(server.process.pid)
                baseline = await _settled(process.num_fds)
                gone = len(up.script.cancelled)
                for kind, count in (("body", 100), ("call", 200), ("events", 100), ("listen", 100)):
                    for _ in range(count // 20):
                        await _leave(box, up, kind, 20)
                await until(lambda: len(up.script.cancelled) == gone + 200)
                await until(lambda: process.num_fds() <= baseline + 3)
                calls = [box.call("up.echo", {"text": "x"}) for _ in range(60)]  # every slot is free again
                assert {text_of(result) for result in await asyncio.gather(*calls)} == {"x"}
                assert [r["outcome"] for r in await until(lambda: _when(box, 266))].count("cancelled") == 205
        log = server.log.read_text()
        assert "Traceback" not in log, log[-3000:]
        assert "Exception" not in log, log[-3000:]


def _when(box: Box, count: int) -> list[Message] | None:
    found = box.records()
    return found if len(found) >= count else None


async def _settled(figure: object) -> int:
    seen: list[int] = []

    def is_still() -> bool:
        seen.append(figure())  # pyright: ignore[reportCallIssue]
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    await until(is_still)
    return seen[-1]


async def _leave(box: Box, up: object, kind: str, count: int) -> None:
    """Open `count` connections, bring each to the point in question, and drop them all at once."""
    script = up.script  # pyright: ignore[reportAttributeAccessIssue]
    started = script.executions["stuck"]
    links = [await asyncio.open_connection("127.0.0.1", box.server.port) for _ in range(count)]
    for reader, writer in links:
        params = stateless("tools/call", {"name": "up.stuck"})
        method = "POST"
        headers, body = routing("tools/call", params), json.dumps(request("tools/call", params))
        if kind == "events":
            method, headers, body = "GET", {"accept": "text/event-stream"}, ""
        elif kind == "listen":
            listen = stateless("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            headers = routing("subscriptions/listen", {})
            body = json.dumps(request("subscriptions/listen", listen))
        length = len(body) + (1000 if kind == "body" else 0)
        sent = {**headers, "host": "x", "content-length": str(length), "authorization": f"Bearer {box.server.token}"}
        sent["host"] = f"127.0.0.1:{box.server.port}"
        lines = "".join(f"{k}: {v}\r\n" for k, v in sent.items())
        path = f"/api/projects/default/{box.path}?api-version=v1"
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n{body}".encode())
        await writer.drain()
        if kind in ("events", "listen"):
            assert b" 200 " in await reader.readline()
    if kind == "call":
        await until(lambda: script.executions["stuck"] == started + count)
    for _, writer in links:
        writer.transport.abort()


async def test_stdio_children_that_crash_flood_or_fork_leave_no_orphan(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    children = {
        "calm": stdio_twin([Tool("echo"), Tool("boom", "die")], pid_file=str(pids)),
        "crash": stdio_twin(crash_at_start=True, pid_file=str(pids)),
        "flood": stdio_twin([Tool("echo")], stderr_bytes=4 * 2**20, noise=True, pid_file=str(pids)),
        "fork": stdio_twin([Tool("echo")], fork="group", pid_file=str(pids)),
        "stubborn": stdio_twin([Tool("echo")], fork="group", ignore_sigterm=True, pid_file=str(pids)),
    }
    data = tmp_path / "crib"
    data.mkdir()
    tables = [f"[stdio.{name}]\ncommand = {json.dumps(list(child.command))}\n" for name, child in children.items()]
    (data / "toolcrib.toml").write_text("\n".join(tables))
    server = start(data)
    try:
        async with gate(server) as door:
            box = await door.box(*(entry(name, f"stdio://{name}") for name in (*children, "undeclared")))
            states = await box.refresh()
            assert {label for label, state in states.items() if state["status"] == "ok"} == set(children) - {"crash"}
            assert states["undeclared"]["status"] == "unreachable"
            for name in ("calm", "flood", "fork", "stubborn"):
                assert text_of(await box.call(f"{name}.echo", {"text": name})) == name
            for _ in range(2):
                assert (await box.call("calm.boom"))["_meta"][FAILURE]["source"] == "calm"
                await eventually(lambda: _echoes(box))  # started anew
    finally:
        server.stop()
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) >= 9
    await until(lambda: not [pid for pid in started if _is_alive(pid)])
    assert "Traceback" not in server.log.read_text()


async def _echoes(box: Box) -> bool:
    return text_of(await box.call("calm.echo", {"text": "again"})) == "again"


def _is_alive(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and (
            sys.executable in process.cmdline() or "sleep" in process.name()
        )
    except psutil.NoSuchProcess:
        return False


async def test_a_stateless_answer_with_the_wrong_id_or_no_json_is_a_failure_of_that_source(door: Gate) -> None:
    tools = [Tool("wrong", "wrong_id"), Tool("garbage", "garbage"), Tool("refuse", "refuse"), Tool("error", "error")]
    async with faulty_upstream(tools) as up:
        box = await door.box(entry("up", up))
        for name in ("wrong", "garbage"):
            result = await box.call(f"up.{name}")
            assert (result["isError"], result["_meta"][FAILURE]["code"]) == (True, "bad_answer")
        refused = await box.legacy("tools/call", {"name": "up.refuse"})
        assert refused["error"]["message"] == "refused on principle"  # its own JSON-RPC error, as it said it
        own = await box.call("up.error")
        assert own["isError"]
        assert FAILURE not in own.get("_meta", {})
        last_one = await box.post(
            request("tools/call", stateless("tools/call", {"name": "up.error"})),
            routing("tools/call", {"name": "up.error"}),
        )
        assert last(last_one)["result"]["isError"]
