"""The engine for several machines: PostgreSQL over psycopg, one connection per thread.

The same verbs as on SQLite; the placeholders and the one differing type name are translated here. A broken connection
is replaced on the next use; a verb whose transaction broke is never run again by us. Knows no domain verb.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar, cast

import psycopg

from toolcrib.errors import AlreadyRunning, BadSettings, Conflict, InvalidPayload, StorageFailed
from toolcrib.storage.database import Row, Transaction

T = TypeVar("T")
_THREADS = 8
_SERVER_LOCK = 0x746F6F6C63726962  # "toolcrib"


class PostgresTransaction:
    """A cursor's three verbs."""

    def __init__(self, cursor: psycopg.Cursor[Row]) -> None:
        self._cursor = cursor

    def run(self, sql: str, *params: object) -> int:
        return self._cursor.execute(_translate(sql), params).rowcount

    def many(self, sql: str, rows: Sequence[Row]) -> None:
        self._cursor.executemany(_translate(sql), rows)

    def one(self, sql: str, *params: object) -> Row | None:
        return self._cursor.execute(_translate(sql), params).fetchone()

    def all(self, sql: str, *params: object) -> list[Row]:
        return self._cursor.execute(_translate(sql), params).fetchall()


class PostgresDatabase:
    """An open PostgreSQL database, held for one server."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._local = threading.local()
        self._connections: list[psycopg.Connection[Row]] = []
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="postgres")
        self._lock_holder = self._connect()
        self._hold()

    async def read(self, verb: Callable[[Transaction], T]) -> T:
        return await self.write(verb)

    async def write(self, verb: Callable[[Transaction], T]) -> T:
        loop = asyncio.get_running_loop()
        # Shielded for the same reason as on SQLite: the caller may leave, the transaction may be committing.
        return await asyncio.shield(loop.run_in_executor(self._threads, self._transact, verb))

    async def close(self) -> None:
        self._threads.shutdown(wait=True)
        for connection in [*self._connections, self._lock_holder]:
            connection.close()

    def _transact(self, verb: Callable[[Transaction], T]) -> T:
        connection = self._connection_of_this_thread()
        try:
            with connection.transaction(), connection.cursor() as cursor:
                return verb(PostgresTransaction(cursor))
        except psycopg.DataError:  # SQLite keeps a NUL in a text and a number of any size, PostgreSQL does not
            raise InvalidPayload(
                "A value of the request cannot be kept: a NUL in a text, or a number too large."
            ) from None
        except psycopg.IntegrityError:
            raise Conflict(
                "What this request builds on was changed or deleted at the same time.", hint="look and try again"
            ) from None
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                self._forget(connection)
            raise _storage_failed(error) from error

    def _connection_of_this_thread(self) -> psycopg.Connection[Row]:
        connection: psycopg.Connection[Row] | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            self._connections.append(connection)
        return connection

    def _forget(self, connection: psycopg.Connection[Row]) -> None:
        self._local.connection = None
        self._connections.remove(connection)
        connection.close()

    def _connect(self) -> psycopg.Connection[Row]:
        try:
            return psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        except psycopg.ProgrammingError:  # its message would repeat the URL, password included
            raise BadSettings("TOOLCRIB_DATABASE_URL is not a PostgreSQL connection URL.") from None
        except psycopg.Error as error:
            raise _storage_failed(error) from error

    def _hold(self) -> None:
        row = self._lock_holder.execute("SELECT pg_try_advisory_lock(%s)", (_SERVER_LOCK,)).fetchone()
        if not row or not row[0]:
            self._lock_holder.close()
            raise AlreadyRunning(
                "Another toolcrib server uses this PostgreSQL database.",
                hint="this release runs one server per database; stop the other one or name another database",
            )


@lru_cache(maxsize=512)
def _translate(sql: str) -> Any:
    # Typed Any because psycopg wants literal strings; ours are literals too, only rewritten.
    return cast("Any", sql.replace("%", "%%").replace("?", "%s").replace("BLOB", "BYTEA"))


def _storage_failed(error: psycopg.Error) -> StorageFailed:
    return StorageFailed(
        f"PostgreSQL could not be used: {str(error).splitlines()[0] if str(error) else type(error).__name__}.",
        hint="check that the database server is up and that TOOLCRIB_DATABASE_URL is right",
    )
