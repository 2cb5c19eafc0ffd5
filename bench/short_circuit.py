"""A toolcrib server whose upstream is answered inside the process: everything but the upstream's socket.

`python -m bench.short_circuit DATA PORT TOOLS`. Auth, resolve, lookup, validation and the call record are all there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.raw_apps import _ECHO, many_tools
from toolcrib import app, settings
from toolcrib.upstreams.upstream import Complete, Listing

_RESULT = b'{"resultType":"complete","content":[{"type":"text","text":"%b"}],"isError":false}' % (b"x" * 100)


class _Here:
    """A call whose answer is there as soon as it was sent."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    def when_ready(self, then: Callable[[], None]) -> None:
        then()

    def result(self) -> bytes:
        return _RESULT

    def close(self) -> None: ...


class _Answered:
    label = "up"

    def __init__(self, count: int) -> None:
        self._listing = Listing(tools=(_ECHO, *many_tools(count - 1)))

    async def fetch(self, exchange: Any, *, insist: bool = False) -> Listing:
        return self._listing

    def start(self, *given: Any, **rest: Any) -> _Here:
        return _Here()

    async def request(self, method: str, params: Any, exchange: Any, **rest: Any) -> Complete:
        return Complete(_RESULT)


class _Pool:
    def __init__(self, **rest: Any) -> None:
        self._upstream = _Answered(int(sys.argv[3]))

    def upstream(self, spec: Any) -> _Answered:
        return self._upstream

    def start_sweeping(self) -> None: ...

    async def aclose(self) -> None: ...


if __name__ == "__main__":
    app.UpstreamPool = _Pool  # type: ignore[assignment, misc]
    app.serve(settings.load(None, Path(sys.argv[1]), {"port": int(sys.argv[2]), "log_level": "error"}))
