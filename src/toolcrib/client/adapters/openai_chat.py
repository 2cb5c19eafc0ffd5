"""Deferred tools for a hand-written loop over OpenAI Chat Completions, and the many APIs that copy it.

`chat = defer(tools, run).session(id)`; send `chat.tools()`, append `chat.answer(call)`. This API has no hosted search,
so ours always runs. It makes no request itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack, cast

from openai.types.chat import (
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionToolMessageParam,
    ChatCompletionToolUnionParam,
)

from toolcrib.client.adapters.choice import ToolChoice, read_choice
from toolcrib.client.adapters.options import DeferralOptions, deferred_tools, sendable
from toolcrib.client.adapters.toolboxes import open_toolbox
from toolcrib.client.conversation import Conversation, Outcome, Run, Runners, runner
from toolcrib.client.deferral import DeferredTools
from toolcrib.client.tool import Tool
from toolcrib.client.toolbox import Expose


@dataclass(frozen=True, slots=True)
class ChatTools:
    """An agent's tools in Chat Completions form. `others` have no schema to hold back and pass as they are."""

    deferred: DeferredTools
    run: Run
    originals: Mapping[str, ChatCompletionToolUnionParam]
    others: tuple[ChatCompletionToolUnionParam, ...] = ()

    def session(self, session: Hashable, visible: Collection[str] | None = None) -> ChatConversation:
        return ChatConversation(self.deferred.turn(session, visible), self.run, self)


@dataclass(frozen=True, slots=True)
class ChatConversation(Conversation):
    agent: ChatTools

    def tools(self, tool_choice: ToolChoice = None) -> list[ChatCompletionToolUnionParam]:
        """The `tools` of the next request. Pass its `tool_choice` if that narrows what may be called."""
        choice = read_choice(tool_choice)
        listed = self.turn.listed(can_search=choice.can_search, forced=choice.forced)
        return [*(self._render(tool) for tool in listed), *self.agent.others]

    def answer(self, call: ChatCompletionMessageFunctionToolCall) -> ChatCompletionToolMessageParam:
        """The tool message for a call the model made."""
        return _message(call, self.perform(call.function.name, call.function.arguments))

    async def answer_async(self, call: ChatCompletionMessageFunctionToolCall) -> ChatCompletionToolMessageParam:
        return _message(call, await self.perform_async(call.function.name, call.function.arguments))

    def _render(self, tool: Tool) -> ChatCompletionToolUnionParam:
        original = self.agent.originals.get(tool.name)
        if original is not None and not tool.is_stub:
            return original
        function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
        return cast("ChatCompletionToolUnionParam", {"type": "function", "function": function})


def defer(tools: Iterable[ChatCompletionToolUnionParam], run: Runners, **options: Unpack[DeferralOptions]) -> ChatTools:
    """Wrap a Chat Completions tool list. `run` executes your tools: functions by name, or one of (name, arguments)."""
    given = list(tools)
    functions = [tool for tool in given if tool["type"] == "function"]
    deferred = deferred_tools([cast("Mapping[str, object]", tool) for tool in functions], options)
    originals = {tool["function"]["name"]: cast("ChatCompletionToolUnionParam", sendable(tool)) for tool in functions}
    others = tuple(tool for tool in given if tool["type"] != "function")
    return ChatTools(deferred, runner(run), originals, others)


@asynccontextmanager
async def toolbox(
    endpoint: str | None = None, *, expose: Expose | None = None, **options: Unpack[DeferralOptions]
) -> AsyncGenerator[ChatTools]:
    """The same over a toolcrib toolbox, by default the one in `TOOLBOX_ENDPOINT`. Answer with `answer_async`."""
    async with open_toolbox(endpoint, expose=expose) as box:
        yield ChatTools(deferred_tools(box.tools, options), box.run, {})


def _message(call: ChatCompletionMessageFunctionToolCall, outcome: Outcome) -> ChatCompletionToolMessageParam:
    return {"role": "tool", "tool_call_id": call.id, "content": outcome.text}
