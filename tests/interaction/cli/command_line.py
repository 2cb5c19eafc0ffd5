"""The `toolcrib` command as people run it: a subprocess with an environment, what it printed, and servers it starts."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

COMMAND = str(Path(sys.executable).with_name("toolcrib"))
START_S = 60.0
CALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Shell:
    """An environment to run `toolcrib` in."""

    environment: dict[str, str]

    def run(self, *arguments: str, stdin: str = "") -> Done:
        done = subprocess.run(
            [COMMAND, *arguments], env=self.environment, input=stdin, capture_output=True, text=True, timeout=CALL_S
        )
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def with_(self, **environment: str) -> Shell:
        return Shell({**self.environment, **environment})


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    data: Path

    @property
    def endpoint(self) -> str:
        return f"{self.address}/api/projects/default"


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TOOLCRIB_")}


@contextmanager
def serving(verb: str, data: Path) -> Generator[Server]:
    """`toolcrib serve` or `toolcrib up` on a free port, with its own data directory and a generated token."""
    process = subprocess.Popen(
        [COMMAND, verb, "--port", "0", "--data", str(data)],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    pump = threading.Thread(target=_pump, args=(process, lines), daemon=True)
    pump.start()
    try:
        yield Server(_address(lines), data)
    finally:
        process.terminate()
        process.wait(timeout=30)
        pump.join(timeout=30)
        assert process.stderr is not None
        process.stderr.close()


def _pump(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        lines.put(line)
    lines.put(None)


def _address(lines: queue.SimpleQueue[str | None]) -> str:
    """The address the server names, once it is ready there."""
    seen, deadline = "", time.monotonic() + START_S
    while (line := lines.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
        seen += line
        if found := re.search(r"listens on (\S+)", line):
            _wait_until_ready(found[1], deadline)
            return found[1]
    raise AssertionError(f"the server did not start:\n{seen}")


def _wait_until_ready(address: str, deadline: float) -> None:
    pause = threading.Event()
    while time.monotonic() < deadline:
        try:
            if httpx2.get(f"{address}/readyz", trust_env=False).is_success:
                return
        except httpx2.TransportError:
            pause.wait(0.02)
    raise AssertionError(f"the server at {address} did not become ready")
