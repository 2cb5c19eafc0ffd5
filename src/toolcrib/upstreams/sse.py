"""The deprecated HTTP+SSE transport: one GET whose events are everything we hear, one POST address for what we say.

Only the line; the conversation over it is `conversation`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urljoin

from toolcrib import egress, errors
from toolcrib.upstreams.conversation import Conversation
from toolcrib.upstreams.dialogue import Stale
from toolcrib.upstreams.endpoint import Endpoint
from toolcrib.upstreams.events import Event, EventParser
from toolcrib.upstreams.legacy import Opening


class SseLine:
    def __init__(self, endpoint: Endpoint, stream: egress.HttpAnswer) -> None:
        self.source = endpoint.source
        self._endpoint = endpoint
        self._stream = stream
        self._parser = EventParser(endpoint.source, endpoint.limits.listing_bytes)
        self._early: list[Event] = []
        self._post_head = b""

    async def find_address(self) -> None:
        """The first event says where to post; it must not lead to another origin."""
        while not self._post_head:
            piece = await self._stream.read()
            if not piece:
                raise errors.BadAnswer(
                    f"{self.source!r} ended its stream without an endpoint event.", source=self.source
                )
            events = self._parser.feed(piece)
            for position, event in enumerate(events):
                if event.event == "endpoint":
                    self._post_head = self._head_for(event.data.decode("utf-8", "replace"))
                    self._early = events[position + 1 :]
                    break

    async def send(self, message: bytes) -> None:
        limit = self._endpoint.limits.answer_bytes
        answer = await self._endpoint.post(b"", message, limit=limit, head=self._post_head)
        answer.close()
        if not 200 <= answer.status < 300:
            refusal = self._endpoint.refusal(answer)
            raise Stale(refusal) if answer.status in (400, 404, 410) else refusal

    async def listen(self) -> AsyncIterator[bytes]:
        for event in self._early:
            yield event.data
        try:
            while piece := await self._stream.read():
                for event in self._parser.feed(piece):
                    if event.data and event.event == "message":
                        yield event.data
        except errors.SourceError:
            return

    def gone(self) -> errors.SourceError:
        return errors.Unreachable(f"{self.source!r} ended its event stream.", sent=True, source=self.source)

    async def aclose(self) -> None:
        self._stream.close()

    def _head_for(self, address: str) -> bytes:
        url = urljoin(self._endpoint.url, address)
        try:
            same = egress.Origin.of(url) == self._endpoint.pool.origin
        except ValueError:
            same = False
        if not same:
            message = f"{self.source!r} wants its messages posted to another origin, which is refused."
            raise errors.BadAnswer(message, source=self.source)
        return self._endpoint.at(url)


async def open_sse(opening: Opening) -> Conversation:
    endpoint = opening.endpoint
    answer = await endpoint.get()
    if answer.status != 200 or not answer.streamed:
        answer.close()
        raise endpoint.refusal(answer) if answer.status != 200 else _not_mcp(endpoint.source)
    line = SseLine(endpoint, answer)
    try:
        async with asyncio.timeout(endpoint.limits.connect_s):
            await line.find_address()
    except TimeoutError:
        answer.close()
        raise _not_mcp(endpoint.source) from None
    except BaseException:
        answer.close()
        raise
    conversation = Conversation(line, opening.lane, opening.report, opening.nobody)
    try:
        await conversation.greet(opening.capabilities, "legacy")
    except BaseException:
        await conversation.aclose()
        raise
    return conversation


def _not_mcp(source: str) -> errors.BadAnswer:
    hint = "Is this the MCP address of that server?"
    return errors.BadAnswer(f"{source!r} speaks none of the MCP transports at this address.", source=source, hint=hint)
