"""A model provider on loopback: three APIs, one script, every request body held against the provider package's types.

It plays the model, so it is also the judge: a script may only call a tool whose schema it was shown. It knows nothing
of toolcrib.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, get_type_hints

import anthropic.types as anthropic_types
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types import chat as chat_types
from openai.types import responses as responses_types
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from pydantic import TypeAdapter


@dataclass(frozen=True)
class Ask:
    """The model calls a tool."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Search:
    """The model searches in the provider's own form; `hosted` says that the provider executes it too."""

    query: str
    hosted: bool = False
    then: Ask | None = None


@dataclass(frozen=True)
class Say:
    text: str


Move = Ask | Search | Say


@dataclass
class Seen:
    """One request, in no API's form: the tools listed, the system prompt and what came back from tools so far."""

    api: str
    body: dict[str, Any]
    system: str
    tools: dict[str, dict[str, Any]]
    results: list[str]
    loaded: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def schema(self, name: str) -> dict[str, Any]:
        return self.tools[name]["schema"]

    def parameters(self, name: str) -> set[str]:
        return set(self.schema(name).get("properties") or {})

    @property
    def wire_tools(self) -> str:
        return json.dumps(self.body.get("tools"))


Script = Callable[[Seen], Move]


class FakeProvider:
    """Serves `script` at `/v1`. Whatever the script or the types object to is kept in `failures`."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.failures: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = provider.answer(self.path.partition("?")[0], body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_port}"
        self.base_url = f"{self.root}/v1"

    def __enter__(self) -> FakeProvider:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        if error is None:
            assert not self.failures, self.failures

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        try:
            read, write = _APIS[path]
            seen = read(body)
            self.seen.append(seen)
            move = self.script(seen)
            if isinstance(move, Ask):
                _check_revealed(move, seen)
            return 200, write(move, seen)
        except Exception as error:  # noqa: BLE001  the judge's verdict must reach the test, whatever it is
            self.failures.append(f"{path}: {type(error).__name__}: {error}")
            return 400, {"error": {"message": str(error), "type": "invalid_request_error"}}


def _check_revealed(ask: Ask, seen: Seen) -> None:
    if ask.name == "call_tool":
        shown = {tool["name"] for result in seen.results for tool in _tools_in(result)}
        assert ask.arguments["name"] in shown, f"{ask.arguments['name']} was called before its schema was shown"
        return
    assert ask.name in seen.tools, f"{ask.name} was called and is not listed"
    is_shown = seen.parameters(ask.name) and not seen.tools[ask.name].get("defer_loading")
    assert is_shown or ask.name in seen.loaded, f"{ask.name} was called before its schema was shown"


def _tools_in(result: str) -> list[dict[str, Any]]:
    try:
        return json.loads(result).get("tools", [])
    except (ValueError, AttributeError):
        return []


# --- the provider packages' types -------------------------------------------------------------------------------


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _valid(kind: Any, value: Any) -> None:
    _exhaust(_adapter(kind).validate_python(value))


def _exhaust(value: Any) -> None:
    """Iterables in these types are validated as they are read, so read them all."""
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return
    for item in value:
        _exhaust(item)


def _known_keys(kind: type, value: dict[str, Any]) -> None:
    unknown = value.keys() - get_type_hints(kind).keys()
    assert not unknown, f"{kind.__name__} has no {sorted(unknown)}"


def _read_chat(body: dict[str, Any]) -> Seen:
    _known_keys(CompletionCreateParamsNonStreaming, body)
    _valid(CompletionCreateParamsNonStreaming, body)
    for tool in body.get("tools", []):
        _known_keys(chat_types.ChatCompletionFunctionToolParam, tool)
        _valid(chat_types.ChatCompletionFunctionToolParam, tool)
    functions = [tool["function"] for tool in body.get("tools", [])]
    messages = body["messages"]
    return Seen(
        "chat",
        body,
        "\n".join(_text(message["content"]) for message in messages if message["role"] in ("system", "developer")),
        {f["name"]: {**f, "schema": f.get("parameters", {})} for f in functions},
        [_text(message["content"]) for message in messages if message["role"] == "tool"],
    )


def _read_responses(body: dict[str, Any]) -> Seen:
    _known_keys(ResponseCreateParamsNonStreaming, body)
    _valid(ResponseCreateParamsNonStreaming, body)
    _valid(list[responses_types.ToolParam], body.get("tools", []))
    items = [item for item in body["input"] if isinstance(item, dict)] if isinstance(body["input"], list) else []
    _valid(list[ResponseInputItemParam], items)
    tools = [inner for tool in body.get("tools", []) for inner in tool.get("tools", [tool])]
    for tool in tools:
        if tool["type"] == "function":
            _known_keys(responses_types.FunctionToolParam, tool)
    loaded = [tool for item in items if item.get("type") == "tool_search_output" for tool in item["tools"]]
    return Seen(
        "responses",
        body,
        body.get("instructions") or "\n".join(_text(i["content"]) for i in items if i.get("role") == "system"),
        {tool["name"]: {**tool, "schema": tool["parameters"]} for tool in tools if tool["type"] == "function"},
        [_text(item["output"]) for item in items if item.get("type") == "function_call_output"],
        {tool["name"]: tool for tool in loaded},
    )


def _read_messages(body: dict[str, Any]) -> Seen:
    _known_keys(MessageCreateParamsNonStreaming, body)
    _valid(MessageCreateParamsNonStreaming, body)
    _valid(list[anthropic_types.ToolUnionParam], body.get("tools", []))
    _valid(list[anthropic_types.MessageParam], body["messages"])
    own = [tool for tool in body.get("tools", []) if "input_schema" in tool]
    for tool in own:
        _known_keys(anthropic_types.ToolParam, tool)
        assert not (tool.get("defer_loading") and "cache_control" in tool), "a deferred tool may not set cache_control"
    blocks = [b for message in body["messages"] if isinstance(message["content"], list) for b in message["content"]]
    results = [block for block in blocks if block["type"] == "tool_result"]
    parts = [part for result in results if isinstance(result["content"], list) for part in result["content"]]
    by_name = {tool["name"]: {**tool, "schema": tool["input_schema"]} for tool in own}
    referenced = [part["tool_name"] for part in parts if part["type"] == "tool_reference"]
    found = [b["content"]["tool_references"] for b in blocks if b["type"] == "tool_search_tool_result"]
    referenced += [reference["tool_name"] for references in found for reference in references]
    return Seen(
        "messages",
        body,
        _text(body.get("system", "")),
        by_name,
        [_text(result["content"]) for result in results],
        {name: by_name[name] for name in referenced},
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


# --- what the model answers, in each API's form -----------------------------------------------------------------


def _write_chat(move: Move, seen: Seen) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(move, Say):
        message["content"] = move.text
    else:
        assert isinstance(move, Ask)
        function = {"name": move.name, "arguments": json.dumps(move.arguments)}
        message["tool_calls"] = [{"id": f"call_{len(seen.results)}", "type": "function", "function": function}]
    reason = "stop" if isinstance(move, Say) else "tool_calls"
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 0,
        "model": "fake",
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _write_responses(move: Move, seen: Seen) -> dict[str, Any]:
    number = len(seen.results) + len(seen.loaded)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": "fake",
        "status": "completed",
        "output": _response_items(move, seen, number),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "output_tokens": 1,
            "total_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _response_items(move: Move, seen: Seen, number: int) -> list[dict[str, Any]]:
    if isinstance(move, Say):
        content = [{"type": "output_text", "text": move.text, "annotations": []}]
        return [
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}
        ]
    if isinstance(move, Ask):
        call = {"name": move.name, "arguments": json.dumps(move.arguments), "call_id": f"call_{number}"}
        return [{"type": "function_call", "id": f"fc_{number}", "status": "completed", **call}]
    search = {"type": "tool_search_call", "id": f"ts_{number}", "status": "completed", "call_id": f"call_s{number}"}
    if not move.hosted:
        return [{**search, "execution": "client", "arguments": {"query": move.query}}]
    assert move.then is not None
    assert seen.tools[move.then.name]["defer_loading"], "hosted search loads deferred tools only"
    tool = {key: value for key, value in seen.tools[move.then.name].items() if key != "schema"}
    output = {"type": "tool_search_output", "id": f"to_{number}", "status": "completed", "call_id": f"call_s{number}"}
    return [
        {**search, "execution": "server", "arguments": {"paths": [move.then.name]}},
        {**output, "execution": "server", "tools": [tool]},
        *_response_items(move.then, seen, number),
    ]


def _write_messages(move: Move, seen: Seen) -> dict[str, Any]:
    content = _message_blocks(move, seen)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": content,
        "stop_reason": "tool_use" if content[-1]["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _message_blocks(move: Move, seen: Seen) -> list[dict[str, Any]]:
    number = len(seen.results) + len(seen.loaded)
    if isinstance(move, Say):
        return [{"type": "text", "text": move.text}]
    if isinstance(move, Ask):
        return [{"type": "tool_use", "id": f"toolu_{number}", "name": move.name, "input": move.arguments}]
    assert move.hosted
    assert move.then is not None
    assert seen.tools[move.then.name]["defer_loading"], "hosted search loads deferred tools only"
    search = next(tool["name"] for tool in seen.body["tools"] if tool.get("type", "").startswith("tool_search_tool"))
    references = [{"type": "tool_reference", "tool_name": move.then.name}]
    return [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": search, "input": {"query": move.query}},
        {
            "type": "tool_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {"type": "tool_search_tool_search_result", "tool_references": references},
        },
        *_message_blocks(move.then, seen),
    ]


_APIS: dict[str, tuple[Callable[[dict[str, Any]], Seen], Callable[[Move, Seen], dict[str, Any]]]] = {
    "/v1/chat/completions": (_read_chat, _write_chat),
    "/v1/responses": (_read_responses, _write_responses),
    "/v1/messages": (_read_messages, _write_messages),
}
