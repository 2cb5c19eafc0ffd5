"""The stateless era (2026-07-28) over HTTP: every request stands alone, closing its stream cancels it.

The hot path of the gateway is `Modern.request`. Deliberately knows no sessions: there are none.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from toolcrib import egress, errors
from toolcrib.protocol import NAMED_BY, encode_header, mirrored
from toolcrib.upstreams import messages
from toolcrib.upstreams.dialogue import Ask, Stale, Underway
from toolcrib.upstreams.endpoint import Cut, Endpoint
from toolcrib.upstreams.events import EventParser
from toolcrib.upstreams.turn import Report, Turn
from toolcrib.upstreams.upstream import Background, Exchange, Outcome, Params

_DOUBTFUL: Final = frozenset({-32022, -32000, -32600})
"""Codes with which servers of another era turn a stateless request away."""
MAX_EVENT_BYTES: Final = 1024 * 1024
MAX_STREAMING: Final = 10_000
LONGEST_ROUTED: Final = 256


class Modern:
    def __init__(self, endpoint: Endpoint, hello: messages.Hello, report: Report, nobody: Background) -> None:
        self.hello = hello
        self._endpoint = endpoint
        self._report = report
        self._nobody = nobody
        self._ids = itertools.count(1)
        self._uris: frozenset[str] = frozenset()
        self._listening: asyncio.Task[bool] | None = None
        self._acknowledged = asyncio.Event()
        self._over = False
        self._streaming: set[str] = set()  # tools that answered in events: nothing is gained by sending those ahead

    @property
    def is_alive(self) -> bool:
        return not self._over

    async def request(self, ask: Ask) -> Outcome:
        number, source = next(self._ids), self._endpoint.source
        body = messages.request(number, ask.method, messages.modern_params(ask.params, ask.exchange, number))
        idle_s = egress.KEPT_S if ask.resendable else egress.FRESH_S
        answer = await self._endpoint.post(_headers(ask), body, limit=ask.limit, max_idle_s=idle_s)
        if answer.status == 200 and not answer.streamed:
            return messages.outcome(messages.read(answer.body, source), number, source)
        tool = ask.params.get("name") if ask.method == "tools/call" else None
        return await self._heard_out(answer, number, tool, ask.exchange, ask.limit)

    def send(self, tool: str, arguments: bytes, limit: int, *, resendable: bool) -> Underway | None:
        if self._over or tool in self._streaming or len(tool) > LONGEST_ROUTED:
            return None
        number, began = next(self._ids), time.perf_counter()
        body = messages.bare_modern_call(number, tool, arguments)
        idle_s = egress.KEPT_S if resendable else egress.FRESH_S
        answer = self._endpoint.post_at_once(_routing("tools/call", tool), body, limit=limit, max_idle_s=idle_s)
        if answer is None:
            return None
        return Underway(number, self._endpoint.source, tool, answer, self, self._finish, began)

    async def _finish(self, sent: Underway, exchange: Exchange, limit: int) -> Outcome:
        answer = await egress.whole(sent.answer)
        if answer.status == 200 and not answer.streamed:
            return messages.outcome(messages.read(answer.body, sent.source), sent.number, sent.source)
        return await self._heard_out(answer, sent.number, sent.tool, exchange, limit)

    async def _heard_out(
        self, answer: egress.HttpAnswer, number: int, tool: str | None, exchange: Exchange, limit: int
    ) -> Outcome:
        """An answer that is no plain one: a refusal, or events that lead up to the outcome."""
        source = self._endpoint.source
        if answer.status != 200:
            answer.close()
            raise self._refusal(answer)
        if tool is not None and len(self._streaming) < MAX_STREAMING:
            self._streaming.add(tool)
        turn = Turn(number, exchange, source, self._report, None)
        outcome = await self._endpoint.follow(answer, turn, limit)
        if isinstance(outcome, Cut):
            message = f"{source!r} ended the stream without an answer."
            raise errors.Unreachable(message, sent=True, source=source)
        return outcome

    async def watch(self) -> bool:
        """One `subscriptions/listen` after the other: a changed set of resources means a new one."""
        while True:
            self._listening = task = asyncio.create_task(self._listen(self._uris))
            try:
                return await task
            except asyncio.CancelledError:
                current = asyncio.current_task()
                if current is None or current.cancelling():
                    raise
                if self._over:
                    return True

    async def follow(self, uris: frozenset[str]) -> None:
        if uris == self._uris:
            return
        self._uris = uris
        task, self._listening = self._listening, None
        if task is not None:
            self._acknowledged.clear()
            task.cancel()
            async with asyncio.timeout(self._endpoint.limits.connect_s):
                await self._acknowledged.wait()

    async def aclose(self) -> None:
        self._over = True
        if self._listening is not None:
            self._listening.cancel()

    async def _listen(self, uris: frozenset[str]) -> bool:
        number, source = next(self._ids), self._endpoint.source
        wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
        params = {"notifications": {**wanted, **({"resourceSubscriptions": sorted(uris)} if uris else {})}}
        ask = Ask("subscriptions/listen", params, self._nobody, MAX_EVENT_BYTES)
        body = messages.request(number, ask.method, messages.modern_params(ask.params, ask.exchange, number))
        answer = await self._endpoint.post(_headers(ask), body, limit=MAX_EVENT_BYTES)
        try:
            if answer.status != 200 or not answer.streamed:
                return False
            parser = EventParser(source, MAX_EVENT_BYTES)
            while piece := await answer.read():
                for event in parser.feed(piece):
                    if event.data and self._heard(messages.read(event.data, source)):
                        return True
            return True
        finally:
            self._acknowledged.set()
            answer.close()

    def _heard(self, message: messages.Message) -> bool:
        """Pass a change on; true when this was the graceful end."""
        self._acknowledged.set()
        if (changed := messages.change(message, self._endpoint.source)) is not None:
            self._report(changed)
        return message.method is None

    def _refusal(self, answer: egress.HttpAnswer) -> errors.SourceError | Stale:
        refusal = self._endpoint.refusal(answer)
        if answer.status not in (400, 404, 405, 406, 415) or isinstance(refusal, errors.AuthFailed):
            return refusal
        if isinstance(refusal, errors.UpstreamRefused) and refusal.rpc_code not in _DOUBTFUL:
            return refusal
        return Stale(refusal, era=True)


async def discover(endpoint: Endpoint, nobody: Background) -> egress.HttpAnswer:
    """The probe: `server/discover` with the id 0, whatever comes back."""
    ask = Ask("server/discover", {}, nobody, endpoint.limits.answer_bytes)
    body = messages.request(0, ask.method, messages.modern_params(ask.params, ask.exchange, 0))
    return await endpoint.post(_headers(ask), body, limit=ask.limit)


def _headers(ask: Ask) -> bytes:
    key = NAMED_BY.get(ask.method)
    name = ask.params.get(key) if key is not None else None
    is_short = isinstance(name, str) and len(name) <= LONGEST_ROUTED
    lines = (_routing if is_short else _spelt)(ask.method, name)
    if ask.mirror:
        repeated = mirrored(ask.mirror, _arguments(ask.params))
        lines += "".join(f"{name}: {value}\r\n" for name, value in repeated.items()).encode("ascii")
    return lines


def _spelt(method: str, name: object) -> bytes:
    """The headers that repeat what a request asks for."""
    named = f"mcp-name: {encode_header(name)}\r\n" if isinstance(name, str) else ""
    return f"mcp-protocol-version: {messages.MODERN}\r\nmcp-method: {method}\r\n{named}".encode("ascii")


_routing = lru_cache(maxsize=4096)(_spelt)
"""The same, remembered: the same tools are called again and again. Only for short names."""


def _arguments(params: Params) -> Params:
    given: Any = params.get("arguments")
    if isinstance(given, msgspec.Raw):
        given = msgspec.json.decode(given)
    return cast("Params", given) if isinstance(given, Mapping) else {}
