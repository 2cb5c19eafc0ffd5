"""The same face in front of the official SDK's servers, in both eras."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.contract.upstreams.conftest import Asking, Site, principal, text_of

from toolcrib import errors
from toolcrib.upstreams import eras
from toolcrib.upstreams.pool import UpstreamPool
from toolcrib.upstreams.upstream import Background, Complete, InputRequired, StdioCommand, UpstreamSpec

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).with_name("sdk_server.py")
NOBODY = Background(principal())


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """All kinds of HTTP server, for the whole module."""
    found = {kind: _free_port() for kind in ("json", "stream", "stateless", "sse")}
    process = subprocess.Popen([sys.executable, str(SERVER), *(f"{kind}={port}" for kind, port in found.items())])
    yield found
    process.kill()
    process.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


MODERN = ("json", "stream", "stdio")
PUSHING = ("stream-legacy", "sse", "stdio-legacy")
MUTE = ("json-legacy", "stateless-legacy")  # these modes have no way to push anything


@pytest.fixture(params=[*MODERN, *PUSHING, *MUTE])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def site(kind: str, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    served, _, era = kind.partition("-")
    commands = {"oracle": StdioCommand((sys.executable, str(SERVER), "stdio"))}
    url = "stdio://oracle"
    if served != "stdio":
        await _listening(ports[served])
        url = f"http://127.0.0.1:{ports[served]}/{'sse' if served == 'sse' else 'mcp'}"
    if era == "legacy":
        _never_modern(monkeypatch)
    pool = UpstreamPool(commands=commands)
    async with asyncio.timeout(30):
        yield Site(pool, UpstreamSpec("oracle", url), None, [])
    await pool.aclose()


def _never_modern(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's servers speak both eras; make us speak the old one with them."""

    async def not_modern(opening: object) -> None:
        return None

    async def not_discovered(self: object, known: object) -> bool:
        return False

    monkeypatch.setattr(eras, "_modern", not_modern)
    monkeypatch.setattr("toolcrib.upstreams.conversation.Conversation._discover", not_discovered)


async def _listening(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def test_it_lists_calls_reads_reports_and_refuses(site: Site, kind: str) -> None:
    listing = await site.upstream.fetch(NOBODY)
    assert [tool["name"] for tool in listing.tools] == ["echo", "steps", "ask", "fails"]
    assert listing.era == ("modern" if kind in MODERN else "legacy")
    assert listing.server_info["version"] == "1.2.3"
    assert listing.instructions == "Be kind."
    assert [resource["uri"] for resource in listing.resources] == ["oracle://note"]
    assert [prompt["name"] for prompt in listing.prompts] == ["greet"]

    assert text_of(await site.call("echo", arguments={"text": "Grüße"})) == "Grüße"
    failed = await site.call("fails")
    assert isinstance(failed, Complete)
    assert json.loads(failed.result)["isError"] is True
    read = await site.upstream.request("resources/read", {"uri": "oracle://note"}, Asking())
    assert isinstance(read, Complete)
    assert json.loads(read.result)["contents"][0]["text"] == "a note"
    with pytest.raises(errors.UpstreamRefused) as refused:
        await site.upstream.request("prompts/get", {"name": "nope"}, Asking())
    assert refused.value.rpc_code in (-32602, 0, -32603)

    asking = Asking()
    assert text_of(await site.call("steps", asking)) == "done"
    expected = [] if kind.startswith("json") else [1, 2, 3]  # a JSON answer has no room for it
    assert [params["progress"] for params in asking.heard] == expected

    texts = [f"text-{n}" for n in range(20)]
    outcomes = await asyncio.gather(*(site.call("echo", arguments={"text": text}) for text in texts))
    assert [text_of(outcome) for outcome in outcomes] == texts


@pytest.mark.parametrize("kind", [*MODERN, *PUSHING])
async def test_the_person_is_asked(site: Site) -> None:
    asking = Asking(capabilities={"elicitation": {"form": {}}})
    outcome = await site.call("ask", asking)
    if isinstance(outcome, InputRequired):
        key = next(iter(outcome.requests))
        answered = {"inputResponses": {key: asking.answer}, "requestState": outcome.state}
        params = {"name": "ask", "arguments": {}, **{k: v for k, v in answered.items() if v is not None}}
        outcome = await site.upstream.request("tools/call", params, asking)
    assert text_of(outcome) == "accept:Ada"
