"""When to stop asking an upstream that keeps failing, and when to try once more.

Closed until several failures in a row; then open for a jittered, growing while; then one probe decides. Knows only
successes and failures, not what they are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from toolcrib import errors


class Breaker:
    def __init__(
        self,
        source: str,
        *,
        threshold: int = 5,
        first_s: float = 1.0,
        longest_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._threshold = threshold
        self._first_s = first_s
        self._longest_s = longest_s
        self._clock = clock
        self._failures = 0
        self.is_open = False
        self._opened = 0
        self._until = 0.0
        self._probing = False
        self._reason = ""

    def admit(self, *, insist: bool = False) -> None:
        """Let one request through, or raise. Whoever is let through reports back with one of the three below.

        `insist` is for a person who wants to know now: it is a probe before its time.
        """
        if not self.is_open:
            return
        wait_s = self._until - self._clock()
        if (wait_s > 0 or self._probing) and not insist:
            why = f" The last time: {self._reason}" if self._reason else ""
            message = f"{self._source!r} has failed {self._failures} times in a row and is not asked for a while.{why}"
            raise errors.CircuitOpen(message, source=self._source, retry_after_s=round(max(wait_s, 0.5), 2))
        self._probing = True

    def succeeded(self) -> None:
        if self._failures:
            self._failures = self._opened = 0
            self.is_open = self._probing = False

    def failed(self, reason: str = "") -> None:
        self._failures += 1
        self.is_open = self._failures >= self._threshold
        self._reason = reason
        if self.is_open and (self._probing or self._clock() >= self._until):
            self._opened += 1
            pause_s = min(self._longest_s, self._first_s * 2 ** min(self._opened - 1, 16))
            self._until = self._clock() + pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
        self._probing = False

    def abandoned(self) -> None:
        """Nobody waited for the outcome: it says nothing, but the next one may probe."""
        self._probing = False
