"""Whatever an upstream says, nothing but our own errors comes of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import msgspec
import pytest

from toolcrib import errors
from toolcrib.domain import Principal, Role
from toolcrib.upstreams import messages
from toolcrib.upstreams.conversation import Conversation
from toolcrib.upstreams.dialogue import SHARED, Ask, Lane
from toolcrib.upstreams.listing import collect
from toolcrib.upstreams.turn import Turn
from toolcrib.upstreams.upstream import Background, Change, Complete, Limits, Outcome

pytestmark = pytest.mark.anyio

NOBODY = Background(Principal("k", Role.agent, None), {"elicitation": {}}, wants_progress=True, log_level="debug")
ODD: list[Any] = [None, True, 0, 1, -1, 10**30, 1.5, "", "x", "\u202e", [], [1], {}, {"a": {}}, [[]], "2026-07-28"]
METHODS = [
    None, "ping", "elicitation/create", "roots/list", "notifications/progress", "notifications/message",
    "notifications/cancelled", "notifications/resources/updated", "notifications/tools/list_changed", "nonsense",
    "notifications/subscriptions/acknowledged",
]  # fmt: skip
KEYS = ["progressToken", "requestId", "uri", "_meta", "level", "data"]


def odd_message(chance: random.Random) -> bytes:
    made: dict[str, Any] = {"jsonrpc": "2.0"}
    if chance.random() < 0.7:
        made["method"] = chance.choice(METHODS)
    for key in ("id", "result", "error", "params"):
        if chance.random() < 0.5:
            made[key] = chance.choice([*ODD, {name: chance.choice(ODD) for name in KEYS}])
    return msgspec.json.encode(made)


@pytest.mark.parametrize("seed", range(20))
async def test_a_turn_survives_any_message(seed: int) -> None:
    chance, heard = random.Random(seed), list[Change]()

    async def send(message: bytes) -> None:
        msgspec.json.decode(message)

    for _ in range(100):
        turn = Turn(1, NOBODY, "up", heard.append, send if chance.random() < 0.5 else None)
        for _ in range(5):
            try:
                await turn.take(messages.read(odd_message(chance), "up"))
            except errors.SourceError:
                break
        turn.close()


class OddLine:
    """Says odd things until it is told to stop."""

    source = "up"

    def __init__(self, chance: random.Random, count: int) -> None:
        self._chance = chance
        self._count = count
        self._asked = asyncio.Event()

    async def send(self, message: bytes) -> None:
        self._asked.set()

    async def listen(self) -> Any:
        await self._asked.wait()
        for _ in range(self._count):
            yield odd_message(self._chance)
            await asyncio.sleep(0)

    def gone(self) -> errors.SourceError:
        return errors.Unreachable("gone", source="up", sent=True)

    async def aclose(self) -> None:
        self._asked.set()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("lane", [SHARED, Lane("k", '{"elicitation":{}}', "debug")])
async def test_a_shared_line_survives_any_message(seed: int, lane: Lane) -> None:
    conversation = Conversation(OddLine(random.Random(seed), 300), lane, lambda _: None, NOBODY)
    asks = [conversation.request(Ask("tools/call", {}, NOBODY, 1000)) for _ in range(3)]
    async with asyncio.timeout(10):
        for outcome in await asyncio.gather(*asks, return_exceptions=True):
            assert isinstance(outcome, errors.SourceError | Complete)
    await conversation.aclose()


@pytest.mark.parametrize("seed", range(50))
async def test_introductions_and_lists_survive_any_object(seed: int) -> None:
    chance = random.Random(seed)
    keys = ["supportedVersions", "protocolVersion", "capabilities", "_meta", "serverInfo", "instructions"]
    told = {key: chance.choice(ODD) for key in keys}
    messages.speaks_modern(told)
    hello = messages.hello_from_discover(told)
    assert isinstance(hello.capabilities, dict)
    with contextlib.suppress(errors.BadAnswer):
        messages.hello_from_initialize(told, "up")

    async def request(method: str, params: Any, max_bytes: int) -> Outcome:
        pages = ["tools", "resources", "prompts", "resourceTemplates", "nextCursor", "ttlMs"]
        return Complete(msgspec.json.encode({key: chance.choice(ODD) for key in pages}))

    offered = messages.Hello("modern", "", {"tools": {}, "resources": {}, "prompts": {}})
    listing = await collect(request, offered, Limits(), "up")
    assert all(isinstance(tool, dict) for tool in listing.tools)
