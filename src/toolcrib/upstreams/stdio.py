"""Operator-declared child processes spoken to over stdin and stdout.

Started without a shell and with little environment, in a process group of their own; when one is closed, everything
it started goes with it. What a child writes to stderr or beside the protocol is bounded and never relayed.
Deliberately takes commands from the operator's declaration only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final, cast

from toolcrib import errors
from toolcrib.upstreams.conversation import Oversized
from toolcrib.upstreams.upstream import StdioCommand

log = logging.getLogger(__name__)

INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
MARK: Final = "TOOLCRIB_STDIO_CHILD"
"""Every descendant inherits this variable, so that even one that left the process group is found again."""
STDERR_BYTES: Final = 64 * 1024
BACKLOG: Final = 256
GRACE_S: Final = 1.0
LAST_WORDS_S: Final = 0.2
"""A dead child's stdout may still be full; but a grandchild that keeps it open must not keep us waiting."""
_EDGE: Final = 512


class LineCutter:
    """Lines out of bytes; one over the limit is skipped, all but its edges."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        *whole, rest = data.split(b"\n")
        lines: list[bytes | Oversized] = []
        for piece in whole:
            self._add(piece)
            lines.append(self._take())
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._parts.append(piece)
            return
        joined = b"".join([*self._parts, piece])
        self._head = self._head or joined[:_EDGE]
        self._tail = (self._tail + joined[-_EDGE:])[-_EDGE:]
        self._parts.clear()

    def _take(self) -> bytes | Oversized:
        line = Oversized(self._head, self._tail, self._limit) if self._size > self._limit else b"".join(self._parts)
        self._parts, self._size, self._head, self._tail = [], 0, b"", b""
        return line


class Child(asyncio.SubprocessProtocol):
    """One running child; also the line to it."""

    def __init__(self, source: str, limit: int) -> None:
        self.source = source
        self._lines: deque[bytes | Oversized] = deque()
        self._cutter = LineCutter(limit)
        self._stderr: deque[bytes] = deque()
        self._stderr_size = 0
        self._wake = asyncio.Event()
        self._over = asyncio.Event()
        self._dead = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._mark = ""
        self._transport: asyncio.SubprocessTransport

    @classmethod
    async def start(cls, source: str, command: StdioCommand, limit: int) -> Child:
        mark = secrets.token_hex(16)
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        env |= {**command.env, MARK: mark}
        loop = asyncio.get_running_loop()
        try:
            _, child = await loop.subprocess_exec(
                lambda: cls(source, limit), *command.command, env=env, cwd=command.cwd, start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            message = f"{source!r} cannot be started: {reason}."
            hint = f"Check the declared command {command.command[0]!r} and its working directory."
            raise errors.Unreachable(message, source=source, hint=hint) from error
        child._mark = mark
        return child

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def stderr_tail(self) -> str:
        return b"".join(self._stderr).decode("utf-8", "replace")

    # The line.

    async def send(self, message: bytes) -> None:
        stdin = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
        if self._over.is_set() or stdin is None or stdin.is_closing():
            raise self.gone()
        stdin.write(message + b"\n")
        await self._writable.wait()

    async def listen(self) -> AsyncIterator[bytes | Oversized]:
        while True:
            while self._lines:
                yield self._lines.popleft()
            if self._over.is_set():
                return
            self._read_on()
            self._wake.clear()
            await self._wake.wait()

    def gone(self) -> errors.SourceError:
        code = self._transport.get_returncode()
        how = f"ended with exit code {code}" if code is not None else "closed its standard output"
        return errors.Unreachable(f"The process of {self.source!r} {how}.", sent=True, source=self.source)

    async def aclose(self) -> None:
        """Ask it to leave, tell it to leave, make it leave; and everything it started."""
        stdin = self._transport.get_pipe_transport(0)
        if stdin is not None:
            stdin.close()
        try:
            for signal_ in (None, signal.SIGTERM):
                self._signal(signal_)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GRACE_S):
                        await self._dead.wait()
                        break
        finally:
            self._signal(signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await self._dead.wait()
            self._transport.close()

    def _signal(self, number: signal.Signals | None) -> None:
        if number is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        for pid in _marked(self._mark):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _read_on(self) -> None:
        stdout = cast("asyncio.ReadTransport | None", self._transport.get_pipe_transport(1))
        if stdout is not None and not stdout.is_closing():
            stdout.resume_reading()

    # asyncio tells us:

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            return self._keep_stderr(data)
        self._lines.extend(line for line in self._cutter.feed(data) if line)
        if len(self._lines) > BACKLOG:
            cast("asyncio.ReadTransport", self._transport.get_pipe_transport(1)).pause_reading()
        return self._wake.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        if fd == 1:
            self._leave()

    def process_exited(self) -> None:
        code = self._transport.get_returncode()
        log.info("The process of %r ended with exit code %s; stderr: %r", self.source, code, self.stderr_tail[-500:])
        self._dead.set()
        asyncio.get_running_loop().call_later(LAST_WORDS_S, self._leave)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _leave(self) -> None:
        self._over.set()
        self._wake.set()
        self._writable.set()

    def _keep_stderr(self, data: bytes) -> None:
        self._stderr.append(data[-STDERR_BYTES:])
        self._stderr_size += len(self._stderr[-1])
        while self._stderr_size > STDERR_BYTES and len(self._stderr) > 1:
            self._stderr_size -= len(self._stderr.popleft())


def _marked(mark: str) -> Iterator[int]:
    """Processes that carry this mark, wherever they have moved to. Only where there is a /proc."""
    if sys.platform != "linux" or not mark:
        return
    needle = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if needle in (entry / "environ").read_bytes():
                    yield int(entry.name)
