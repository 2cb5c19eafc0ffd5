"""Raw ASGI applications to measure against: a JSON echo, and the smallest MCP upstream that answers.

They do nothing that a real server must do, which is why they are the limit.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
_ECHO = {
    "name": "echo",
    "description": "Echo text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
_MORE = int(os.environ.get("BENCH_TOOLS", "100")) - 1


def many_tools(count: int) -> list[dict[str, Any]]:
    nouns = ("invoice", "ticket", "event", "file", "contact", "order", "shipment", "report", "user", "budget")
    verbs = ("create", "list", "update", "delete", "find", "archive", "export", "share", "approve", "count")
    return [
        {
            "name": f"{verbs[i % 10]}_{nouns[i // 10 % 10]}_{i}",
            "description": f"{verbs[i % 10].title()} the {nouns[i // 10 % 10]} that was asked for, variant {i}.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": f"Which {nouns[i // 10 % 10]}."},
                    "count": {"type": "integer", "minimum": 1, "description": "How many at most."},
                    "note": {"type": "string", "description": "Free text kept with it."},
                },
                "required": ["id"],
            },
        }
        for i in range(count)
    ]


_TOOLS = [_ECHO, *many_tools(_MORE)]


def _result(request: dict[str, Any]) -> dict[str, Any]:
    method = request["method"]
    if method == "tools/call":
        text = request["params"]["arguments"].get("text", "")
        return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": False}
    if method == "tools/list":
        return {"resultType": "complete", "tools": _TOOLS, "ttlMs": 60000, "cacheScope": "public"}
    if method == "server/discover":
        return {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "ttlMs": 60000,
            "cacheScope": "public",
        }
    return {"resultType": "complete"}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Both the echo and the upstream: a `tools/call` is echoed."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    request = _decode(body)
    out = _encode({"jsonrpc": "2.0", "id": request["id"], "result": _result(request)})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(out))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": out})
