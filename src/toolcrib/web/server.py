"""The listening server: its lines and what is served on them, the second hand of the clock, an end in good order.

One timer looks at all lines once a second; timers of their own would cost more than quick requests do.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from typing import Any

from toolcrib.web.incoming import Incoming
from toolcrib.web.line import Line

GRACE_S = 5.0
_CANCELLED_S = 2.0
_GOODBYE_S = 1.0  # clients rarely answer the end of a TLS connection they keep in a pool
_SECOND = 1.0


class HttpServer:
    """Serves one socket until it is told to stop.

    `serve` runs in a task for each request. `hasten` is asked first where the head was said before: true means that it
    has taken the request on itself and will answer it, or have it served after all, in a moment.
    """

    def __init__(
        self,
        serve: Callable[[Incoming], Coroutine[Any, Any, None]],
        *,
        hasten: Callable[[Incoming], bool] = lambda incoming: False,
        tls: ssl.SSLContext | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.date = b""
        self.now = 0.0
        self.is_closing = False
        self._serve = serve
        self._hasten = hasten
        self._tls = tls
        self._on_stop = on_stop
        self._lines: set[Line] = set()
        self._running: set[Incoming] = set()
        self._told_to_stop = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._clock: asyncio.TimerHandle | None = None

    async def run(self, listener: socket.socket) -> None:
        """Until SIGINT or SIGTERM; a second one does not wait for what is still running."""
        self.tick()
        server = await self._loop.create_server(
            lambda: Line(self), sock=listener, ssl=self._tls, ssl_shutdown_timeout=_GOODBYE_S if self._tls else None
        )
        try:
            with self._signals():
                await self._told_to_stop.wait()
                server.close()
                await self._finish()
        finally:
            if self._clock is not None:
                self._clock.cancel()

    def stop(self) -> None:
        if self.is_closing:
            self._is_empty.set()
        self.is_closing = True
        self._told_to_stop.set()

    # The lines tell us:

    def enter(self, line: Line) -> None:
        self._lines.add(line)
        if self.is_closing:
            line.close()

    def leave(self, line: Line) -> None:
        self._lines.discard(line)
        self._note_if_empty()

    def begin(self, incoming: Incoming) -> None:
        if incoming.said is None or not self._hasten(incoming):
            self.serve(incoming)

    def serve(self, incoming: Incoming) -> None:
        self._running.add(incoming)
        incoming.task = self._loop.create_task(self._served(incoming))

    async def _served(self, incoming: Incoming) -> None:
        try:
            await self._serve(incoming)
        finally:
            self._running.discard(incoming)
            incoming.over()
            self._note_if_empty()

    def _note_if_empty(self) -> None:
        if self.is_closing and not self._lines and not self._running:
            self._is_empty.set()

    async def _finish(self) -> None:
        """Streams end first: they would hold everything up. Then what is running may end; then it must."""
        self._on_stop()
        for line in list(self._lines):
            line.close()
        self._note_if_empty()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_empty.wait(), GRACE_S)
        running = [incoming.task for incoming in self._running if incoming.task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_CANCELLED_S)
        for line in list(self._lines):
            line.abort()

    def tick(self) -> None:
        """One second has passed."""
        self._clock = self._loop.call_later(_SECOND, self.tick)
        self.now = self._loop.time()
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()
        for line in list(self._lines):
            line.look(self.now)

    @contextmanager
    def _signals(self) -> Generator[None]:
        def caught(*_: object) -> None:
            self._loop.call_soon_threadsafe(self.stop)

        before = {sig: signal.signal(sig, caught) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
