"""The upstream that the official conformance suite's scenarios expect, on the official SDK's server, in both eras.

    python tests/conformance/fixture.py [--port 0] [--legacy-only]

prints one line, `fixture listens on URL`, and serves until it is terminated. Written from the suite's scenario
descriptions; it knows nothing of toolcrib. Its tools are in fixture_tools.py.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import socket
import warnings
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import uvicorn
from fixture_tools import PIXEL_PNG, TOOLS, WATCHED, Call, embedded, form, push
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.subscriptions import event_to_notification
from starlette.types import ASGIApp, Receive, Scope, Send

Context = ServerRequestContext[Any, Any]
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LISTS_STAY_FRESH = CacheHint(ttl_ms=60_000, scope="public")
CACHED = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
TEMPLATE = "test://template/{id}/data"


@dataclass
class Stage:
    """What calls share: how often each list changed, who listens, and what each session wants logged."""

    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    changes: dict[type[Any], int] = field(default_factory=dict)
    sessions: list[ServerSession] = field(default_factory=list)
    watchers: dict[str, ServerSession] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)

    async def change(self, event: ServerEvent) -> None:
        """Stateless clients hear of it on their listen streams, sessions on their own."""
        self.changes[type(event)] = self.changes.get(type(event), 0) + 1
        await self.bus.publish(event)
        hearers = list(self.watchers.values()) if isinstance(event, ResourceUpdated) else self.sessions
        for session in hearers:
            await session.send_notification(event_to_notification(event, None))

    def revision(self, of: type[Any]) -> str:
        return f" (changed {self.changes.get(of, 0)} times)"

    async def log(self, context: Context, level: Any, data: str) -> None:
        if LEVELS.index(level) >= self.levels.get(session_id(context), 0):
            await context.session.send_log_message(level, data, "fixture", related_request_id=context.request_id)


def session_id(context: Context) -> str:
    return context.request.headers.get("mcp-session-id", "") if context.request is not None else ""


class FixtureServer(Server[Any]):
    """The SDK's server, declaring that all its lists change."""

    def create_initialization_options(self, *_: Any, **__: Any) -> InitializationOptions:
        changed = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(changed)


def fixture_server() -> FixtureServer:
    stage = Stage()
    server = FixtureServer(
        "conformance-fixture",
        version="1.0.0",
        instructions="Every tool here exists for one scenario of the conformance suite.",
        cache_hints=dict.fromkeys(CACHED, LISTS_STAY_FRESH),
        get_tool_input_schema=lambda name: TOOLS[name].tool.input_schema if name in TOOLS else None,
        on_subscriptions_listen=ListenHandler(stage.bus),
        **_tools(stage),
        **_prompts(stage),
        **_resources(stage),
    )
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))

    async def set_level(context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        stage.levels[session_id(context)] = LEVELS.index(params.level)
        return types.EmptyResult()

    async def initialized(context: Context, _: types.NotificationParams) -> None:
        stage.sessions.append(context.session)

    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    server.add_notification_handler("notifications/initialized", types.NotificationParams, initialized)
    return server


def _tools(stage: Stage) -> dict[str, Any]:
    async def listed(_: Context, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_as_it_reads_now(each.tool) for each in TOOLS.values()])

    def _as_it_reads_now(tool: types.Tool) -> types.Tool:
        if tool.name != "test_trigger_tool_change":
            return tool
        return tool.model_copy(update={"description": f"{tool.description}{stage.revision(ToolsListChanged)}"})

    async def call(context: Context, params: types.CallToolRequestParams) -> Any:
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await TOOLS[params.name].run(Call(context, params, stage))

    return {"on_list_tools": listed, "on_call_tool": call}


def _said(content: types.ContentBlock) -> types.PromptMessage:
    return types.PromptMessage(role="user", content=content)


def _text(line: str) -> types.PromptMessage:
    return _said(types.TextContent(type="text", text=line))


