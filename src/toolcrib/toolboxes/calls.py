"""The record of calls: who called which real tool, how it ended, how long it took, and the shape of its arguments.

Buffered in memory and flushed within a second, so that a call never waits for the database. What was not flushed yet
is lost in a crash: at most one second of records. Values of arguments are never recorded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from toolcrib.catalog.names import Name
from toolcrib.domain import Principal, Version
from toolcrib.errors import OperatorError
from toolcrib.storage import records_calls as records
from toolcrib.storage.database import Database

log = logging.getLogger("toolcrib.calls")
FLUSH_EVERY_S = 1.0
_MOST_BUFFERED = 50_000
_DROP_EVERY_S = 3600.0
_MOST_FIELDS = 50
_KINDS = {"str": "string", "bool": "boolean", "int": "integer", "float": "number", "list": "array", "dict": "object"}
_Kinds = tuple[tuple[str, ...], tuple[type[Any], ...]]
_Box = tuple[str, str]
_encode = msgspec.json.Encoder().encode


class CallLog:
    """Collects calls and writes them in batches. Adding one is on the path of every call, so it only collects."""

    def __init__(self, db: Database, *, keep_days: float = 30) -> None:
        self._db = db
        self._keep_s = keep_days * 86_400
        self._drop_at = 0.0
        self._buffer: dict[_Box, list[bytes]] = {}
        self._buffered = 0
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    def add(
        self, version: Version, principal: Principal, tool: Name, outcome: str, started: float, arguments: object
    ) -> None:
        self.of(version, principal, tool).add(outcome, started, arguments)

    def of(self, version: Version, principal: Principal, tool: Name) -> Calls:
        """The calls of one tool by one principal, for whoever adds more than one."""
        who = records.who(version.number, principal.id, tool.label, tool.tool)
        return Calls(self, (version.project, version.toolbox), who)

    def put(self, box: _Box, text: bytes) -> None:
        if self._buffered >= _MOST_BUFFERED:
            self.dropped += 1
            return
        self._buffered += 1
        waiting = self._buffer.get(box)
        if waiting is None:
            waiting = self._buffer[box] = []
        waiting.append(text)

    def start(self) -> None:
        self._task = asyncio.create_task(self._flush_for_ever())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self.flush()

    async def flush(self) -> None:
        if self._buffer:
            calls, self._buffer, self._buffered = self._buffer, {}, 0
            try:
                await self._db.write(lambda tx: records.add_calls(tx, calls))
            except OperatorError:
                self._put_back(calls)  # the database may come back
                raise

    def _put_back(self, calls: dict[_Box, list[bytes]]) -> None:
        later, self._buffer, self._buffered = self._buffer, {}, 0
        for batch in (calls, later):
            for box, texts in batch.items():
                for text in texts:
                    self.put(box, text)

    async def _drop_old(self) -> None:
        now = time.time()
        if now >= self._drop_at:
            self._drop_at = now + _DROP_EVERY_S
            await self._db.write(lambda tx: records.drop_calls_before(tx, int((now - self._keep_s) * 1000)))

    async def _flush_for_ever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            try:
                await self.flush()
                await self._drop_old()
            except OperatorError as error:
                log.warning("call records could not be written: %s", error.message)


class Calls:
    """The calls of one tool by one principal."""

    __slots__ = ("_box", "_log", "_who")

    def __init__(self, log: CallLog, box: _Box, who: bytes) -> None:
        self._log = log
        self._box = box
        self._who = who

    def add(self, outcome: str, started: float, arguments: object) -> None:
        """One that began at `started`, on `time.perf_counter`, and is over."""
        at_ms, took_us = time.time() * 1000, (time.perf_counter() - started) * 1e6
        self._log.put(self._box, records.text(at_ms, self._who, outcome, took_us, shape(kinds(arguments))))


def kinds(arguments: object) -> _Kinds:
    """Names and Python types of the top-level arguments; no value is kept."""
    if not isinstance(arguments, dict):
        return (), ()
    given: dict[str, Any] = arguments  # pyright: ignore[reportUnknownVariableType] - JSON has no other keys
    return tuple(given), tuple(map(type, given.values()))


@lru_cache(maxsize=4096)
def shape(arguments: _Kinds) -> bytes:
    """The same as JSON, as the JSON text of a string. Calls of one tool mostly have one, so it is worked out once."""
    fields = islice(zip(*arguments, strict=True), _MOST_FIELDS)
    return _encode(_encode({name[:64]: _KINDS.get(kind.__name__, "null") for name, kind in fields}).decode())
