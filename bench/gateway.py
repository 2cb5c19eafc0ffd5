"""What the gateway costs: a call against a raw echo, the hop against a direct call, 10,000 tools against a hundred.

`python -m bench.gateway`. Every ratio is taken within this run; FastMCP's proxy is measured beside ours.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from contextlib import ExitStack

from bench.load import (
    Case,
    Figure,
    call,
    free_port,
    has_wrk,
    http,
    interleave,
    rss_mib,
    send_with_wrk,
    started,
    uvicorn,
)

TOKEN = "bench-operator-token-0123456789"
BOX = "/api/projects/default/toolboxes/bench"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
AUTH = {"authorization": f"Bearer {TOKEN}"}


def main() -> None:
    short_circuit()
    print()
    hop()
    print()
    sizes()


def short_circuit() -> None:
    """tools/call with only the upstream's socket missing, against a raw ASGI echo under uvicorn."""
    with ExitStack() as stack:
        raw = _raw(stack)
        cases = [Case("raw ASGI echo", *raw, _call("/mcp", "echo"))]
        for auth in ("on", "off"):
            server = _server(stack, 100, auth)
            cases.append(Case(f"tools/call, auth {auth}", *server, _call(f"{BOX}/mcp?api-version=v1", "up.echo")))
            legacy = _call(f"{BOX}/mcp?api-version=v1", "up.echo", modern=False)
            cases.append(Case(f"tools/call, session era, auth {auth}", *server, legacy))
        figures = interleave(cases)
    print("A call with only the upstream's socket missing (CPU per request, 32 connections)")
    goals = {"tools/call, auth on": 3.0, "tools/call, auth off": 2.0}
    goals |= {"tools/call, session era, auth on": 3.5, "tools/call, session era, auth off": 2.5}
    _table(figures, "raw ASGI echo", goals)


def hop() -> None:
    """Through the gateway to an upstream: against going there directly, and against a bare pass-through.

    With wrk, as `contract/mcp.md` measured: a load in Python takes as much of the machine as the upstream it asks.
    """
    load = "wrk" if has_wrk() else "Python; install wrk for less of it"
    print(f"The hop: the upstream, the load ({load}) and what stands between them share this machine's cores")
    for upstream, what, needs in (
        ("bench.raw_apps:app", "a raw-ASGI upstream", "uvicorn"),
        ("bench.sdk_upstream:app", "the SDK's server", "mcp"),
    ):
        if not _is_installed(needs):
            continue
        with ExitStack() as stack:
            port = free_port()
            process = stack.enter_context(started(*uvicorn(upstream, port), port=port))
            cases = [
                Case("direct", process, port, _call("/mcp", "echo")),
                Case("bare pass-through", *_bare_hop(stack, port), _call("/mcp", "echo")),
                Case("toolcrib", *_toolcrib(stack, port), _call(f"{BOX}/mcp?api-version=v1", "up.echo")),
            ]
            one = interleave(cases, connections=1, requests=500)
            requests = 4000 if "raw" in upstream else 1000
            many = interleave(cases, requests=requests, measure=send_with_wrk if has_wrk() else None)
        _hop_table(what, one, many)
    if not _is_installed("fastmcp"):
        return
    with ExitStack() as stack:
        peer = interleave([_fastmcp_proxy(stack, _raw(stack)[1])], rounds=3, connections=1, requests=15)["fastmcp"]
    print(f"  FastMCP's proxy: p50 {peer.p50:.1f} ms, {peer.cpu:.0f} µs CPU")


def _is_installed(package: str) -> bool:
    """Machines lent for a measurement have not every peer."""
    found = importlib.util.find_spec(package) is not None
    if not found:
        print(f"  {package} is not installed here: left out")
    return found


def _hop_table(what: str, one: dict[str, Figure], many: dict[str, Figure]) -> None:
    print(f"  in front of {what}")
    for name, figure in many.items():
        added, share = one[name].added_ms(one["direct"]), figure.share_of(many["direct"])
        goal = "(goals ≤ 0.5 ms, ≥ 0.6 of direct)" if name == "toolcrib" else ""
        print(
            f"    {name:20s} {figure.rate:7.0f}/s  {share:5.2f}  {figure.cpu:5.0f} µs CPU   p50 +{added:.2f} ms  {goal}"
        )
    print(f"    toolcrib keeps {many['toolcrib'].share_of(many['bare pass-through']):.2f} of what the bare one does")


