"""The waist of storage: what a transaction offers, and how one is run.

Verbs are plain functions over a `Transaction`; an engine runs them on a thread of its own, so neither verbs nor
callers know which database is below. Placeholders are `?`; the types used are those both engines understand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

Row = tuple[Any, ...]
T = TypeVar("T")


class Transaction(Protocol):
    """One open transaction. Leaving the verb normally commits it, raising rolls it back."""

    def run(self, sql: str, *params: object) -> int:
        """Run a statement; the number of rows it touched."""
        ...

    def many(self, sql: str, rows: Sequence[Row]) -> None:
        """Run one statement for each row; much cheaper than as many runs."""
        ...

    def one(self, sql: str, *params: object) -> Row | None: ...

    def all(self, sql: str, *params: object) -> list[Row]: ...


class Database(Protocol):
    """An open database. `write` returns only after the transaction is durable."""

    async def read(self, verb: Callable[[Transaction], T]) -> T: ...

    async def write(self, verb: Callable[[Transaction], T]) -> T: ...

    async def close(self) -> None: ...
