"""Deferred tools for a hand-written loop over the OpenAI Responses API, with its hosted search where it is declared.

`talk = defer(tools, run).session(id)`; send `talk.tools()`, append `talk.answer(item)`. Where the endpoint declares
hosted search the tools go out with `defer_loading` instead of as stubs. It makes no request itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack, cast

from openai.types.responses import ResponseFunctionToolCall, ResponseToolSearchCall, ToolParam
from openai.types.responses.response_input_item_param import ResponseInputItemParam

from toolcrib.client.adapters.choice import ToolChoice, read_choice
from toolcrib.client.adapters.options import DeferralOptions, deferred_tools, sendable
from toolcrib.client.adapters.toolboxes import open_toolbox
from toolcrib.client.conversation import Conversation, Outcome, Run, Runners, noted, runner
from toolcrib.client.deferral import DeferredTools
from toolcrib.client.finder import SEARCH, search_tool
from toolcrib.client.hosted import Endpoint, SearchPlace, choose_place, note_for
from toolcrib.client.tool import Tool
from toolcrib.client.toolbox import Expose

ModelCall = ResponseFunctionToolCall | ResponseToolSearchCall


@dataclass(frozen=True, slots=True)
class ResponsesTools:
    """An agent's tools in Responses form. `others` (hosted tools, MCP servers) pass as they are."""

    deferred: DeferredTools
    run: Run
    originals: Mapping[str, ToolParam]
    others: tuple[ToolParam, ...] = ()
    endpoint: Endpoint | None = None

    def session(self, session: Hashable, visible: Collection[str] | None = None) -> ResponsesConversation:
        return ResponsesConversation(self.deferred.turn(session, visible), self.run, self)


@dataclass(frozen=True, slots=True)
class ResponsesConversation(Conversation):
    agent: ResponsesTools

    def tools(self, tool_choice: ToolChoice = None, endpoint: Endpoint | None = None) -> list[ToolParam]:
        """The `tools` of the next request, for the endpoint it goes to. Pass a `tool_choice` that narrows the calls."""
        choice = read_choice(tool_choice)
        place = choose_place(endpoint or self.agent.endpoint)
        if place is SearchPlace.LOCAL or not choice.can_search or not self.turn.deferred.is_active:
            listed = self.turn.listed(can_search=choice.can_search, forced=choice.forced)
            return [*(self._render(tool) for tool in listed), *self.agent.others]
        return [*self._hosted(choice.forced), _search_param(place), *self.agent.others]

    def instructions(self, text: str = "", endpoint: Endpoint | None = None) -> str:
        """Your system prompt with the note about searching, if the endpoint the request goes to needs one."""
        return noted(text, note_for(choose_place(endpoint or self.agent.endpoint), self.turn.deferred))

    def answer(self, item: ModelCall) -> ResponseInputItemParam:
        """The input item for a call the model made."""
        if isinstance(item, ResponseToolSearchCall):
            return self._loaded(item)
        return _output(item, self.perform(item.name, item.arguments))

    async def answer_async(self, item: ModelCall) -> ResponseInputItemParam:
        if isinstance(item, ResponseToolSearchCall):
            return self._loaded(item)
        return _output(item, await self.perform_async(item.name, item.arguments))

    def _hosted(self, forced: str | None) -> list[ToolParam]:
        """Deferred tools for the provider to load, those of one server under one namespace; the rest whole."""
        whole: list[ToolParam] = []
        loose: list[ToolParam] = []
        by_server: dict[str, list[ToolParam]] = {}
        for tool in self.turn.tools():
            if not self.turn.deferred.is_deferrable(tool.name) or tool.name == forced:
                whole.append(self._render(tool))
                continue
            (by_server.setdefault(tool.server, []) if tool.server else loose).append(self._render_deferred(tool))
        return [*whole, *loose, *(_namespace(server, tools) for server, tools in by_server.items())]

    def _loaded(self, item: ResponseToolSearchCall) -> ResponseInputItemParam:
        """The answer to a search the model made but we execute: our ranking, loaded by the provider."""
        outcome = self.perform(SEARCH, item.arguments)
        found = outcome.found.tools if outcome.found else ()
        return {
            "type": "tool_search_output",
            "call_id": item.call_id,
            "execution": "client",
            "status": "completed",
            "tools": [self._render_deferred(tool) for tool in found],  # pyright: ignore[reportReturnType]  # same union
        }

    def _render(self, tool: Tool) -> ToolParam:
        original = self.agent.originals.get(tool.name)
        if original is not None and not tool.is_stub:
            return original
        return {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.schema),
            "strict": False,
        }

    def _render_deferred(self, tool: Tool) -> ToolParam:
        return cast("ToolParam", {**self._render(tool), "defer_loading": True})


def defer(
    tools: Iterable[ToolParam], run: Runners, *, endpoint: Endpoint | None = None, **options: Unpack[DeferralOptions]
) -> ResponsesTools:
    """Wrap a Responses tool list. `run` executes your tools: functions by name, or one of (name, arguments).

    A function may name its `server` to be grouped with its siblings under one hosted namespace; the key is not sent.
    """
    given = list(tools)
    functions = [tool for tool in given if tool["type"] == "function"]
    deferred = deferred_tools([cast("Mapping[str, object]", tool) for tool in functions], options)
    originals = {tool["name"]: cast("ToolParam", sendable(tool)) for tool in functions}
    others = tuple(tool for tool in given if tool["type"] != "function")
    return ResponsesTools(deferred, runner(run), originals, others, endpoint)


@asynccontextmanager
async def toolbox(
    endpoint: str | None = None, *, expose: Expose | None = None, **options: Unpack[DeferralOptions]
) -> AsyncGenerator[ResponsesTools]:
    """The same over a toolcrib toolbox, by default the one in `TOOLBOX_ENDPOINT`. Answer with `answer_async`."""
    async with open_toolbox(endpoint, expose=expose) as box:
        yield ResponsesTools(deferred_tools(box.tools, options), box.run, {})


def _search_param(place: SearchPlace) -> ToolParam:
    if place is SearchPlace.HOSTED:
        return {"type": "tool_search"}
    ours = search_tool()
    # The API refuses a client-executed search without a description.
    return {
        "type": "tool_search",
        "execution": "client",
        "description": ours.description,
        "parameters": {**ours.schema, "additionalProperties": False},
    }


def _namespace(server: str, tools: list[ToolParam]) -> ToolParam:
    described = f"The {len(tools)} tools of {server}."
    return cast("ToolParam", {"type": "namespace", "name": server, "description": described, "tools": tools})


def _output(item: ResponseFunctionToolCall, outcome: Outcome) -> ResponseInputItemParam:
    return {"type": "function_call_output", "call_id": item.call_id, "output": outcome.text}
