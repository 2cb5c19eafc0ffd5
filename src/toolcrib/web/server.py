"""The listening server: connections, the second hand of the clock, and an end in good order.

One timer looks at all connections once a second; timers of their own would cost more than quick requests do.
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

from toolcrib.web.connection import Connection, Incoming

GRACE_S = 5.0
_GOODBYE_S = 1.0  # clients rarely answer the end of a TLS connection they keep in a pool
_SECOND = 1.0


class HttpServer:
    """Serves one socket until it is told to stop."""

    def __init__(
        self,
        serve: Callable[[Incoming], Coroutine[Any, Any, None]],
        *,
        tls: ssl.SSLContext | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.serve = serve
        self.date = b""
        self.now = 0.0
        self.is_closing = False
        self._tls = tls
        self._on_stop = on_stop
        self._connections: set[Connection] = set()
        self._stop = asyncio.Event()
        self._is_empty = asyncio.Event()

    def enter(self, connection: Connection) -> None:
        self._connections.add(connection)

    def leave(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self.is_closing and not self._connections:
            self._is_empty.set()

    async def run(self, listener: socket.socket) -> None:
        """Until SIGINT or SIGTERM; a second one does not wait for what is still running."""
        loop = asyncio.get_running_loop()
        self._tick()
        server = await loop.create_server(
            lambda: Connection(self),
            sock=listener,
            ssl=self._tls,
            ssl_shutdown_timeout=_GOODBYE_S if self._tls else None,
        )
        with self._signals(loop):
            await self._stop.wait()
            server.close()
            await self._finish()

    def stop(self) -> None:
        if self.is_closing:
            self._is_empty.set()
        self.is_closing = True
        self._stop.set()

    async def _finish(self) -> None:
        """Streams end first: they would hold everything up. Then what is running may end; then it must."""
        self._on_stop()
        for connection in list(self._connections):
            connection.close()
        if self._connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_empty.wait(), GRACE_S)
        running = [c.task for c in self._connections if c.task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=GRACE_S)
        for connection in list(self._connections):
            connection.abort()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(_SECOND, self._tick)
        self.now = loop.time()
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()
        for connection in list(self._connections):
            connection.look(self.now)

    @contextmanager
    def _signals(self, loop: asyncio.AbstractEventLoop) -> Generator[None]:
        def caught(*_: object) -> None:
            loop.call_soon_threadsafe(self.stop)

        before = {sig: signal.signal(sig, caught) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
