"""Every transport behind one door, so that a promise is written once and kept by each of them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.kit import FaultyUpstream, Tool, faulty_upstream, stdio_twin

from toolcrib import errors
from toolcrib.domain import JsonObject, Principal, Role
from toolcrib.upstreams.pool import UpstreamPool
from toolcrib.upstreams.upstream import Change, Complete, HeadStart, Limits, Outcome, Upstream, UpstreamSpec

HANG_GUARD_S = 20.0

TRANSPORTS: dict[str, dict[str, Any]] = {
    "modern": {"eras": ("modern",)},
    "modern-stream": {"eras": ("modern",), "answers": "sse"},
    "legacy": {"eras": ("legacy",)},
    "legacy-stream": {"eras": ("legacy",), "answers": "sse"},
    "sse": {"eras": ("sse",)},
    "stdio-modern": {"eras": ("modern",)},
    "stdio-legacy": {"eras": ("legacy",)},
}
PUSHING = ("legacy", "legacy-stream", "sse", "stdio-legacy")


def principal(name: str = "key-1") -> Principal:
    return Principal(name, Role.agent, "default")


@dataclass
class Asking:
    """An exchange that writes down what it hears and answers what it is asked."""

    principal: Principal = field(default_factory=principal)
    capabilities: JsonObject = field(default_factory=dict)
    wants_progress: bool = True
    head_start: HeadStart | None = None
    log_level: str | None = None
    heard: list[JsonObject] = field(default_factory=list)
    logged: list[JsonObject] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    answer: JsonObject = field(default_factory=lambda: {"action": "accept", "content": {"name": "Ada"}})

    async def progress(self, params: JsonObject) -> None:
        self.heard.append(params)

    async def log(self, params: JsonObject) -> None:
        self.logged.append(params)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append(method)
        if method.partition("/")[0] not in self.capabilities:
            raise errors.RelayRefused(f"{method} was not declared")
        return self.answer


@dataclass
class Site:
    """One upstream, reached through the pool."""

    pool: UpstreamPool
    spec: UpstreamSpec
    twin: FaultyUpstream | None
    changes: list[Change]

    @property
    def upstream(self) -> Upstream:
        return self.pool.upstream(self.spec)

    async def call(
        self, tool: str, exchange: Any = None, *, arguments: JsonObject | None = None, **rest: Any
    ) -> Outcome:
        params = {"name": tool, "arguments": arguments or {}}
        return await self.upstream.request("tools/call", params, exchange or Asking(), **rest)


@contextlib.asynccontextmanager
async def open_site(
    transport: str, tools: list[Tool], *, limits: Limits | None = None, credentials: Any = None, **changes: Any
) -> AsyncIterator[Site]:
    behaviour = {**TRANSPORTS[transport], **changes}
    heard: list[Change] = []
    extra = {"credentials": credentials} if credentials is not None else {}
    async with contextlib.AsyncExitStack() as stack:
        twin, commands = None, {}
        if transport.startswith("stdio"):
            commands["twin"] = stdio_twin(tools, **behaviour)
            url = "stdio://twin"
        else:
            twin = await stack.enter_async_context(faulty_upstream(tools, **behaviour))
            url = twin.url
        pool = UpstreamPool(commands=commands, on_change=lambda _, change: heard.append(change))
        stack.push_async_callback(pool.aclose)
        spec = UpstreamSpec("twin", url, limits=limits or Limits(), **extra)
        async with asyncio.timeout(HANG_GUARD_S):
            yield Site(pool, spec, twin, heard)


def text_of(outcome: Outcome) -> str:
    import msgspec

    assert isinstance(outcome, Complete)
    return msgspec.json.decode(outcome.result)["content"][0]["text"]


async def until(condition: Callable[[], Any], within_s: float = 5.0) -> None:
    """Wait for something that has no event of its own; bounded."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop of production."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(params=list(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=PUSHING)
def pushing(request: pytest.FixtureRequest) -> str:
    return request.param