def _prompts(stage: Stage) -> dict[str, Any]:
    def argument(name: str, description: str) -> types.PromptArgument:
        return types.PromptArgument(name=name, description=description, required=True)

    async def listed(_: Context, __: Any) -> types.ListPromptsResult:
        two = [argument("arg1", "First test argument"), argument("arg2", "Second test argument")]
        uri = [argument("resourceUri", "URI of the resource to embed")]
        prompts = [
            types.Prompt(name="test_simple_prompt", description="A line" + stage.revision(PromptsListChanged)),
            types.Prompt(name="test_prompt_with_arguments", description="A line with two gaps", arguments=two),
            types.Prompt(name="test_prompt_with_embedded_resource", description="A resource and a line", arguments=uri),
            types.Prompt(name="test_prompt_with_image", description="An image and a line"),
            types.Prompt(name="test_input_required_result_prompt", description="A line about what the user says"),
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def get(
        context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        given = params.arguments or {}
        match params.name:
            case "test_simple_prompt":
                messages = [_text("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                messages = [_text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")]
            case "test_prompt_with_embedded_resource":
                held = embedded(given.get("resourceUri", ""), "text/plain", "Embedded resource content for testing.")
                messages = [_said(held), _text("Please process the embedded resource above.")]
            case "test_prompt_with_image":
                image = types.ImageContent(type="image", data=PIXEL_PNG, mime_type="image/png")
                messages = [_said(image), _text("Please analyze the image above.")]
            case "test_input_required_result_prompt":
                asked = form("What context should the prompt use?", context={"type": "string"})
                if context.session.can_send_request:
                    answer = await push(context, asked)
                else:
                    answer = (params.input_responses or {}).get("user_context")
                if not isinstance(answer, types.ElicitResult):
                    return types.InputRequiredResult(input_requests={"user_context": asked})
                messages = [_text(f"Context: {(answer.content or {}).get('context')}")]
            case unknown:
                raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {unknown}")
        return types.GetPromptResult(messages=messages)

    async def complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        values = [word for word in ("paris", "park", "party", "test") if word.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))

    return {"on_list_prompts": listed, "on_get_prompt": get, "on_completion": complete}


def _resources(stage: Stage) -> dict[str, Any]:
    async def listed(_: Context, __: Any) -> types.ListResourcesResult:
        resources = [
            types.Resource(uri="test://static-text", name="Static text", mime_type="text/plain"),
            types.Resource(uri="test://static-binary", name="Static image", mime_type="image/png"),
            types.Resource(uri=WATCHED, name="A resource that changes", mime_type="text/plain"),
        ]
        return types.ListResourcesResult(resources=resources)

    async def templates(_: Context, __: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(uri_template=TEMPLATE, name="Data by id", mime_type="application/json")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[_contents(params.uri)])

    def _contents(uri: str) -> types.TextResourceContents | types.BlobResourceContents:
        if uri == "test://static-binary":
            return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL_PNG)
        if uri == "test://static-text":
            line = "This is the content of the static text resource."
            return types.TextResourceContents(uri=uri, mime_type="text/plain", text=line)
        if uri == WATCHED:
            line = "The watched resource" + stage.revision(ResourceUpdated)
            return types.TextResourceContents(uri=uri, mime_type="text/plain", text=line)
        if found := re.fullmatch(r"test://template/([^/]+)/data", uri):
            line = json.dumps({"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"})
            return types.TextResourceContents(uri=uri, mime_type="application/json", text=line)
        raise MCPError(types.INVALID_PARAMS, "Resource not found", data={"uri": uri})

    async def subscribe(context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        stage.watchers[f"{session_id(context)} {params.uri}"] = context.session
        return types.EmptyResult()

    async def unsubscribe(context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        stage.watchers.pop(f"{session_id(context)} {params.uri}", None)
        return types.EmptyResult()

    return {
        "on_list_resources": listed,
        "on_list_resource_templates": templates,
        "on_read_resource": read,
        "on_subscribe_resource": subscribe,
        "on_unsubscribe_resource": unsubscribe,
    }


class EventsInMemory(EventStore):
    """Every event since the start, so that a session may come back for what it missed."""

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if not last_event_id.isdecimal() or not 0 < int(last_event_id) <= len(self._events):
            return None
        stream, _ = self._events[int(last_event_id) - 1]
        for number, (of, message) in enumerate(self._events[int(last_event_id) :], int(last_event_id) + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def legacy_only(app: ASGIApp) -> ASGIApp:
    """Answer a stateless request as servers written before 2026-07-28 do: an unknown version, in plain words."""
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Bad Request: Unsupported version"}}

    async def older(scope: Scope, receive: Receive, send: Send) -> None:
        if dict(scope.get("headers", ())).get(b"mcp-protocol-version", b"") < b"2026":
            await app(scope, receive, send)
            return
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 400, "headers": head})
        await send({"type": "http.response.body", "body": json.dumps(refusal).encode()})

    return older


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the fixture upstream on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--legacy-only", action="store_true", help="know nothing of 2026-07-28")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    warnings.simplefilter("ignore", MCPDeprecationWarning)  # the suite still asks for logging and sampling
    app: ASGIApp = fixture_server().streamable_http_app(event_store=EventsInMemory(), retry_interval=500)
    listener = socket.create_server(("127.0.0.1", options.port))
    print(f"fixture listens on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    server = uvicorn.Server(
        uvicorn.Config(
            legacy_only(app) if options.legacy_only else app, log_level="warning", timeout_graceful_shutdown=1
        )
    )
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
