"""What reading a skill over MCP costs, beside a raw echo: `python -m bench.skills`.

Authentication is on, and the echo answers a hundred bytes where a skill answers thousands. Every ratio is taken within
this run.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack

from bench.load import Case, Figure, call, free_port, http, interleave, started, uvicorn

LIMIT = 3.0
TOKEN = "bench-operator-token-0123456789"
AUTH = {"authorization": f"Bearer {TOKEN}"}
PROJECT = "/api/projects/default"
ECHO = "raw ASGI echo"
ATTACHED = 41
SERVE = "import sys; from toolcrib.cli.main import run; sys.exit(run())"


def main() -> None:
    with ExitStack() as stack:
        raw_port = free_port()
        raw = stack.enter_context(started(*uvicorn("bench.raw_apps:app", raw_port), port=raw_port))
        data, port = stack.enter_context(tempfile.TemporaryDirectory()), free_port()
        env = {"TOOLCRIB_ADMIN_TOKEN": TOKEN, "TOOLCRIB_LOG_LEVEL": "error"}
        ours = stack.enter_context(
            started("-c", SERVE, "serve", "--port", str(port), "--data", data, port=port, env=env)
        )
        _stock(port)
        cases = [Case(ECHO, raw, raw_port, _echo())]
        for name, uri in (
            ("SKILL.md of 2 kB", "skill://skill-0/SKILL.md"),
            (f"the last of {ATTACHED} skills", f"skill://skill-{ATTACHED - 1}/SKILL.md"),
            (f"skill://index.json of {ATTACHED} skills", "skill://index.json"),
            ("SKILL.md of 64 kB", "skill://large/SKILL.md"),
        ):
            cases.append(Case(f"{name}, stateless era", ours, port, _read(uri, modern=True)))
            cases.append(Case(f"{name}, session era", ours, port, _read(uri, modern=False)))
        _report(interleave(cases))


def _report(figures: dict[str, Figure]) -> None:
    echo = figures[ECHO]
    print("resources/read of a skill (CPU per request, 32 connections, auth on)")
    for name, figure in figures.items():
        print(f"{name:48} {figure.cpu:8.1f} us {figure.cost_of(echo):6.2f} x raw {figure.rate:8.0f}/s")
    worst = max(figure.cost_of(echo) for name, figure in figures.items() if name.startswith("SKILL.md of 2 kB"))
    verdict = "kept" if worst <= LIMIT else "BROKEN"
    print(f"a SKILL.md of 2 kB costs {worst:.2f} x a raw echo; the limit is {LIMIT:.0f} x: {verdict}")


def _stock(port: int) -> None:
    sizes = {**{f"skill-{n}": 2_000 for n in range(ATTACHED)}, "large": 64_000}
    for name, size in sizes.items():
        content = {
            "description": f"What {name} is good for, in a sentence.",
            "instructions": "Do it well. " * (size // 12),
        }
        call(port, f"{PROJECT}/skills/{name}/versions?api-version=v1", {"inline_content": content}, AUTH)
    skills = [{"type": "skill_reference", "name": name} for name in sizes]
    call(port, f"{PROJECT}/toolboxes/bench/versions?api-version=v1", {"tools": [], "skills": skills}, AUTH)


def _read(uri: str, *, modern: bool) -> bytes:
    params: dict[str, object] = {"uri": uri}
    headers = dict(AUTH)
    if modern:
        version = "2026-07-28"
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers |= {"mcp-protocol-version": version, "mcp-method": "resources/read", "mcp-name": uri}
    body = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params}
    return http("POST", f"{PROJECT}/toolboxes/bench/mcp?api-version=v1", json.dumps(body).encode(), headers)


def _echo() -> bytes:
    params = {"name": "echo", "arguments": {"text": "hello"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return http("POST", "/mcp", json.dumps(body).encode(), AUTH)


if __name__ == "__main__":
    main()
