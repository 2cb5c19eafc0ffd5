"""`serve --stdio TOOLBOX`: find the server to bridge to, or start one for as long as the client is there.

The lock file of a data directory names the address of the server that holds it. Knows nothing of MCP; `bridge` relays.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import msgspec

from toolcrib import errors
from toolcrib.cli.bridge import relay
from toolcrib.cli.failures import exit_code
from toolcrib.cli.remote import find_token
from toolcrib.client.rest import Client, certificates
from toolcrib.settings import Settings

_START_S = 60.0
_LOOK_AGAIN_S = 0.05
_COMMAND = (sys.executable, "-c", "from toolcrib.cli.main import run; raise SystemExit(run())")


def serve_stdio(settings: Settings, config: Path | None, toolbox: str) -> None:
    """Be an MCP server on stdin and stdout for one toolbox, until stdin ends."""
    with _endpoint(settings, config) as endpoint:
        token = find_token(endpoint, settings)
        with Client(endpoint, token) as client:
            client.toolbox(toolbox)  # a wrong name or token is said here, not to the client in its first request
            url = client.mcp_url(toolbox)
        asyncio.run(relay(url, token))


@contextmanager
def _endpoint(settings: Settings, config: Path | None) -> Generator[str]:
    if endpoint := os.environ.get("TOOLCRIB_ENDPOINT"):
        yield endpoint
    elif address := _running(settings):
        yield f"{address}/api/projects/default"
    else:
        with _child(settings, config) as address:
            yield f"{address}/api/projects/default"


@contextmanager
def _child(settings: Settings, config: Path | None) -> Generator[str]:
    """A server of our own on a free port. Its output goes to stderr: stdout belongs to the client."""
    port = "0" if settings.database_url is None else str(settings.port)
    given = ["--config", str(config)] if config else []
    command = [*_COMMAND, "serve", "--host", "127.0.0.1", "--port", port, "--data", str(settings.data_dir), *given]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr) as child:  # noqa: S603 - our own command
        try:
            yield _wait_for(child, settings)
        finally:
            child.terminate()


def _wait_for(child: subprocess.Popen[bytes], settings: Settings) -> str:
    """The address of the server, ours or one that was faster to take the data directory."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if address := _running(settings):
            return address
        if child.poll() not in (None, exit_code(errors.AlreadyRunning)):
            break
        time.sleep(_LOOK_AGAIN_S)
    raise errors.OperatorError("The server could not be started.", hint="the lines above say why")


def _running(settings: Settings) -> str | None:
    """The address at which a server of this data directory is ready now."""
    address = _announced(settings.data_dir)
    if address is None and settings.database_url is not None:
        address = f"http://{settings.host}:{settings.port}"
    if address is None or not address.startswith("http"):
        return None
    try:
        ready = httpx2.get(f"{address}/readyz", timeout=5.0, verify=certificates(address), trust_env=False)
    except httpx2.TransportError:
        return None
    return address if ready.is_success else None


def _announced(data_dir: Path) -> str | None:
    try:
        return str(msgspec.json.decode((data_dir / "server.lock").read_bytes(), type=dict[str, str | int])["address"])
    except (OSError, msgspec.DecodeError, KeyError):
        return None
