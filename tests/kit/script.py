"""What the scriptable upstream does, apart from any transport: lists, calls, faults and pushes, driven by data."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

Does = Literal[
    "echo",  # the argument `text`, as text
    "whoami",  # the value of the Authorization header, as text
    "headers",  # all request headers, as JSON text
    "error",  # an isError result
    "refuse",  # a JSON-RPC error
    "delay",  # echo after `amount` seconds
    "hang",  # never answers
    "cut",  # the connection closes after `amount` bytes of the answer
    "die",  # the connection (or process) dies after the call was counted, before a byte of the answer
    "wrong_id",  # an answer to another request
    "garbage",  # not JSON
    "oversize",  # a text of `amount` bytes
    "progress",  # `amount` progress notifications first
    "log",  # a log line first
    "elicit",  # asks the client (elicitation/create), returns what it said
    "sample",  # asks the client (sampling/createMessage)
    "roots",  # asks the client (roots/list)
    "resume",  # closes the stream early; the answer is there for whoever asks again with Last-Event-ID (legacy HTTP)
    "reveal",  # adds a tool called `revealed` and says that the list has changed
]


@dataclass(frozen=True)
class Tool:
    name: str
    does: Does = "echo"
    amount: float = 0
    description: str = ""
    schema: dict[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {"text": {"type": "string"}}}
    )
    annotations: dict[str, Any] = field(default_factory=dict)
    needs: str = ""  # listed only for clients that declare this capability

    def wire(self) -> dict[str, Any]:
        described = {
            "name": self.name,
            "description": self.description or f"Does {self.does}.",
            "inputSchema": self.schema,
        }
        return {**described, **({"annotations": self.annotations} if self.annotations else {})}


@dataclass(frozen=True)
class Behaviour:
    eras: tuple[str, ...] = ("modern", "legacy")  # or ("sse",)
    answers: Literal["auto", "sse"] = "auto"  # JSON unless something has to be said first; or always a stream
    pushes: Literal["call", "session"] = "call"  # the stream on which pushed requests travel (legacy HTTP)
    token: str | None = None  # 401 without this bearer token
    status: int | None = None  # every POST is answered with this status
    page_size: int = 0
    lists: Literal["all", "cursor_loop", "endless", "hang", "garbage"] = "all"
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    instructions: str | None = None
    # stdio only
    noise: bool = False  # prints non-protocol lines between messages
    stderr_bytes: int = 0  # floods stderr before the first answer
    crash_at_start: bool = False
    dies_when_probed: bool = False  # exits when it meets a modern request
    ignore_sigterm: bool = False  # and the end of stdin as well
    fork: Literal["", "group", "session"] = ""  # starts a grandchild, in the same group or in a session of its own
    pid_file: str = ""
    count_file: str = ""

    def to_json(self, tools: list[Tool]) -> str:
        return json.dumps({"tools": [asdict(tool) for tool in tools], "behaviour": asdict(self)})

    @staticmethod
    def from_json(text: str) -> Script:
        data = json.loads(text)
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in data["behaviour"].items()}
        return Script([Tool(**tool) for tool in data["tools"]], Behaviour(**given))


class Fault(Exception):
    """The transport has to misbehave now."""

    def __init__(self, kind: str, amount: float = 0) -> None:
        super().__init__(kind)
        self.kind = kind
        self.amount = amount


@dataclass
class Call:
    """One request and the means to say something before it is answered."""

    era: str
    message: dict[str, Any]
    headers: dict[str, str]
    say: Callable[[dict[str, Any]], Awaitable[None]]
    ask: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]] | None = None
    declared: dict[str, Any] = field(default_factory=dict)

    @property
    def capabilities(self) -> dict[str, Any]:
        meta = self.params.get("_meta") or {}
        return meta.get("io.modelcontextprotocol/clientCapabilities") or self.declared

    @property
    def params(self) -> dict[str, Any]:
        return self.message.get("params") or {}

    @property
    def token(self) -> Any:
        return (self.params.get("_meta") or {}).get("progressToken")


class Script:
    def __init__(self, tools: list[Tool], behaviour: Behaviour) -> None:
        self.tools = list(tools)
        self.behaviour = behaviour
        self.executions: Counter[str] = Counter()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.cancelled: list[Any] = []
        self.changed: list[Callable[[dict[str, Any]], None]] = []

    @property
    def capabilities(self) -> dict[str, Any]:
        caps: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}}
        if self.behaviour.resources:
            caps["resources"] = {"subscribe": True, "listChanged": True}
        if self.behaviour.prompts:
            caps["prompts"] = {"listChanged": True}
        return caps

    async def answer(self, call: Call) -> dict[str, Any]:
        """The JSON-RPC response to one request; `Fault` when there is to be none."""
        method = call.message["method"]
        self.requests.append((method, call.headers))
        try:
            result = await self._result(method, call)
        except LookupError as error:
            code = -32602 if method == "tools/call" else -32601
            return {"jsonrpc": "2.0", "id": call.message["id"], "error": {"code": code, "message": str(error)}}
        if call.era == "modern":
            meta = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "twin", "version": "1"}}}
            result = {"resultType": "complete", **result, **meta}
        return {"jsonrpc": "2.0", "id": call.message["id"], "result": result}

    async def _result(self, method: str, call: Call) -> dict[str, Any]:
        match method:
            case "initialize":
                version = call.params.get("protocolVersion")
                agreed = version if version in LEGACY else LEGACY[0]
                return {"protocolVersion": agreed, "serverInfo": {"name": "twin", "version": "1"}, **self._about()}
            case "server/discover" if call.era == "modern":
                return {"supportedVersions": [MODERN], "ttlMs": 5000, "cacheScope": "private", **self._about()}
            case "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe":
                return {}
            case "tools/list":
                shown = [tool.wire() for tool in self.tools if not tool.needs or tool.needs in call.capabilities]
                return await self._list(call, "tools", shown)
            case "resources/list":
                found = [{"uri": uri, "name": uri.rsplit("/", 1)[-1]} for uri in self.behaviour.resources]
                return await self._list(call, "resources", found)
            case "resources/templates/list":
                return await self._list(call, "resourceTemplates", [{"uriTemplate": "twin://{x}", "name": "x"}])
            case "resources/read":
                return {"contents": [{"uri": call.params["uri"], "text": "contents"}], **self._ttl(call)}
            case "prompts/list":
                return await self._list(call, "prompts", [{"name": name} for name in self.behaviour.prompts])
            case "prompts/get":
                return {"messages": [{"role": "user", "content": {"type": "text", "text": call.params["name"]}}]}
            case "completion/complete":
                return {"completion": {"values": ["one", "two"]}}
            case "tools/call":
                return await self._call(call)
            case _:
                raise LookupError(f"no such method: {method}")

    def _about(self) -> dict[str, Any]:
        told = {"instructions": self.behaviour.instructions} if self.behaviour.instructions else {}
        return {"capabilities": self.capabilities, **told}

    def _ttl(self, call: Call) -> dict[str, Any]:
        return {"ttlMs": 5000, "cacheScope": "private"} if call.era == "modern" else {}

    async def _list(self, call: Call, key: str, items: list[dict[str, Any]]) -> dict[str, Any]:
        if self.behaviour.lists == "hang":
            await asyncio.Event().wait()
        if self.behaviour.lists == "garbage":
            raise Fault("garbage")
        at = int(call.params.get("cursor") or 0)
        size = self.behaviour.page_size or len(items) or 1
        page: dict[str, Any] = {key: items[at : at + size], **self._ttl(call)}
        if self.behaviour.lists == "cursor_loop":
            return {**page, key: items, "nextCursor": str(1 - at)}
        if self.behaviour.lists == "endless":
            fresh = [{**item, "name": f"{item['name']}-{at}"} for item in items]
            return {**page, key: fresh, "nextCursor": str(at + 1)}
        return {**page, "nextCursor": str(at + size)} if at + size < len(items) else page

    async def _call(self, call: Call) -> dict[str, Any]:
        name = call.params.get("name")
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            raise LookupError(f"no such tool: {name}")
        self._count(tool.name)
        return await self._do(tool, call, call.params.get("arguments") or {})

    def _count(self, name: str) -> None:
        self.executions[name] += 1
        if self.behaviour.count_file:
            with open(self.behaviour.count_file, "a") as file:
                file.write(name + "\n")
                os.fsync(file.fileno())

    async def _do(self, tool: Tool, call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
        match tool.does:
            case "echo":
                return _text(str(arguments.get("text", "")))
            case "whoami":
                return _text(call.headers.get("authorization", ""))
            case "headers":
                return _text(json.dumps(call.headers))
            case "error":
                return {**_text("it did not work"), "isError": True}
            case "refuse":
                raise LookupError("refused on principle")
            case "delay":
                await asyncio.sleep(tool.amount)
                return _text(str(arguments.get("text", "")))
            case "hang":
                await asyncio.Event().wait()
            case "cut" | "die" | "wrong_id" | "garbage" | "resume":
                raise Fault(tool.does, tool.amount)
            case "oversize":
                return _text("x" * int(tool.amount))
            case "progress":
                for step in range(int(tool.amount)):
                    told = {"progressToken": call.token, "progress": step + 1, "total": tool.amount}
                    if call.token is not None:
                        await call.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
            case "log":
                line = {"level": "info", "logger": "twin", "data": "a line"}
                await call.say({"jsonrpc": "2.0", "method": "notifications/message", "params": line})
            case "reveal":
                self.set_tools([*self.tools, Tool("revealed")])
            case "elicit" | "sample" | "roots":
                return await self._ask(tool.does, call)
        return _text("done")

    async def _ask(self, what: str, call: Call) -> dict[str, Any]:
        method, params = {
            "elicit": (
                "elicitation/create",
                {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
            ),
            "sample": ("sampling/createMessage", {"messages": [], "maxTokens": 5}),
            "roots": ("roots/list", {}),
        }[what]
        if call.era == "modern":
            said = (call.params.get("inputResponses") or {}).get("q")
            if said is None:
                asked = {"q": {"method": method, "params": params}}
                return {"resultType": "input_required", "inputRequests": asked, "requestState": "state-1"}
            return _text(json.dumps(said, sort_keys=True))
        if call.ask is None:
            return {**_text("cannot ask"), "isError": True}
        return _text(json.dumps(await call.ask(method, params), sort_keys=True))

    def set_tools(self, tools: list[Tool]) -> None:
        """Another list from now on, and everyone who listens is told."""
        self.tools = list(tools)
        self.tell({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def touch(self, uri: str) -> None:
        self.tell({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})

    def tell(self, notification: dict[str, Any]) -> None:
        for listener in list(self.changed):
            listener(notification)


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}
