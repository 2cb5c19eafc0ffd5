"""Deferred tools for a hand-written loop over Anthropic Messages, with its hosted search where it is declared.

`talk = defer(tools, run).session(id)`; send `talk.tools()`, append `talk.answer(block)`. Where the endpoint declares
it, tools go out with `defer_loading`, searched by the provider, or by us with `tool_reference` answers. It makes no
request itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack, cast

from anthropic.types import ToolParam, ToolResultBlockParam, ToolUnionParam, ToolUseBlock

from toolcrib.client.adapters.choice import ToolChoice, read_choice
from toolcrib.client.adapters.options import DeferralOptions, deferred_tools, sendable
from toolcrib.client.adapters.toolboxes import open_toolbox
from toolcrib.client.conversation import Conversation, Outcome, Run, Runners, noted, runner
from toolcrib.client.deferral import DeferredTools
from toolcrib.client.finder import search_tool
from toolcrib.client.hosted import Endpoint, SearchPlace, choose_place, note_for
from toolcrib.client.tool import Tool
from toolcrib.client.toolbox import Expose

_HOSTED_SEARCH: ToolUnionParam = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


@dataclass(frozen=True, slots=True)
class MessagesTools:
    """An agent's tools in Messages form. `others` (the provider's own tools) pass as they are."""

    deferred: DeferredTools
    run: Run
    originals: Mapping[str, ToolParam]
    others: tuple[ToolUnionParam, ...] = ()
    endpoint: Endpoint | None = None

    def session(self, session: Hashable, visible: Collection[str] | None = None) -> MessagesConversation:
        return MessagesConversation(self.deferred.turn(session, visible), self.run, self)


@dataclass(frozen=True, slots=True)
class MessagesConversation(Conversation):
    agent: MessagesTools

    def tools(self, tool_choice: ToolChoice = None, endpoint: Endpoint | None = None) -> list[ToolUnionParam]:
        """The `tools` of the next request, for the endpoint it goes to. Pass a `tool_choice` that forces one."""
        choice = read_choice(tool_choice)
        place = choose_place(endpoint or self.agent.endpoint)
        if place is SearchPlace.LOCAL or not self.turn.deferred.is_active:
            return [*(self._render(tool) for tool in self.turn.listed(forced=choice.forced)), *self.agent.others]
        search = _HOSTED_SEARCH if place is SearchPlace.HOSTED else self._render(search_tool())
        return [*(self._loadable(tool, choice.forced) for tool in self.turn.tools()), search, *self.agent.others]

    def instructions(self, text: str = "", endpoint: Endpoint | None = None) -> str:
        """Your system prompt with the note about searching, if the endpoint the request goes to needs one."""
        return noted(text, note_for(choose_place(endpoint or self.agent.endpoint), self.turn.deferred))

    def answer(self, block: ToolUseBlock, endpoint: Endpoint | None = None) -> ToolResultBlockParam:
        """The tool result for a call the model made; pass the `endpoint` that `tools` was given, if any."""
        return self._result(block, self.perform(block.name, block.input), endpoint)

    async def answer_async(self, block: ToolUseBlock, endpoint: Endpoint | None = None) -> ToolResultBlockParam:
        return self._result(block, await self.perform_async(block.name, block.input), endpoint)

    def _result(self, block: ToolUseBlock, outcome: Outcome, endpoint: Endpoint | None) -> ToolResultBlockParam:
        place = choose_place(endpoint or self.agent.endpoint)
        if place is SearchPlace.REFERENCED and outcome.found and outcome.found.tools:
            references = [{"type": "tool_reference", "tool_name": tool.name} for tool in outcome.found.tools]
            body = {"type": "tool_result", "tool_use_id": block.id, "content": references}
            return cast("ToolResultBlockParam", body)
        result: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": block.id, "content": outcome.text}
        if outcome.is_error:
            result["is_error"] = True
        return result

    def _render(self, tool: Tool) -> ToolParam:
        original = self.agent.originals.get(tool.name)
        if original is not None and not tool.is_stub:
            return original
        return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}

    def _loadable(self, tool: Tool, forced: str | None) -> ToolParam:
        """A tool for the provider to load. It may not carry `cache_control`: it is not in the cached prefix."""
        if not self.turn.deferred.is_deferrable(tool.name) or tool.name == forced:
            return self._render(tool)
        body = {key: value for key, value in self._render(tool).items() if key != "cache_control"}
        return cast("ToolParam", {**body, "defer_loading": True})


def defer(
    tools: Iterable[ToolUnionParam],
    run: Runners,
    *,
    endpoint: Endpoint | None = None,
    **options: Unpack[DeferralOptions],
) -> MessagesTools:
    """Wrap a Messages tool list. `run` executes your tools: functions by name, or one of (name, arguments)."""
    given = list(tools)
    own = [tool for tool in given if "input_schema" in tool]
    deferred = deferred_tools([cast("Mapping[str, object]", tool) for tool in own], options)
    originals = {tool["name"]: cast("ToolParam", sendable(tool)) for tool in own}
    return MessagesTools(deferred, runner(run), originals, tuple(t for t in given if "input_schema" not in t), endpoint)


@asynccontextmanager
async def toolbox(
    endpoint: str | None = None, *, expose: Expose | None = None, **options: Unpack[DeferralOptions]
) -> AsyncGenerator[MessagesTools]:
    """The same over a toolcrib toolbox, by default the one in `TOOLBOX_ENDPOINT`. Answer with `answer_async`."""
    async with open_toolbox(endpoint, expose=expose) as box:
        yield MessagesTools(deferred_tools(box.tools, options), box.run, {})
