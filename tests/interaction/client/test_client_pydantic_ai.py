"""Deferred tools in Pydantic AI, against the real package and the OpenAI models it ships."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from client_fake_provider import Ask, FakeProvider, Move, Say, Script, Seen
from client_scripts import ARGUMENTS, RESULT, TARGET, FindThenCall, functions
from pydantic_ai import Agent, FunctionToolset, Tool
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from toolcrib.client.adapters import pydantic_ai


@asynccontextmanager
async def agent_on(
    script: Script, toolset: Any, kind: Any = OpenAIChatModel, **more: Any
) -> AsyncGenerator[Agent[Any, str]]:
    with FakeProvider(script) as provider:
        async with openai.AsyncOpenAI(base_url=provider.base_url, api_key="test", max_retries=0) as client:
            model = kind("fake", provider=OpenAIProvider(openai_client=client))
            yield Agent(model, toolsets=[toolset], instructions="You book tables.", **more)


@pytest.mark.parametrize("kind", [OpenAIChatModel, OpenAIResponsesModel])
async def test_a_deferred_tool_is_found_loaded_and_called(mode: Any, kind: Any) -> None:
    script = FindThenCall(mode)
    async with agent_on(script, pydantic_ai.defer(list(functions().values()), mode=mode), kind) as agent:
        result = await agent.run("A table for four.")
    assert result.output == f"done: {RESULT}"
    assert script.is_complete


async def test_conversations_keep_their_reveals_to_themselves() -> None:
    toolset = pydantic_ai.defer(list(functions().values()))

    def first_request(seen: Seen) -> Move:
        return Say(f"parameters: {sorted(seen.parameters(TARGET))}")

    async with agent_on(FindThenCall("reveal"), toolset) as agent:
        await agent.run("A table.", conversation_id="a")
    async with agent_on(first_request, toolset) as agent:
        assert (await agent.run("Hello.", conversation_id="b")).output == "parameters: []"
        assert (await agent.run("Hello.", conversation_id="a")).output == "parameters: ['guests', 'place']"


async def test_bridged_arguments_are_validated_by_the_tool_itself() -> None:
    def script(seen: Seen) -> Move:
        wrong = {"name": TARGET, "arguments": {"place": "Maaemo"}}
        moves = (Ask("tool_search", {"query": TARGET}), Ask("call_tool", wrong))
        if len(seen.results) < len(moves):
            return moves[len(seen.results)]
        assert "guests" in seen.results[-1]
        return Say("told")

    async with agent_on(script, pydantic_ai.defer(list(functions().values()), mode="bridge")) as agent:
        assert (await agent.run("A table.")).output == "told"


async def test_a_tool_that_needs_approval_is_never_hidden_behind_the_bridge() -> None:
    def script(seen: Seen) -> Move:
        assert seen.parameters(TARGET) == set(ARGUMENTS)
        return Say("listed")

    tools = [Tool(f, requires_approval=name == TARGET) for name, f in functions().items()]
    async with agent_on(script, pydantic_ai.defer(tools, mode="bridge")) as agent:
        assert (await agent.run("Hi.")).output == "listed"


async def test_our_ranking_serves_the_frameworks_own_tool_search() -> None:
    def script(seen: Seen) -> Move:
        if TARGET not in seen.tools:
            return Ask("search_tools", {"queries": ["reserve a table", "book table"]})
        if len(seen.results) == 1:
            return Ask(TARGET, ARGUMENTS)
        return Say(f"done: {seen.results[1]}")

    tools = [Tool(function, defer_loading=True) for function in functions().values()]
    search = ToolSearch(strategy=pydantic_ai.search_function())
    async with agent_on(script, FunctionToolset(tools), capabilities=[search]) as agent:
        assert (await agent.run("A table.")).output == f"done: {RESULT}"
