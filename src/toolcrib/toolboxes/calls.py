"""The record of calls: who called which real tool, how it ended, how long it took, and the shape of its arguments.

Buffered in memory and flushed within a second, so that a call never waits for the database. What was not flushed yet
is lost in a crash: at most one second of records. Values of arguments are never recorded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, cast

import msgspec

from toolcrib.domain import Principal, Version
from toolcrib.errors import OperatorError
from toolcrib.storage import records_calls as records
from toolcrib.storage.database import Database
from toolcrib.storage.records_calls import CallRecord

log = logging.getLogger("toolcrib.calls")
FLUSH_EVERY_S = 1.0
_MOST_BUFFERED = 50_000
_MOST_FIELDS = 50
_KINDS = {"str": "string", "bool": "boolean", "int": "integer", "float": "number", "list": "array", "dict": "object"}
_encode = msgspec.json.Encoder().encode


class CallLog:
    """Collects call records and writes them in batches."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._buffer: list[CallRecord] = []
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    def add(
        self,
        version: Version,
        principal: Principal,
        label: str,
        tool: str,
        outcome: str,
        started: float,
        arguments: object,
    ) -> None:
        if len(self._buffer) >= _MOST_BUFFERED:
            self.dropped += 1
            return
        self._buffer.append(
            CallRecord(
                at=int(time.time() * 1000),
                project=version.project,
                toolbox=version.toolbox,
                version=version.number,
                principal=principal.id,
                label=label,
                tool=tool,
                outcome=outcome,
                duration_us=int((time.perf_counter() - started) * 1e6),
                arguments=shape(arguments),
            )
        )

    def start(self) -> None:
        self._task = asyncio.create_task(self._flush_for_ever())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self.flush()

    async def flush(self) -> None:
        if self._buffer:
            batch, self._buffer = self._buffer, []
            await self._db.write(lambda tx: records.add_calls(tx, batch))

    async def _flush_for_ever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            try:
                await self.flush()
            except OperatorError as error:
                log.warning("call records could not be written: %s", error.message)


def shape(arguments: object) -> str:
    """Names and JSON types of the top-level arguments."""
    if not isinstance(arguments, dict):
        return "{}"
    fields = list(cast("dict[str, Any]", arguments).items())[:_MOST_FIELDS]
    return _encode({name[:64]: _KINDS.get(type(value).__name__, "null") for name, value in fields}).decode()
