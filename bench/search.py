"""tool_search over MCP: how long it takes, how flat the list stays, and what a whole session costs in tokens.

`python -m bench.search`. FastMCP's search transform is measured beside it, over the same tools, in the same run.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from typing import Any

from bench.gateway import AUTH, BOX, META, TOKEN
from bench.load import Case, call, free_port, http, interleave, rss_mib, started

SIZES = (1_000, 10_000)
QUERIES = ("approve the travel budget of a user", "export every shipment report", "who ordered what last week")


def main() -> None:
    latency()
    print()
    flatness()


def latency() -> None:
    """Settled, and while the transformer embeds the tools in the background of the same process."""
    print("tool_search over MCP, p50 with one connection (engine and protocol)")
    for size, goal in zip(SIZES, (1.0, 3.0), strict=True):
        with ExitStack() as stack:
            settled, grown = _p50(stack, size, "table")
        with ExitStack() as stack:
            meanwhile, _ = _p50(stack, size, "auto")
        with ExitStack() as stack:
            peer = interleave([_fastmcp(stack, size)], rounds=2, connections=1, requests=5, warm_up=1)
        other = peer["fastmcp"].p50
        print(f"  {size:6d} tools: {settled:6.2f} ms (goal ≤ {goal})   FastMCP's search transform {other:7.1f} ms")
        print(
            f"         {meanwhile:6.2f} ms while better vectors are made; index {grown:.0f} MiB (goal ≤ 150 at 10,000)"
        )


def _p50(stack: ExitStack, size: int, model: str) -> tuple[float, float]:
    """(the slowest query's p50, what the index weighs without the transformer's session)"""
    server, port = _searching(stack, size, model)
    before = rss_mib(server)
    _settled(port)
    grown = rss_mib(server) - before
    cases = [Case(f"query {i}", server, port, _search(query)) for i, query in enumerate(QUERIES)]
    figures = interleave(cases, rounds=3, connections=1, requests=200)
    return max(figure.p50 for figure in figures.values()), grown


def flatness() -> None:
    """The list's size against the number of tools, and a scripted session: list, three searches, three calls."""
    print("tools/list, by number of tools (tokens: bytes / 4, and o200k by its own BPE)")
    for size in (10, 100, 1_000, 10_000):
        with ExitStack() as stack:
            _, port = _searching(stack, size)
            listed = _rpc(port, "tools/list", {})
            whole = _rpc(port, "tools/list", {}, query="&expose=all")
            session = [_rpc(port, "tools/call", _tool_search(query, "full")) for query in QUERIES]
            brief = [_rpc(port, "tools/call", _tool_search(query, "brief")) for query in QUERIES]
            calls = [_rpc(port, "tools/call", _through("up.echo", {"text": "done"})) for _ in QUERIES]
        flat, full = _list_bytes(listed), _list_bytes(whole)
        spent = flat + sum(map(_text_bytes, session + calls))
        short = flat + sum(map(_text_bytes, brief + calls))
        print(
            f"  {size:6d} tools: list {flat:6d} B = {flat // 4:5d} tokens (BPE {_bpe(listed):5s})   everything "
            f"{full:8d} B = {full // 4:7d}   session {spent // 4:5d} (brief {short // 4:5d}) against {full // 4:7d}"
        )


def _searching(stack: ExitStack, size: int, model: str = "auto") -> tuple[Any, int]:
    data = stack.enter_context(tempfile.TemporaryDirectory())
    port = free_port()
    env = {"TOOLCRIB_AUTH": "on", "TOOLCRIB_ADMIN_TOKEN": TOKEN, "TOOLCRIB_SEARCH_MODEL": model}
    process = stack.enter_context(started("-m", "bench.short_circuit", data, str(port), str(size), port=port, env=env))
    entry = {"type": "mcp", "server_label": "up", "server_url": "http://127.0.0.1:9/mcp"}
    body = {"tools": [entry, {"type": "toolbox_search_preview"}]}
    call(port, f"{BOX}/versions?api-version=v1", body, AUTH)
    _rpc(port, "tools/list", {})
    return process, port


def _settled(port: int) -> None:
    """The first search waits for the quick index; a few more let it warm up."""
    for query in QUERIES * 3:
        _rpc(port, "tools/call", _tool_search(query, "full"))


def _rpc(port: int, method: str, params: dict[str, Any], query: str = "") -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return call(port, f"{BOX}/mcp?api-version=v1{query}", body, AUTH)["result"]


def _tool_search(query: str, detail: str) -> dict[str, Any]:
    return {"name": "tool_search", "arguments": {"query": query, "detail": detail}}


def _through(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}


def _search(query: str) -> bytes:
    params = {**_tool_search(query, "full"), "_meta": META}
    headers = {**AUTH, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "tool_search"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return http("POST", f"{BOX}/mcp?api-version=v1", body.encode(), headers)


def _fastmcp(stack: ExitStack, size: int) -> Case:
    port = free_port()
    code = (
        "from fastmcp import FastMCP; from fastmcp.tools import Tool; from fastmcp.server.transforms.search import"
        " BM25SearchTransform; from bench.raw_apps import many_tools; import uvicorn;"
        "s = FastMCP('peer', transforms=[BM25SearchTransform()]);\n"
        "def made(t):\n"
        "    tool = Tool.from_function(lambda id='': id, name=t['name'], description=t['description'])\n"
        "    return tool.model_copy(update={'parameters': t['inputSchema']})\n"
        f"for t in many_tools({size}): s.add_tool(made(t))\n"
        f"uvicorn.run(s.http_app(stateless_http=True, json_response=True), port={port}, log_level='error')"
    )
    process = stack.enter_context(started("-c", code, port=port, within_s=400))
    params = {"name": "search_tools", "arguments": {"query": QUERIES[0]}, "_meta": META}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "search_tools"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return Case("fastmcp", process, port, http("POST", "/mcp", body.encode(), headers))


def _list_bytes(listed: dict[str, Any]) -> int:
    """What a client sends to a model: names, descriptions, schemas; not `_meta`."""
    kept = [{k: v for k, v in tool.items() if k in ("name", "description", "inputSchema")} for tool in listed["tools"]]
    return len(json.dumps(kept, separators=(",", ":")))


def _text_bytes(result: dict[str, Any]) -> int:
    return sum(len(part.get("text", "").encode()) for part in result["content"])


def _bpe(listed: dict[str, Any]) -> str:
    try:
        import bpe_openai
    except ImportError:
        return "-"
    kept = [{k: v for k, v in tool.items() if k in ("name", "description", "inputSchema")} for tool in listed["tools"]]
    return str(len(bpe_openai.get_encoding("o200k_base").encode(json.dumps(kept, separators=(",", ":")))))


if __name__ == "__main__":
    main()
