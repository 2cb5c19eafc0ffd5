"""The embedded engine: one SQLite file in WAL mode, one writer thread, a few reader threads.

Durable on acknowledgement (`synchronous = FULL`). Writes that arrive while another is being flushed share one commit,
each in its own savepoint, so a crowd of writers costs few flushes. Knows no domain verb.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from toolcrib.errors import AlreadyRunning, Conflict, StorageFailed
from toolcrib.storage.database import Row, Transaction

T = TypeVar("T")
_MOST_WRITES_PER_COMMIT = 64
_READER_THREADS = 2
_LOCK_ATTEMPTS = 10


class SqliteTransaction:
    """A cursor's three verbs."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, *params: object) -> int:
        return self._connection.execute(sql, cast("Any", params)).rowcount

    def many(self, sql: str, rows: Sequence[Row]) -> None:
        self._connection.executemany(sql, rows)

    def one(self, sql: str, *params: object) -> Row | None:
        return self._connection.execute(sql, cast("Any", params)).fetchone()

    def all(self, sql: str, *params: object) -> list[Row]:
        return self._connection.execute(sql, cast("Any", params)).fetchall()


class _Write:
    """One verb on its way through the writer thread."""

    def __init__(self, verb: Callable[[Transaction], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.verb = verb
        self.loop = loop
        self.done: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        if self.done.done():
            return
        if self.error is not None:
            self.done.set_exception(self.error)
            self.done.exception()  # a caller that went away never asks; that is no reason to log
        else:
            self.done.set_result(self.result)


class SqliteDatabase:
    """An open SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_loop, name="sqlite-writer", daemon=True)
        self._local = threading.local()
        self._readers = ThreadPoolExecutor(_READER_THREADS, thread_name_prefix="sqlite-reader")
        self._connections: list[sqlite3.Connection] = []
        self._writing = connect(path)  # creates the file and fails here, in the open, when it cannot
        self._writer.start()

    async def read(self, verb: Callable[[Transaction], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, verb)

    async def write(self, verb: Callable[[Transaction], T]) -> T:
        write = _Write(verb, asyncio.get_running_loop())
        self._queue.put(write)
        # A caller that goes away must not take the transaction with it: it may already be part of a commit.
        return await asyncio.shield(write.done)

    async def close(self) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._writer.join)
        self._readers.shutdown(wait=True)
        for connection in [*self._connections, self._writing]:
            connection.close()

    def _read(self, verb: Callable[[Transaction], T]) -> T:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path)
            self._connections.append(connection)
        try:
            connection.execute("BEGIN")
            try:
                return verb(SqliteTransaction(connection))
            finally:
                connection.rollback()
        except sqlite3.Error as error:
            raise _storage_failed(error) from error

    def _write_loop(self) -> None:
        while (batch := self._next_batch()) is not None:
            self._commit(self._writing, batch)
            for write in batch:
                write.loop.call_soon_threadsafe(write.settle)

    def _next_batch(self) -> list[_Write] | None:
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < _MOST_WRITES_PER_COMMIT and not self._queue.empty():
            write = self._queue.get()
            if write is None:
                self._queue.put(None)
                break
            batch.append(write)
        return batch

    def _commit(self, connection: sqlite3.Connection, batch: list[_Write]) -> None:
        tx = SqliteTransaction(connection)
        try:
            connection.execute("BEGIN IMMEDIATE")
            for write in batch:
                _run_in_savepoint(connection, tx, write)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):  # the engine rolls back by itself what it cannot be asked to
                connection.rollback()
            for write in batch:
                write.error = write.error or _storage_failed(error)


def _run_in_savepoint(connection: sqlite3.Connection, tx: Transaction, write: _Write) -> None:
    connection.execute("SAVEPOINT verb")
    try:
        write.result = write.verb(tx)
        connection.execute("RELEASE verb")
    except sqlite3.OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - carried to the caller that is waiting for it
        write.error = _overtaken() if isinstance(error, sqlite3.IntegrityError) else error
        connection.execute("ROLLBACK TO verb")
        connection.execute("RELEASE verb")


def connect(path: Path) -> sqlite3.Connection:
    """A connection with the pragmas every one of ours has."""
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        raise _storage_failed(error) from error
    return connection


def _overtaken() -> Conflict:
    return Conflict("What this request builds on was changed or deleted at the same time.", hint="look and try again")


def _storage_failed(error: sqlite3.Error) -> StorageFailed:
    return StorageFailed(
        f"The database could not be used: {error}.",
        hint="check free space and permissions of the data directory; nothing was changed by this request",
    )


class DataDirectoryLock:
    """Holds a data directory for one server. The lock file names the address of the holder."""

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._fd = os.open(directory / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageFailed(
                f"The data directory {directory} cannot be used: {error.strerror}.",
                hint="name a directory this user may write to with --data or TOOLCRIB_DATA",
            ) from error
        holder = None
        for _ in range(_LOCK_ATTEMPTS):  # somebody who only looks (`holder_of`) holds it for a moment too
            if _lock(self._fd):
                self.announce("an unknown address (still starting)")
                return
            if holder := holder_of(directory):
                break
        os.close(self._fd)
        raise AlreadyRunning(
            f"The data directory {directory} is held by the toolcrib server at {holder}.",
            hint="use that server, stop it, or start this one with another --data directory",
        )

    def announce(self, address: str) -> None:
        os.truncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps({"address": address, "pid": os.getpid()}).encode(), 0)

    def release(self) -> None:
        os.truncate(self._fd, 0)
        os.close(self._fd)


def holder_of(directory: Path) -> str | None:
    """The address of the server that holds a data directory, if one does."""
    path = directory / "server.lock"
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        written = b"" if _lock(fd) else os.pread(fd, 4096, 0) or b'{"address": "an unknown address"}'
        return str(json.loads(written)["address"]) if written else None
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
