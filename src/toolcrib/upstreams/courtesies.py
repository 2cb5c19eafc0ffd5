"""Small messages nobody waits for (cancellation notices, farewells): sent soon, a few at a time, never for long.

Knows nothing of what they say.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Final

from toolcrib import errors
from toolcrib.upstreams.dialogue import Stale

COURTESY_S: Final = 2.0
AT_ONCE: Final = 8


class Courtesies:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(AT_ONCE)

    def soon(self, courtesy: Awaitable[None]) -> None:
        task = asyncio.create_task(self._send(courtesy))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Let the last ones out, then insist."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=COURTESY_S)
            for task in late:
                task.cancel()

    async def _send(self, courtesy: Awaitable[None]) -> None:
        with contextlib.suppress(errors.SourceError, Stale, TimeoutError):
            async with self._slots, asyncio.timeout(COURTESY_S):
                await courtesy