def sizes() -> None:
    """A call among ten thousand tools against one among a hundred, and what they weigh."""
    with ExitStack() as stack:
        cases = []
        for count in (100, 10_000):
            server = _server(stack, count, "off")
            cases.append(Case(f"{count} tools", *server, _call(f"{BOX}/mcp?api-version=v1", "up.echo")))
        figures = interleave(cases)
        weight = rss_mib(cases[1].process)
    ratio = figures["10000 tools"].cost_of(figures["100 tools"])
    print(f"tools/call at 10,000 tools costs {ratio:.2f}× of 100 tools (goal ≤ 1.2)")
    print(f"RSS at 10,000 tools, no search index: {weight:.0f} MiB (goal ≤ 150)")


def _call(path: str, name: str, *, modern: bool = True) -> bytes:
    params: dict[str, object] = {"name": name, "arguments": {"text": "x" * 100}}
    headers = {**AUTH, "mcp-protocol-version": "2025-06-18"}
    if modern:
        params["_meta"] = META
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, separators=(",", ":"))
    return http("POST", path, body.encode(), headers)


def _raw(stack: ExitStack) -> tuple:
    port = free_port()
    return stack.enter_context(started(*uvicorn("bench.raw_apps:app", port), port=port)), port


def _server(stack: ExitStack, tools: int, auth: str) -> tuple:
    data = stack.enter_context(tempfile.TemporaryDirectory())
    port = free_port()
    env = {"TOOLCRIB_AUTH": auth, "TOOLCRIB_ADMIN_TOKEN": TOKEN}
    command = ("-m", "bench.short_circuit", data, str(port), str(tools))
    process = stack.enter_context(started(*command, port=port, env=env))
    _stock(port, "http://127.0.0.1:9/mcp")
    return process, port


def _bare_hop(stack: ExitStack, upstream_port: int) -> tuple:
    port = free_port()
    return stack.enter_context(started("-m", "bench.bare_hop", str(port), str(upstream_port), port=port)), port


def _toolcrib(stack: ExitStack, upstream_port: int) -> tuple:
    data = stack.enter_context(tempfile.TemporaryDirectory())
    port = free_port()
    env = {"TOOLCRIB_ADMIN_TOKEN": TOKEN, "TOOLCRIB_LOG_LEVEL": "error"}
    command = ("-m", "toolcrib", "serve", "--port", str(port), "--data", data)
    process = stack.enter_context(started(*command, port=port, env=env))
    _stock(port, f"http://127.0.0.1:{upstream_port}/mcp")
    return process, port


def _stock(port: int, url: str) -> None:
    entry = {"type": "mcp", "server_label": "up", "server_url": url}
    call(port, f"{BOX}/versions?api-version=v1", {"tools": [entry]}, AUTH)
    call(port, f"{BOX}/mcp?api-version=v1", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, AUTH)


def _fastmcp_proxy(stack: ExitStack, upstream_port: int) -> Case:
    port = free_port()
    code = (
        "from fastmcp.server import create_proxy; import uvicorn;"
        f"p = create_proxy('http://127.0.0.1:{upstream_port}/mcp');"
        f"uvicorn.run(p.http_app(stateless_http=True, json_response=True), port={port}, log_level='error')"
    )
    process = stack.enter_context(started("-c", code, port=port))
    return Case("fastmcp", process, port, _call("/mcp", "echo"))


def _table(figures: dict[str, Figure], base: str, goals: dict[str, float]) -> None:
    for name, figure in figures.items():
        goal = f"(goal ≤ {goals[name]})" if name in goals else ""
        print(f"  {name:36s} {figure.cpu:7.1f} µs  {figure.cost_of(figures[base]):5.2f}×  {figure.rate:7.0f}/s  {goal}")


if __name__ == "__main__":
    main()
