"""The demo child on the wire: official client and raw lines, both eras."""

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from toolcrib.demo import commands
from toolcrib.demo.sources import LABELS, open_source
from toolcrib.demo.stdio import Conversation

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def talk(conversation: Conversation, method: str, params: dict[str, Any] | None = None, **fields: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}, **fields}
    answer = conversation.answer(json.dumps(message).encode())
    assert answer is not None
    return json.loads(answer)


def conversation(label: str = "tickets", page_size: int = 50) -> Conversation:
    return Conversation(open_source(label, lambda: NOON), page_size)


@pytest.mark.parametrize(
    ("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")]
)
def test_the_official_client_lists_and_calls(mode: str, version: str) -> None:
    command, env, _ = commands()["demo-units"]

    async def visit() -> None:
        parameters = StdioServerParameters(command=command[0], args=list(command[1:]), env=env)
        async with asyncio.timeout(30), Client(parameters, mode=mode) as client:
            assert client.protocol_version == version
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == list(open_source("units").tools)
            arguments = {"value": 212, "from_unit": "fahrenheit", "to_unit": "celsius"}
            done = await client.call_tool("convert_temperature", arguments)
            assert done.structured_content == {"result": 100.0}
            refused = await client.call_tool("convert_temperature", {"value": "hot"})
            assert refused.is_error

    asyncio.run(visit())


def test_every_child_answers_its_first_question() -> None:
    asked = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n'
    running = {
        name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name, (command, _, _) in commands().items()
    }
    for name, child in running.items():
        said, _ = child.communicate(asked, timeout=30)
        assert child.returncode == 0
        label = name.removeprefix("demo-")
        assert len(json.loads(said)["result"]["tools"]) == len(open_source(label).tools)


def test_a_child_imports_little_so_that_it_starts_quickly() -> None:
    code = "import sys; from toolcrib.demo.__main__ import main; main(['tickets']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, timeout=30, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.decode().split()}
    assert "msgspec" in loaded
    assert not loaded & {"mcp", "mcp_types", "asyncio", "anyio", "pydantic", "numpy", "httpx2", "click", "ssl"}
    own = {name for name in done.stdout.decode().split() if name.startswith("toolcrib.demo.sources.")}
    assert own == {"toolcrib.demo.sources.tickets"}


def test_an_unknown_source_is_refused_with_the_known_ones() -> None:
    done = subprocess.run([sys.executable, "-m", "toolcrib.demo", "nope"], capture_output=True, timeout=30)
    assert done.returncode == 2
    assert all(label in done.stderr.decode() for label in LABELS)


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_handshake_keeps_a_known_version(version: str) -> None:
    result = talk(conversation(), "initialize", {"protocolVersion": version, "capabilities": {}})["result"]
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "demo-tickets"


def test_a_handshake_with_an_unknown_version_offers_the_latest() -> None:
    assert talk(conversation(), "initialize", {"protocolVersion": "1999-01-01"})["result"]["protocolVersion"] == (
        "2025-11-25"
    )


def test_notifications_get_no_answer_and_ping_an_empty_one() -> None:
    assert conversation().answer(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None
    assert talk(conversation(), "ping")["result"] == {}


def test_discover_and_lists_of_the_stateless_era_say_how_long_they_keep() -> None:
    for method in ("server/discover", "tools/list"):
        result = talk(conversation(), method, {"_meta": MODERN_META})["result"]
        assert (result["resultType"], result["cacheScope"]) == ("complete", "public")
        assert result["ttlMs"] > 0
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "demo-tickets"
    called = talk(conversation(), "tools/call", {"_meta": MODERN_META, "name": "ticket_stats"})["result"]
    assert called["resultType"] == "complete"
    assert called["structuredContent"] == {"open": 5}


def test_pages_follow_one_another_until_everything_was_seen() -> None:
    talker = conversation(page_size=4)
    seen: list[str] = []
    params: dict[str, Any] = {}
    for _ in range(10):
        page = talk(talker, "tools/list", params)["result"]
        seen += [tool["name"] for tool in page["tools"]]
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert seen == list(open_source("tickets").tools)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/list", {}, -32601),
        ("ping", {"_meta": MODERN_META}, -32601),
        ("server/discover", {}, -32601),
        ("tools/list", {"cursor": "beyond"}, -32602),
        ("tools/call", {"name": "nope"}, -32602),
        ("tools/call", {"name": "ticket_stats", "arguments": [1]}, -32602),
        ("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}, -32602),
        ("tools/list", {"_meta": {**MODERN_META, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}}, -32022),
    ],
)
def test_what_cannot_be_answered_is_an_error_with_its_code(method: str, params: dict[str, Any], code: int) -> None:
    assert talk(conversation(), method, params)["error"]["code"] == code


@pytest.mark.parametrize(("line", "code"), [(b"{not json", -32700), (b"17", -32600), (b'{"method": 3}', -32600)])
def test_a_line_that_is_no_request_gets_an_error_without_an_id(line: bytes, code: int) -> None:
    answer = conversation().answer(line)
    assert answer is not None
    said = json.loads(answer)
    assert (said["id"], said["error"]["code"]) == (None, code)


def test_a_batch_is_answered_with_a_batch() -> None:
    answer = conversation().answer(b'[{"id": 1, "method": "ping"}, {"method": "x"}, {"id": 2, "method": "ping"}]')
    assert answer is not None
    assert [reply["id"] for reply in json.loads(answer)] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "required"),
        ({"ticket_id": 3}, "Expected `str`"),
        ({"ticket_id": "TCK-1", "extra": 1}, "extra"),
        ({"ticket_id": "TCK-99"}, "no ticket 'TCK-99'"),
    ],
)
def test_bad_arguments_come_back_as_a_tool_error(arguments: dict[str, Any], said: str) -> None:
    result = talk(conversation(), "tools/call", {"name": "get_ticket", "arguments": arguments})["result"]
    assert result["isError"]
    assert said in result["content"][0]["text"]
