"""Deferred tools in Microsoft Agent Framework, against the real core package.

The chat client is ours, because the core ships none: the core's own layers over the `openai` package.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import openai
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    tool,
)
from client_fake_provider import Ask, FakeProvider, Move, Say, Script, Seen
from client_scripts import ARGUMENTS, RESULT, TARGET, FindThenCall, functions

from toolcrib.client.adapters import agent_framework


class LoopbackChatClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    def __init__(self, client: openai.AsyncOpenAI) -> None:
        super().__init__()
        self.openai = client

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse]:
        return self._ask(messages, options)

    async def _ask(self, messages: Sequence[Message], options: Mapping[str, Any]) -> ChatResponse:
        sent: list[Any] = [{"role": "system", "content": options.get("instructions") or ""}]
        sent += [wire for message in messages for wire in _wire(message)]
        tools = [t.to_json_schema_spec() for t in options.get("tools") or () if isinstance(t, FunctionTool)]
        reply = await self.openai.chat.completions.create(model="fake", messages=sent, tools=tools or openai.omit)
        message = reply.choices[0].message
        calls = [
            Content.from_function_call(call.id, call.function.name, arguments=call.function.arguments)
            for call in message.tool_calls or ()
            if call.type == "function"
        ]
        return ChatResponse(messages=[Message("assistant", [*calls, *([message.content] if message.content else [])])])


def _wire(message: Message) -> list[dict[str, Any]]:
    results = [c for c in message.contents if c.type == "function_result"]
    if results:
        return [{"role": "tool", "tool_call_id": c.call_id, "content": str(c.result)} for c in results]
    calls = [c for c in message.contents if c.type == "function_call"]
    if calls:
        wire = [
            {"id": c.call_id, "type": "function", "function": {"name": c.name, "arguments": _arguments(c.arguments)}}
            for c in calls
        ]
        return [{"role": "assistant", "tool_calls": wire}]
    return [{"role": message.role, "content": message.text}]


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@asynccontextmanager
async def agent_on(script: Script, provider: Any, tools: Any = None) -> AsyncGenerator[Agent[Any]]:
    own = tools or [tool(function) for function in functions().values()]
    with FakeProvider(script) as fake:
        async with openai.AsyncOpenAI(base_url=fake.base_url, api_key="test", max_retries=0) as client:
            chat = LoopbackChatClient(client)
            yield Agent(chat, "You book tables.", tools=own, context_providers=[provider])


def first_request(seen: Seen) -> Move:
    return Say(f"parameters: {sorted(seen.parameters(TARGET))}")


async def test_a_deferred_tool_is_found_loaded_and_called(mode: Any) -> None:
    script = FindThenCall(mode)
    async with agent_on(script, agent_framework.defer(mode=mode)) as agent:
        result = await agent.run("A table for four.")
    assert result.text == f"done: {RESULT}"
    assert script.is_complete


async def test_reveals_follow_the_session_and_no_other() -> None:
    provider = agent_framework.defer()
    async with agent_on(FindThenCall("reveal"), provider) as agent:
        session = agent.create_session()
        await agent.run("A table.", session=session)
    async with agent_on(first_request, provider) as agent:
        other = await agent.run("Hi.", session=agent.create_session())
        nobody = await agent.run("Hi.")
        same = await agent.run("Hi.", session=session)
    assert other.text == nobody.text == "parameters: []"
    assert same.text == "parameters: ['guests', 'place']"


async def test_a_tool_that_needs_approval_is_never_hidden_behind_the_bridge() -> None:
    def script(seen: Seen) -> Move:
        assert set(seen.tools) == {TARGET, "tool_search", "call_tool"}
        assert seen.parameters(TARGET) == set(ARGUMENTS)
        return Say("listed")

    tools = [
        tool(f, approval_mode="always_require" if name == TARGET else "never_require")
        for name, f in functions().items()
    ]
    async with agent_on(script, agent_framework.defer(mode="bridge"), tools) as agent:
        assert (await agent.run("Hi.")).text == "listed"


async def test_below_the_threshold_nothing_of_ours_is_listed() -> None:
    def script(seen: Seen) -> Move:
        assert len(seen.tools) == 3
        assert "tool_search" not in seen.system
        return Say("whole")

    tools = [tool(f) for f in list(functions().values())[:3]]
    async with agent_on(script, agent_framework.defer(), tools) as agent:
        assert (await agent.run("Hi.")).text == "whole"


async def test_a_wrong_name_is_an_answer_the_model_can_read() -> None:
    def script(seen: Seen) -> Move:
        if not seen.results:
            return Ask("tool_search", {"query": "   "})
        assert TARGET in seen.results[0]
        return Say("browsed")

    async with agent_on(script, agent_framework.defer(mode="bridge")) as agent:
        assert (await agent.run("Hi.")).text == "browsed"
