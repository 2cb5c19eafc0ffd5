"""A real `toolcrib serve` on a free port with its own data directory."""

from __future__ import annotations

import queue
import re
import subprocess
import threading
import time
from collections.abc import Iterator

import httpx2
import pytest
from command_line import COMMAND, Server, Shell, clean_environment

START_S = 60.0


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("crib")
    process = subprocess.Popen(
        [COMMAND, "serve", "--port", "0", "--data", str(data)],
        env=clean_environment(),
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


@pytest.fixture
def shell(server: Server) -> Shell:
    """A shell on the server's machine: no token, but the data directory that holds one."""
    environment = {**clean_environment(), "TOOLCRIB_ENDPOINT": server.endpoint, "TOOLCRIB_DATA": str(server.data)}
    return Shell(environment)


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
