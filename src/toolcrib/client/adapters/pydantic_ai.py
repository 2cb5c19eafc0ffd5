"""Deferred tools for Pydantic AI: a toolset around yours, for any model it supports.

`Agent(model, toolsets=[defer(tools)])`. Sessions are Pydantic AI's conversations. Your tools keep their validators and
their execution; only how their schemas reach the model changes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from pydantic import ValidationError
from pydantic_ai import FunctionToolset, ModelRetry, RunContext, ToolDefinition
from pydantic_ai import Tool as AgentTool
from pydantic_ai.capabilities import ToolSearchFunc
from pydantic_ai.messages import InstructionPart
from pydantic_ai.tools import AgentDepsT, ToolFuncEither
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import SchemaValidator, core_schema

from toolcrib.client.adapters.options import DeferralOptions, LiveTools
from toolcrib.client.adapters.toolboxes import open_toolbox
from toolcrib.client.deferral import Turn
from toolcrib.client.finder import Found
from toolcrib.client.tool import Tool
from toolcrib.client.toolbox import Expose
from toolcrib.errors import NotFound

if TYPE_CHECKING:
    from toolcrib.client.adapters.mcp_session import Toolbox

_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))


@dataclass(kw_only=True)
class _OurTool(ToolsetTool[AgentDepsT]):
    """`tool_search` or `call_tool`, with the turn it was listed in and the tools that turn could reach."""

    turn: Turn
    own: dict[str, ToolsetTool[AgentDepsT]]


@dataclass
class DeferredToolset(WrapperToolset[AgentDepsT]):
    """Holds back the schemas of the wrapped toolset's tools; everything else passes."""

    live: LiveTools

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        own = await super().get_tools(ctx)
        turn = self._turn(own, ctx)
        return {tool.name: self._render(tool, own, turn) for tool in turn.listed()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        if not isinstance(tool, _OurTool):
            return await super().call_tool(name, tool_args, ctx, tool)
        try:
            routed = tool.turn.route(name, tool_args)
        except NotFound as error:
            raise ModelRetry(f"{error.message}. {error.hint}") from error
        if isinstance(routed, Found):
            return routed.as_json()
        inner = tool.own[routed.name]
        return await super().call_tool(routed.name, _validated(inner, routed.arguments, ctx), ctx, inner)

    async def get_instructions(
        self, ctx: RunContext[AgentDepsT]
    ) -> str | InstructionPart | Sequence[str | InstructionPart] | None:
        given = await super().get_instructions(ctx) or ()
        note = self._turn(await super().get_tools(ctx), ctx).deferred.note
        parts = [given] if isinstance(given, str | InstructionPart) else list(given)
        # Static text: it belongs in the cached prefix.
        return [*parts, InstructionPart(content=note, dynamic=False)] if note else parts or None

    def _turn(self, own: dict[str, ToolsetTool[AgentDepsT]], ctx: RunContext[AgentDepsT]) -> Turn:
        return self.live.turn(ctx.conversation_id or ctx.run_id, (_read(tool) for tool in own.values()))

    def _render(self, tool: Tool, own: dict[str, ToolsetTool[AgentDepsT]], turn: Turn) -> ToolsetTool[AgentDepsT]:
        given = own.get(tool.name)
        if given is None:
            definition = ToolDefinition(
                name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description
            )
            return _OurTool(
                toolset=self, tool_def=definition, max_retries=1, args_validator=_ANY_OBJECT, turn=turn, own=own
            )
        if not tool.is_stub:
            return given
        return replace(given, tool_def=replace(given.tool_def, parameters_json_schema=dict(tool.schema), strict=False))


def defer(
    tools: AbstractToolset[AgentDepsT] | Sequence[AgentTool[AgentDepsT] | ToolFuncEither[AgentDepsT, ...]],
    **options: Unpack[DeferralOptions],
) -> DeferredToolset[AgentDepsT]:
    """Wrap a toolset, or a list of tools and functions."""
    toolset = tools if isinstance(tools, AbstractToolset) else FunctionToolset(list(tools))
    return DeferredToolset(toolset, LiveTools(options))


def search_function(**options: Unpack[DeferralOptions]) -> ToolSearchFunc[Any]:
    """Our ranking for Pydantic AI's own search: `capabilities=[ToolSearch(strategy=search_function())]`.

    Then the framework decides per model whether the provider loads what we found (tool references, client-executed
    search) or it does itself. Mark the tools with its `defer_loading`.
    """
    live = LiveTools(options)

    def search(ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]) -> list[str]:
        read = (Tool(tool.name, tool.description or "", tool.parameters_json_schema) for tool in tools)
        turn = live.turn(ctx.conversation_id, read)
        return [tool.name for tool in turn.deferred.rank(" ".join(queries), turn.visible)]

    return search


@asynccontextmanager
async def toolbox(
    endpoint: str | None = None, *, expose: Expose | None = None, **options: Unpack[DeferralOptions]
) -> AsyncGenerator[DeferredToolset[object]]:
    """The same over a toolcrib toolbox, by default the one in `TOOLBOX_ENDPOINT`."""
    async with open_toolbox(endpoint, expose=expose) as box:
        tools = [
            AgentTool[object].from_schema(_calling(box, tool.name), tool.name, tool.description, dict(tool.schema))
            for tool in box.tools
        ]
        yield defer(tools, **options)


def _read(tool: ToolsetTool[Any]) -> Tool:
    given = tool.tool_def
    is_watched = given.kind != "function" or tool.args_validator_func is not None
    return Tool(given.name, given.description or "", given.parameters_json_schema, is_watched=is_watched)


def _validated(tool: ToolsetTool[AgentDepsT], arguments: dict[str, object], ctx: RunContext[AgentDepsT]) -> Any:
    try:
        return tool.args_validator.validate_python(arguments, context=ctx.validation_context)
    except ValidationError as error:
        problems = error.json(include_url=False, include_context=False)
        raise ModelRetry(f"{tool.tool_def.name} refused its arguments: {problems}") from error


def _calling(box: Toolbox, name: str) -> Callable[..., Awaitable[str]]:
    async def call(**arguments: object) -> str:
        outcome = await box.run(name, arguments)
        if outcome.is_error:
            raise ModelRetry(outcome.text)
        return outcome.text

    return call
