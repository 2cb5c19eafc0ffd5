"""An MCP server as an upstream: which opener its address needs, and one link per credential.

Knows addresses (`http(s)://…`, `stdio://NAME`) and credential headers, which it never shows. Limits, retries and the
breaker are the pool's.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from toolcrib import errors
from toolcrib.upstreams.breaker import Breaker
from toolcrib.upstreams.conversation import Conversation
from toolcrib.upstreams.dialogue import SHARED, Ask, Dialogue, Lane, Underway
from toolcrib.upstreams.endpoint import Endpoint
from toolcrib.upstreams.eras import Eras
from toolcrib.upstreams.legacy import Opening
from toolcrib.upstreams.link import Link, Opener
from toolcrib.upstreams.listing import collect
from toolcrib.upstreams.stdio import Child
from toolcrib.upstreams.turn import Report
from toolcrib.upstreams.upstream import (
    Background,
    Change,
    ChangeListener,
    Exchange,
    Listing,
    Outcome,
    Params,
    StdioCommand,
    UpstreamSpec,
)

MAX_LINKS: Final = 1_000
LINK_IDLE_S: Final = 900.0
MAX_WATCHED: Final = 8
"""Links of one upstream that listen for changes; more credentials would hear the same."""
STDIO: Final = "stdio://"


@dataclass(frozen=True, slots=True)
class World:
    """What all upstreams share."""

    commands: Mapping[str, StdioCommand]
    eras: Eras
    tls: Callable[[], ssl.SSLContext]
    on_change: ChangeListener


class McpServer:
    def __init__(self, spec: UpstreamSpec, world: World) -> None:
        self._spec = spec
        self._world = world
        self._links: dict[bytes, Link] = {}
        self._watched: set[bytes] = set()

    def request(self, ask: Ask, headers: Mapping[str, str]) -> Awaitable[Outcome]:
        return self._link(headers, ask.exchange).request(ask)

    def send(self, tool: str, arguments: bytes, headers: Mapping[str, str], *, resendable: bool) -> Underway | None:
        link = self._links.get(_fingerprint(headers) if headers else b"")
        if link is None:
            return None
        return link.send(tool, arguments, self._spec.limits.answer_bytes, resendable=resendable)

    async def fetch(self, exchange: Exchange, headers: Mapping[str, str]) -> Listing:
        link, spec = self._link(headers, exchange), self._spec
        background = Background(exchange.principal, exchange.capabilities)

        async def request(method: str, params: Params, max_bytes: int) -> Outcome:
            return await link.request(Ask(method, params, background, max_bytes, resendable=True))

        hello = await link.hello(background)
        listing = await collect(request, hello, spec.limits, spec.label)
        self._watch(headers, link)
        return listing

    async def subscribe(self, uri: str, exchange: Exchange, headers: Mapping[str, str]) -> None:
        await self._link(headers, exchange).subscribe(uri)

    async def unsubscribe(self, uri: str, exchange: Exchange, headers: Mapping[str, str]) -> None:
        await self._link(headers, exchange).unsubscribe(uri)

    async def sweep(self) -> None:
        now = time.monotonic()
        for key, link in list(self._links.items()):
            link.sweep(now)
            if not link.is_busy and now - link.used_at > LINK_IDLE_S:
                await self._drop(key)

    async def aclose(self) -> None:
        await asyncio.gather(*(self._drop(key) for key in list(self._links)))

    def _link(self, headers: Mapping[str, str], exchange: Exchange) -> Link:
        key = _fingerprint(headers)
        link = self._links.get(key)
        if link is None:
            if len(self._links) >= MAX_LINKS:
                raise errors.Overloaded(f"{self._spec.label!r} is in use with {MAX_LINKS} different credentials.")
            self._links[key] = link = Link(self._opener(headers, exchange), self._changed)
        return link

    def _opener(self, headers: Mapping[str, str], exchange: Exchange) -> Opener:
        spec, world, nobody = self._spec, self._world, Background(exchange.principal)
        if spec.url.startswith(STDIO):
            command = world.commands.get(spec.url.removeprefix(STDIO))
            if command is None or not command.command:
                raise errors.Unreachable(
                    f"{spec.label!r} names {spec.url!r}, which the operator has not declared.",
                    source=spec.label,
                    hint="Declare it in toolcrib.toml as [stdio.NAME] with a command.",
                )
            return StdioOpener(spec, command, self._changed, nobody)
        tls = world.tls() if spec.url.startswith("https://") else None
        return HttpOpener(
            spec, Endpoint(spec.label, spec.url, headers, spec.limits, tls), world.eras, self._changed, nobody
        )

    def _watch(self, headers: Mapping[str, str], link: Link) -> None:
        key = _fingerprint(headers)
        if key in self._watched or len(self._watched) < MAX_WATCHED:
            self._watched.add(key)
            link.watch()

    def _changed(self, change: Change) -> None:
        self._world.on_change(self._spec, change)

    async def _drop(self, key: bytes) -> None:
        self._watched.discard(key)
        link = self._links.pop(key, None)
        if link is not None:
            await link.aclose()


class HttpOpener:
    """Streamable HTTP of either era, or HTTP+SSE: whatever the address turns out to speak."""

    max_lanes = 1_000

    def __init__(self, spec: UpstreamSpec, endpoint: Endpoint, eras: Eras, report: Report, nobody: Background) -> None:
        self.source = spec.label
        self.limits = spec.limits
        self._endpoint = endpoint
        self._eras = eras
        self._report = report
        self._nobody = nobody

    @property
    def era(self) -> str | None:
        return self._eras.known(self._endpoint.url)

    def lane(self, exchange: Exchange) -> Lane:
        return SHARED if self.era == "modern" else Lane.of(exchange)

    async def open(self, lane: Lane) -> Dialogue:
        return await self._eras.open(Opening(self._endpoint, lane, lane.declared, self._report, self._nobody))

    def doubt(self) -> None:
        self._eras.forget(self._endpoint.url)

    def sweep(self) -> None:
        self._endpoint.pool.close_idle(older_than_s=60.0)

    async def aclose(self) -> None:
        await self._endpoint.aclose()


class StdioOpener:
    """A child process per lane, started with back-off when it keeps dying."""

    max_lanes = 32

    def __init__(self, spec: UpstreamSpec, command: StdioCommand, report: Report, nobody: Background) -> None:
        self.source = spec.label
        self.limits = spec.limits
        self.era: str | None = None
        self._command = command
        self._report = report
        self._nobody = nobody
        self._starts = Breaker(spec.label, threshold=3, first_s=0.5, longest_s=60.0)

    def lane(self, exchange: Exchange) -> Lane:
        if self.era != "modern":
            return Lane.of(exchange)
        return Lane(exchange.principal.id, "", exchange.log_level) if exchange.log_level else SHARED

    async def open(self, lane: Lane) -> Dialogue:
        self._starts.admit()
        try:
            conversation = await self._start(lane)
        except BaseException:
            self._starts.failed()
            raise
        self._starts.succeeded()
        self.era = conversation.hello.era
        return conversation

    async def _start(self, lane: Lane) -> Conversation:
        """A child whose death was its answer to an unknown question is started once more and greeted in the old way."""
        try:
            return await self._greeted(lane, self.era)
        except errors.Unreachable as error:
            if self.era is not None or not error.sent:
                raise
        return await self._greeted(lane, "legacy")

    async def _greeted(self, lane: Lane, era: str | None) -> Conversation:
        child = await Child.start(self.source, self._command, self.limits.listing_bytes)
        conversation = Conversation(child, lane, self._report, self._nobody)
        try:
            await conversation.greet(lane.declared, era)
        except BaseException:
            await conversation.aclose()
            raise
        return conversation

    def doubt(self) -> None:
        self.era = None

    def sweep(self) -> None:
        return None

    async def aclose(self) -> None:
        return None


def _fingerprint(headers: Mapping[str, str]) -> bytes:
    """What tells two credentials apart, without being one."""
    if not headers:
        return b""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(headers.items()):
        digest.update(f"{len(name)}:{name.lower()}{len(value)}:{value}".encode())
    return digest.digest()
