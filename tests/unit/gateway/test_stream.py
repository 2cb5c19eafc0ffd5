"""Filling silence: what a client hears while its reply is owed, and what it never hears."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from toolcrib.gateway.stream import PING, Pulse, ReplyStream
from toolcrib.http import Header, Request

pytestmark = pytest.mark.anyio


class Channel:
    def __init__(self) -> None:
        self.is_gone = False
        self.on_gone: Callable[[], None] | None = None
        self.said: list[bytes] = []

    def cancel(self) -> None:
        self.said.append(b"cancelled")

    def start(self, headers: list[Header]) -> None:
        self.said.append(b"start")

    async def write(self, piece: bytes) -> None:
        self.said.append(piece)

    async def end(self, piece: bytes = b"") -> None:
        self.said.append(b"end")


def reply(channel: Channel) -> ReplyStream:
    headers = {b"accept": b"application/json, text/event-stream"}
    return ReplyStream(cast("Request", type("Asked", (), {"headers": headers, "channel": channel})), Pulse())


async def test_silence_commits_to_a_stream_and_is_filled_again_and_again() -> None:
    channel = Channel()
    with (stream := reply(channel)):
        for _ in range(7):  # of 5 s each
            stream.tick()
            await asyncio.sleep(0)
        assert channel.said == [b"start", PING, PING]
        assert await stream.finish(200, b"{}") is None


@pytest.mark.parametrize("before", [False, True])
async def test_a_client_that_leaves_cancels_its_call_while_the_reply_is_owed(before: bool) -> None:
    channel = Channel()
    channel.is_gone = before
    with reply(channel):
        if not before:
            assert channel.on_gone is not None
            channel.on_gone()
    assert channel.said == [b"cancelled"]
    assert channel.on_gone is None


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_ping_that_is_due_as_the_answer_comes_does_not_follow_it(has_begun: bool) -> None:
    channel = Channel()
    with (stream := reply(channel)):
        if has_begun:
            await stream.write(b"{}")
        for _ in range(3):  # the silence after which a ping is due
            stream.tick()
    answer: Any = await stream.finish(200, b"{}")
    owed = list(channel.said)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert channel.said == owed
    assert (answer is None) == (b"start" in owed)
