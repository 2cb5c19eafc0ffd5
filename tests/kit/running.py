"""Real servers for tests: a child process on a free loopback port, with its own data directory and log file.

Tests know a server by its address, its operator's token and its files; nothing of it is imported into the test process.
"""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2

OPERATOR_TOKEN = "operator-token-for-tests-0123456789"
START_S = 60.0
STOP_S = 30.0
_COMMAND = (sys.executable, "-c", "import sys; from toolcrib.cli.main import run; sys.exit(run())")
_LISTENS = re.compile(r"listens on (\S+)")


@dataclass(slots=True)
class Server:
    """One running server."""

    address: str
    data: Path
    log: Path
    process: subprocess.Popen[bytes]
    token: str = OPERATOR_TOKEN
    environment: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def endpoint(self) -> str:
        return self.project("default")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def project(self, name: str) -> str:
        return f"{self.address}/api/projects/{name}"

    def client(self, token: str | None = None, **options: Any) -> httpx2.Client:
        """A client of the project `default`, with the operator's token unless another is given ("" for none)."""
        token = self.token if token is None else token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(
            base_url=self.endpoint,
            params={"api-version": "v1"},
            headers={**headers, **options.pop("headers", {})},
            trust_env=False,
            timeout=60,
            **options,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_S)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without any setting of ours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLCRIB_", "TOOLBOX_"))}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


def launch(
    data: Path, *flags: str, environment: Mapping[str, str] | None = None, log: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start `toolcrib serve` and do not wait for it; stderr goes to `log`."""
    log = log or data.with_name(f"{data.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    settings = {"TOOLCRIB_ADMIN_TOKEN": OPERATOR_TOKEN, **(environment or {})}
    with log.open("ab") as stderr:
        return subprocess.Popen(
            [*_COMMAND, "serve", "--port", "0", "--data", str(data), *flags],
            env=clean_environment(**{k: v for k, v in settings.items() if v}),
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
        )


def start(data: Path, *flags: str, environment: Mapping[str, str] | None = None, log: Path | None = None) -> Server:
    """Start `toolcrib serve` and wait until it says where it listens."""
    log = log or data.with_name(f"{data.name}.log")
    begin = log.stat().st_size if log.exists() else 0
    process = launch(data, *flags, environment=environment, log=log)
    return Server(_address(process, log, begin), data, log, process, environment=dict(environment or {}))


@contextmanager
def running(data: Path, *flags: str, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    server = start(data, *flags, environment=environment)
    try:
        yield server
    finally:
        server.stop()


def refusal(data: Path, *flags: str, environment: Mapping[str, str] | None = None) -> str:
    """What `toolcrib serve` says when it must not start. In this process: it ends before there is a server."""
    from toolcrib.cli.main import run  # here, so that tests that only talk to servers never load one

    settings = clean_environment(**{"TOOLCRIB_ADMIN_TOKEN": OPERATOR_TOKEN, **(environment or {})})
    said = io.StringIO()
    with mock.patch.dict(os.environ, settings, clear=True), redirect_stderr(said):
        code = run(["serve", "--port", "0", "--data", str(data), *flags])
    assert code != 0, said.getvalue()
    assert "Traceback" not in said.getvalue()
    return said.getvalue()


def _address(process: subprocess.Popen[bytes], log: Path, begin: int) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with log.open("rb") as file:
            file.seek(begin)
            said = file.read().decode(errors="replace")
        if found := _LISTENS.search(said):
            return found[1]
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}:\n{said}")
        time.sleep(0.005)  # a poll of a bounded wait: a log file cannot be waited for
    process.kill()
    raise AssertionError(f"the server did not start within {START_S} s:\n{said}")
