"""Deferred tools for the OpenAI Agents SDK: a clone of your agent that holds schemas back.

`agent = defer(Agent(name=..., tools=tools))`. Each deferred tool is there twice, as a stub and whole, and the SDK's own
`is_enabled` shows one of them, so the agent's tool list itself never changes. It does not run the agent.
"""

from __future__ import annotations

import copy
import inspect
import json
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Unpack, cast
from uuid import uuid4

from agents import Agent, FunctionTool, RunContextWrapper
from agents import Tool as AgentTool
from agents.agent import AgentBase
from agents.tool_context import ToolContext

from toolcrib.client.adapters.options import DeferralOptions, deferred_tools
from toolcrib.client.adapters.toolboxes import open_toolbox
from toolcrib.client.deferral import DeferredTools, Turn
from toolcrib.client.finder import Found, call_tool, search_tool
from toolcrib.client.tool import Tool, stub_schema
from toolcrib.client.toolbox import Expose
from toolcrib.errors import NotFound

if TYPE_CHECKING:
    from toolcrib.client.adapters.mcp_session import Toolbox

SessionOf = Callable[[RunContextWrapper[Any]], Hashable]
IsEnabled = Callable[[RunContextWrapper[Any], AgentBase[Any]], Awaitable[bool]]


class _RunKeys:
    """A session per run, for agents that name none. Ids are reused, so each key dies with the run it was made for."""

    def __init__(self) -> None:
        self._keys: dict[int, str] = {}

    def __call__(self, context: RunContextWrapper[Any]) -> str:
        run = context.usage  # one object for the whole run, shared with every tool call's context
        if id(run) not in self._keys:
            self._keys[id(run)] = uuid4().hex
            weakref.finalize(run, self._keys.pop, id(run), None)
        return self._keys[id(run)]


class _Deferral:
    """What the SDK's callbacks share: the deferred tools, the functions behind them, and whose turn it is."""

    def __init__(self, functions: Sequence[FunctionTool], session_of: SessionOf, options: DeferralOptions) -> None:
        self.functions = {function.name: function for function in functions}
        self.deferred: DeferredTools = deferred_tools([_read(function) for function in functions], options)
        self.session_of = session_of

    def tools(self) -> list[AgentTool]:
        """The functions as the SDK shall hold them; which of them a turn shows is asked of `is_enabled`."""
        if not self.deferred.is_active:
            return list(self.functions.values())
        if self.deferred.mode == "bridge":
            held = [own for name, own in self.functions.items() if self.deferred.is_deferrable(name)]
            listed = [own for own in self.functions.values() if own not in held]
            # The list is fixed for all runs, so it may only name what every run may see.
            named = [own.name for own in held if own.is_enabled is True]
            return [*listed, self._ours(search_tool(named)), self._ours(call_tool())]
        return [*(tool for name in self.functions for tool in self._both_forms(name)), self._ours(search_tool())]

    def _both_forms(self, name: str) -> list[FunctionTool]:
        whole = self.functions[name]
        if not self.deferred.is_deferrable(name):
            return [whole]
        revealed, stub = copy.copy(whole), copy.copy(whole)
        stub.params_json_schema, stub.strict_json_schema = stub_schema(), False
        revealed.is_enabled = self._when(name, is_revealed=True)
        stub.is_enabled = self._when(name, is_revealed=False)
        return [stub, revealed]

    def _when(self, name: str, *, is_revealed: bool) -> IsEnabled:
        async def is_enabled(context: RunContextWrapper[Any], agent: AgentBase[Any]) -> bool:
            revealed = self.deferred.revealed.of(self.session_of(context))
            return (name in revealed) is is_revealed and await _is_enabled(self.functions[name], context, agent)

        return is_enabled

    def _ours(self, tool: Tool) -> FunctionTool:
        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            try:
                routed = (await self._turn(context)).route(tool.name, arguments)
            except NotFound as error:
                return f"{error.message}. {error.hint}"
            if isinstance(routed, Found):
                return routed.text
            return await self.functions[routed.name].on_invoke_tool(context, json.dumps(routed.arguments))

        return FunctionTool(tool.name, tool.description, dict(tool.schema), invoke, strict_json_schema=False)

    async def _turn(self, context: ToolContext[Any]) -> Turn:
        """The turn of a tool call, scoped to the functions enabled in it."""
        agent = cast("AgentBase[Any]", context.agent)
        visible = [name for name, own in self.functions.items() if await _is_enabled(own, context, agent)]
        return self.deferred.turn(self.session_of(context), visible)


def defer(agent: Agent[Any], *, session_of: SessionOf | None = None, **options: Unpack[DeferralOptions]) -> Agent[Any]:
    """A clone of the agent with its function tools deferred and one note after its instructions.

    `session_of` names the conversation of a run, e.g. `lambda run: run.context.conversation_id`; without it reveals
    last for one run.
    """
    functions = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    deferral = _Deferral(functions, session_of or _RunKeys(), options)
    others = [tool for tool in agent.tools if not isinstance(tool, FunctionTool)]
    note = deferral.deferred.note
    instructions = _with_note(agent.instructions, note) if note else agent.instructions
    return agent.clone(tools=[*deferral.tools(), *others], instructions=instructions)


@asynccontextmanager
async def toolbox(
    agent: Agent[Any],
    endpoint: str | None = None,
    *,
    expose: Expose | None = None,
    session_of: SessionOf | None = None,
    **options: Unpack[DeferralOptions],
) -> AsyncGenerator[Agent[Any]]:
    """The agent with a toolcrib toolbox's tools beside its own, by default the one in `TOOLBOX_ENDPOINT`."""
    async with open_toolbox(endpoint, expose=expose) as box:
        tools: list[AgentTool] = [*agent.tools, *(_function(box, tool) for tool in box.tools)]
        yield defer(agent.clone(tools=tools), session_of=session_of, **options)


def _read(function: FunctionTool) -> Tool:
    """Approvals, guardrails and timeouts belong to the function's own call; a bridged call would go around them."""
    is_watched = bool(
        function.needs_approval
        or function.tool_input_guardrails
        or function.tool_output_guardrails
        or function.timeout_seconds
    )
    return Tool(function.name, function.description, function.params_json_schema, is_watched=is_watched)


async def _is_enabled(function: FunctionTool, context: RunContextWrapper[Any], agent: AgentBase[Any]) -> bool:
    if isinstance(function.is_enabled, bool):
        return function.is_enabled
    answer = function.is_enabled(context, agent)
    return await answer if inspect.isawaitable(answer) else answer


def _with_note(instructions: Any, note: str) -> Any:
    if not callable(instructions):
        return "\n\n".join(part for part in (instructions, note) if part)

    async def noted(context: RunContextWrapper[Any], agent: Agent[Any]) -> str:
        text = instructions(context, agent)
        return f"{await text if inspect.isawaitable(text) else text}\n\n{note}"

    return noted


def _function(box: Toolbox, tool: Tool) -> FunctionTool:
    async def invoke(_: ToolContext[Any], arguments: str) -> str:
        return (await box.run(tool.name, json.loads(arguments or "{}"))).text

    return FunctionTool(tool.name, tool.description, dict(tool.schema), invoke, strict_json_schema=False)
