"""Deferred tools for Microsoft Agent Framework: one context provider beside your tools.

`Agent(client, tools=tools, context_providers=[defer()])`. The session is the framework's own. Schemas are held back in
front of each model call; the framework's function loop keeps your real tools and runs them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Unpack

from agent_framework import (
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ContextProvider,
    FunctionInvocationContext,
    FunctionTool,
    SessionContext,
    SupportsAgentRun,
)

from toolcrib.client.adapters.options import DeferralOptions, LiveTools
from toolcrib.client.adapters.toolboxes import open_toolbox
from toolcrib.client.deferral import Turn
from toolcrib.client.finder import SEARCH, Found, call_tool, search_tool
from toolcrib.client.tool import Tool
from toolcrib.client.toolbox import Expose
from toolcrib.errors import NotFound

if TYPE_CHECKING:
    from toolcrib.client.adapters.mcp_session import Toolbox


class DeferredToolsProvider(ContextProvider):
    """Adds `tool_search` and `call_tool` to a run, and the middleware that decides what the model sees."""

    def __init__(self, options: DeferralOptions, tools: Sequence[FunctionTool] = ()) -> None:
        super().__init__("toolcrib")
        self._tools = tools
        self._live = LiveTools(options)

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        run = _Run(self._live, session.session_id)
        # A toolbox with its own search brings tools of the same names, and they are the ones to call.
        brought = {tool.name for tool in self._tools}
        ours = [tool for name, tool in run.ours.items() if name not in brought]
        context.extend_tools(self.source_id, [*self._tools, *ours])
        context.extend_middleware(self.source_id, run)


class _Run(ChatMiddleware):
    """One run of one session. It stands at every model call, so a reveal shows at the next one."""

    def __init__(self, live: LiveTools, session: str) -> None:
        self._live = live
        self._session = session
        self.ours = {tool.name: self._function(tool) for tool in (search_tool(), call_tool())}

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        options = dict(context.options or {})
        given: list[Any] = list(options.get("tools") or ())
        own = self._own(given)
        turn = self._turn(own)
        functions = self.ours | own
        others = [tool for tool in given if not isinstance(tool, FunctionTool)]
        options["tools"] = [*(_render(tool, functions[tool.name]) for tool in turn.listed()), *others]
        if turn.deferred.note:
            options["instructions"] = "\n\n".join(filter(None, (options.get("instructions"), turn.deferred.note)))
        context.options = options
        await call_next()

    def _function(self, tool: Tool) -> FunctionTool:
        async def answer(ctx: FunctionInvocationContext, **arguments: Any) -> Any:
            own = self._own(ctx.tools or ())
            try:
                routed = self._turn(own).route(tool.name, arguments)
            except NotFound as error:
                return f"{error.message}. {error.hint}"
            if isinstance(routed, Found):
                return routed.text
            return await own[routed.name].invoke(context=_inner(ctx, own[routed.name], routed.arguments))

        return FunctionTool(name=tool.name, description=tool.description, func=answer, input_model=tool.schema)

    def _own(self, tools: Iterable[Any]) -> dict[str, FunctionTool]:
        ours = self.ours.values()
        return {tool.name: tool for tool in tools if isinstance(tool, FunctionTool) and tool not in ours}

    def _turn(self, own: Mapping[str, FunctionTool]) -> Turn:
        return self._live.turn(self._session, (_read(tool) for tool in own.values()))


def defer(**options: Unpack[DeferralOptions]) -> DeferredToolsProvider:
    """The context provider that defers the tools of the agent it is given to."""
    return DeferredToolsProvider(options)


@asynccontextmanager
async def toolbox(
    endpoint: str | None = None, *, expose: Expose | None = None, **options: Unpack[DeferralOptions]
) -> AsyncGenerator[DeferredToolsProvider]:
    """The same, bringing a toolcrib toolbox's tools along; by default the one in `TOOLBOX_ENDPOINT`."""
    async with open_toolbox(endpoint, expose=expose) as box:
        yield DeferredToolsProvider(options, [_remote(box, tool) for tool in box.tools])


def _read(tool: FunctionTool) -> Tool:
    is_watched = tool.approval_mode == "always_require" or tool.max_invocations is not None
    return Tool(tool.name, tool.description, tool.parameters(), is_watched=is_watched)


def _render(tool: Tool, whole: FunctionTool) -> FunctionTool:
    """The function as the model shall see it. A copy only declares; calls find the real one in the function loop."""
    if not tool.is_stub and (tool.name != SEARCH or tool.description == whole.description):
        return whole
    return FunctionTool(name=tool.name, description=tool.description, input_model=tool.schema)


def _inner(outer: FunctionInvocationContext, tool: FunctionTool, arguments: dict[str, object]) -> Any:
    """The context of the bridged call: the same session, keyword arguments and tools, but the tool's own name."""
    return FunctionInvocationContext(
        tool, arguments, session=outer.session, kwargs=outer.kwargs, metadata=outer.metadata, tools=outer.tools
    )


def _remote(box: Toolbox, tool: Tool) -> FunctionTool:
    async def call(**arguments: Any) -> str:
        return (await box.run(tool.name, arguments)).text

    return FunctionTool(name=tool.name, description=tool.description, func=call, input_model=tool.schema)
