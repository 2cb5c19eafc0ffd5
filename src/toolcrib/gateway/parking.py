"""Calls on hold: they wait inside an upstream for answers that only their client can give, and the client is away.

Bounded in number and time; what nobody comes back for is cancelled.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import Overloaded
from toolcrib.gateway.exchange import ClientExchange
from toolcrib.gateway.states import LIFETIME_S, expired

_MOST_PARKED = 1_000


@dataclass(slots=True)
class Parked:
    """A call that waits inside an upstream for answers only the client can give."""

    task: asyncio.Task[Any]
    exchange: ClientExchange


class ParkingLot:
    """Calls on hold, bounded in number and time."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._parked: dict[int, tuple[Parked, asyncio.TimerHandle]] = {}

    def park(self, call: Parked) -> int:
        if len(self._parked) >= _MOST_PARKED:
            call.task.cancel()
            raise Overloaded("Too many calls are waiting for input from their clients.", retry_after_s=30)
        number = next(self._numbers)
        timer = asyncio.get_running_loop().call_later(LIFETIME_S, self._give_up, number)
        self._parked[number] = (call, timer)
        return number

    def take(self, number: int) -> Parked:
        """Each state opens its call once; replaying it finds nothing."""
        found = self._parked.pop(number, None)
        if found is None:
            raise expired()
        found[1].cancel()
        return found[0]

    def close(self) -> None:
        for number in list(self._parked):
            self._give_up(number)

    def _give_up(self, number: int) -> None:
        if found := self._parked.pop(number, None):
            found[1].cancel()
            found[0].task.cancel()
