"""One source behind newline-delimited JSON-RPC: MCP of both eras, on standard library and msgspec only.

A request whose `_meta` names a protocol version is of the stateless era (2026-07-28); any other belongs to the session
era. Calls are answered in order, so there is nothing to cancel. Small on purpose: a child must be up in a blink.
"""

import logging
from typing import Any, BinaryIO, cast

import msgspec

from toolcrib.demo.source import Json, Refused, Source

MODERN = "2026-07-28"
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26")
PAGE_SIZE = 50
TTL_MS = 3_600_000

_META = "io.modelcontextprotocol/"
_PARSE, _INVALID, _NO_METHOD, _BAD_PARAMS, _BAD_VERSION = -32700, -32600, -32601, -32602, -32022


class Message(msgspec.Struct):
    """What arrives: a request, or a notification where there is no id."""

    method: str = ""
    id: str | int | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] = {}


class Fault(Exception):
    """A JSON-RPC error to answer with."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message, **({"data": data} if data else {})}


class Conversation:
    """Answers one client about one source."""

    def __init__(self, source: Source, page_size: int = PAGE_SIZE) -> None:
        self.source = source
        self.page_size = page_size
        self._decoder = msgspec.json.Decoder(Message | list[Message])

    def answer(self, line: bytes) -> bytes | None:
        """The answer to one line, or None where none is due (session-era clients may send several in an array)."""
        try:
            arrived = self._decoder.decode(line)
        except msgspec.ValidationError as error:
            return msgspec.json.encode(_reply(None, error={"code": _INVALID, "message": f"Invalid request: {error}"}))
        except msgspec.DecodeError as error:
            return msgspec.json.encode(_reply(None, error={"code": _PARSE, "message": f"Parse error: {error}"}))
        if isinstance(arrived, Message):
            reply = self._reply(arrived)
            return None if reply is None else msgspec.json.encode(reply)
        replies = [reply for message in arrived if (reply := self._reply(message)) is not None]
        return msgspec.json.encode(replies) if replies else None

    def _reply(self, message: Message) -> Json | None:
        if message.id is msgspec.UNSET:
            return None
        try:
            version = _object(message.params, "_meta").get(f"{_META}protocolVersion")
            result = self._legacy(message) if version is None else self._modern(message, version)
            return _reply(message.id, result=result)
        except Fault as fault:
            return _reply(message.id, error=fault.error)

    def _legacy(self, message: Message) -> Json:
        match message.method:
            case "initialize":
                asked = message.params.get("protocolVersion")
                return {"protocolVersion": asked if asked in HANDSHAKE else HANDSHAKE[0], **self._introduction()}
            case "ping":
                return {}
            case "tools/list":
                return self._list(message.params)
            case "tools/call":
                return self._call(message.params)
            case _:
                raise Fault(_NO_METHOD, f"Method not found: {message.method}")

    def _modern(self, message: Message, version: object) -> Json:
        if version != MODERN:
            raise Fault(_BAD_VERSION, "Unsupported protocol version", {"supported": [MODERN], "requested": version})
        if not isinstance(_object(message.params, "_meta").get(f"{_META}clientCapabilities"), dict):
            raise Fault(_BAD_PARAMS, f"_meta must carry {_META}clientCapabilities")
        cached: Json = {"ttlMs": TTL_MS, "cacheScope": "public"}
        match message.method:
            case "server/discover":
                introduction = self._introduction()
                del introduction["serverInfo"]
                result: Json = {"supportedVersions": [MODERN], **introduction, **cached}
            case "tools/list":
                result = {**self._list(message.params), **cached}
            case "tools/call":
                result = self._call(message.params)
            case _:
                raise Fault(_NO_METHOD, f"Method not found: {message.method}")
        return {**result, "resultType": "complete", "_meta": {f"{_META}serverInfo": self._identity()}}

    def _introduction(self) -> Json:
        return {"capabilities": {"tools": {}}, "serverInfo": self._identity(), "instructions": self.source.about}

    def _identity(self) -> Json:
        return {"name": f"demo-{self.source.label}", "version": "1.0.0"}

    def _list(self, params: Json) -> Json:
        cursor = params.get("cursor") or "0"
        tools = [tool.definition for tool in self.source.tools.values()]
        if not (isinstance(cursor, str) and cursor.isdecimal() and int(cursor) < len(tools)):
            raise Fault(_BAD_PARAMS, f"Unknown cursor {cursor!r}; start again without one")
        start, end = int(cursor), int(cursor) + self.page_size
        return {"tools": tools[start:end], **({"nextCursor": str(end)} if end < len(tools) else {})}

    def _call(self, params: Json) -> Json:
        name, arguments = params.get("name"), _object(params, "arguments")
        if not isinstance(name, str) or name not in self.source.tools:
            raise Fault(_BAD_PARAMS, f"Unknown tool: {name}")
        try:
            return _content(self.source.tools[name].call(arguments))
        except Refused as refused:
            return {"content": [{"type": "text", "text": str(refused)}], "isError": True}
        except Exception:
            logging.getLogger(__name__).exception("tool %s failed", name)
            return {"content": [{"type": "text", "text": f"{name} failed; see the log."}], "isError": True}


def serve(source: Source, reader: BinaryIO, writer: BinaryIO, page_size: int = PAGE_SIZE) -> None:
    """Answers until the reader ends."""
    conversation = Conversation(source, page_size)
    for line in reader:
        if line.strip() and (answer := conversation.answer(line)) is not None:
            writer.write(answer + b"\n")
            writer.flush()


def _reply(id: str | int | None, **outcome: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, **outcome}


def _object(params: Json, key: str) -> Json:
    value = params.get(key)
    if value is not None and not isinstance(value, dict):
        raise Fault(_BAD_PARAMS, f"{key} must be an object")
    return cast(Json, value or {})


def _content(value: object) -> Json:
    """A text as it is; anything else as JSON text and as structured content, an object as the session era wants it."""
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": value}], "isError": False}
    plain = cast(object, msgspec.to_builtins(value))
    text = msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()
    structured: object = cast(Json, plain) if isinstance(plain, dict) else {"result": plain}
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False}
