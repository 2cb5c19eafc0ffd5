"""Deferred tools for LangChain and LangGraph agents: one middleware beside your tools.

`create_agent(model, tools, middleware=[defer()])`. The session is a key in the agent's own state, so reveals follow the
thread wherever a checkpointer keeps it. Tools run as they always did, by LangGraph.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Unpack, cast
from uuid import uuid4

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.messages import SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.runtime import Runtime
from langgraph.types import Command

from toolcrib.client.adapters.options import DeferralOptions, LiveTools
from toolcrib.client.adapters.toolboxes import open_toolbox
from toolcrib.client.finder import CALL, SEARCH, Found
from toolcrib.client.sessions import SessionNames
from toolcrib.client.tool import Tool, read_tool
from toolcrib.client.toolbox import Expose
from toolcrib.errors import NotFound

if TYPE_CHECKING:
    from toolcrib.client.adapters.mcp_session import Toolbox

Result = ToolMessage | Command[Any]
_KEY = "toolcrib_session"


class DeferredState(AgentState[Any]):
    toolcrib_session: NotRequired[Annotated[str, PrivateStateAttr]]


class DeferredToolsMiddleware(AgentMiddleware[DeferredState, Any, Any]):
    """Holds schemas back before each model call, and answers `tool_search` and `call_tool` before each tool call."""

    state_schema = DeferredState

    def __init__(self, options: DeferralOptions, tools: Sequence[BaseTool] = ()) -> None:
        super().__init__()
        self.tools = tools
        self._live = LiveTools(options)
        self._visible = SessionNames(self._live.max_sessions)
        self._own: dict[str, BaseTool] = {}

    def before_agent(self, state: DeferredState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return None if state.get(_KEY) else {_KEY: uuid4().hex}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(self._deferred(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        return await handler(self._deferred(request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        routed = self._routed(request)
        return routed if isinstance(routed, ToolMessage) else handler(routed)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        routed = self._routed(request)
        return routed if isinstance(routed, ToolMessage) else await handler(routed)

    def _deferred(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        own = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
        session = _session(request.state)
        turn = self._live.turn(session, (_read(tool) for tool in own.values()))
        self._own |= own
        self._visible.put(session, own)
        others = [tool for tool in request.tools if not isinstance(tool, BaseTool)]
        listed = [_render(tool, own.get(tool.name)) for tool in turn.listed()]
        noted = _with_note(request.system_message, turn.deferred.note)
        return request.override(tools=[*listed, *others], system_message=noted)

    def _routed(self, request: ToolCallRequest) -> ToolMessage | ToolCallRequest:
        """Our answer to this call, or the call of your own tool that it means."""
        call = request.tool_call
        session = _session(request.state)
        turn = self._live.turn_of(session, self._visible.of(session))
        if call["name"] not in (SEARCH, CALL) or not turn.deferred.is_active:
            return request
        try:
            routed = turn.route(call["name"], call["args"])
        except NotFound as error:
            return ToolMessage(f"{error.message}. {error.hint}", tool_call_id=call["id"], status="error")
        if isinstance(routed, Found):
            return ToolMessage(routed.text, tool_call_id=call["id"], name=SEARCH)
        meant = ToolCall(name=routed.name, args=routed.arguments, id=call["id"], type="tool_call")
        return request.override(tool_call=meant, tool=self._own[routed.name])


def defer(**options: Unpack[DeferralOptions]) -> DeferredToolsMiddleware:
    """The middleware that defers the tools of the agent it is given to.

    In bridge mode a human-in-the-loop policy sees `call_tool`; name the tools it watches in `never_defer`.
    """
    return DeferredToolsMiddleware(options)


@asynccontextmanager
async def toolbox(
    endpoint: str | None = None, *, expose: Expose | None = None, **options: Unpack[DeferralOptions]
) -> AsyncGenerator[DeferredToolsMiddleware]:
    """The same, bringing a toolcrib toolbox's tools along; by default the one in `TOOLBOX_ENDPOINT`. Use `ainvoke`."""
    async with open_toolbox(endpoint, expose=expose) as box:
        yield DeferredToolsMiddleware(options, [_structured(box, tool) for tool in box.tools])


def _session(state: object) -> str:
    """The key `before_agent` put there; the framework's types do not know it."""
    return cast("DeferredState", state).get(_KEY, "")


def _read(tool: BaseTool) -> Tool:
    return read_tool(convert_to_openai_tool(tool))


def _render(tool: Tool, own: BaseTool | None) -> BaseTool | dict[str, Any]:
    if own is None:
        function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
        return {"type": "function", "function": function}
    return own.model_copy(update={"args_schema": dict(tool.schema)}) if tool.is_stub else own


def _with_note(system: SystemMessage | None, note: str) -> SystemMessage | None:
    if not note:
        return system
    if system is None:
        return SystemMessage(note)
    if isinstance(system.content, str):
        return SystemMessage(f"{system.content}\n\n{note}")
    return SystemMessage([*system.content, {"type": "text", "text": note}])


def _structured(box: Toolbox, tool: Tool) -> StructuredTool:
    async def call(**arguments: object) -> str:
        outcome = await box.run(tool.name, arguments)
        if outcome.is_error:
            raise ToolException(outcome.text)
        return outcome.text

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=dict(tool.schema),
        coroutine=call,
        handle_tool_error=True,
    )
