"""Deadlines of calls, all kept by one timer: `asyncio.timeout` for the path that every call takes.

A timer per call costs an event loop as much as writing the request (measured on uvloop); looking at all calls in flight
twenty times a second costs nothing. A deadline is therefore kept to within 50 ms.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Protocol, cast

LOOK_EVERY_S = 0.05


class Watched(Protocol):
    def look(self, now: float) -> None:
        """Time has passed: about twenty times a second, while it is watched."""
        ...


class Deadlines:
    """Every deadline that is running, in one event loop; and whatever else wants to be looked at as often."""

    def __init__(self) -> None:
        self._running: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def after(self, seconds: float) -> Deadline:
        """A deadline for a block of the running task."""
        loop = self._loop or self._in_loop()
        return Deadline(self, loop, loop.time() + seconds)

    def add(self, watched: Watched) -> None:
        self._running.add(watched)
        if self._timer is None:
            self._look_later(self._loop or self._in_loop())

    def remove(self, watched: Watched) -> None:
        self._running.discard(watched)

    def _in_loop(self) -> asyncio.AbstractEventLoop:
        self._loop = asyncio.get_running_loop()  # remembered: before Python 3.12 asking costs a system call
        return self._loop

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(LOOK_EVERY_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, now = None, loop.time()
        for watched in list(self._running):
            watched.look(now)
        if self._running:
            self._look_later(loop)


class Deadline:
    """One deadline, much like `asyncio.Timeout`: it cancels its block and turns that into `TimeoutError`."""

    __slots__ = ("_before", "_deadlines", "_has_expired", "_task", "_when", "loop")

    def __init__(self, deadlines: Deadlines, loop: asyncio.AbstractEventLoop, when: float) -> None:
        self._deadlines = deadlines
        self.loop = loop
        self._when: float | None = when
        self._has_expired = False

    def when(self) -> float | None:
        return self._when

    def reschedule(self, when: float | None) -> None:
        self._when = when

    def expired(self) -> bool:
        return self._has_expired

    def look(self, now: float) -> None:
        if self._when is not None and now >= self._when and not self._has_expired:
            self._has_expired = True
            self._task.cancel()

    def __enter__(self) -> Deadline:
        self._task = cast("asyncio.Task[Any]", asyncio.current_task(self.loop))
        self._before = self._task.cancelling()
        self._deadlines.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.remove(self)
        if self._has_expired and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error
