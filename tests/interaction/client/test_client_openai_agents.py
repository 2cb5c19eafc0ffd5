"""Deferred tools in the OpenAI Agents SDK, against the real package, over both APIs it speaks."""

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)
from client_fake_provider import FakeProvider, Move, Say, Script, Seen
from client_scripts import ARGUMENTS, RESULT, TARGET, FindThenCall, functions

from toolcrib.client.adapters import openai_agents

QUIET = RunConfig(tracing_disabled=True)


@dataclass
class Context:
    conversation_id: str


@asynccontextmanager
async def agent_on(script: Script, kind: Any = OpenAIChatCompletionsModel, tools: Any = None) -> AsyncGenerator[Any]:
    own = tools or [function_tool(function) for function in functions().values()]
    with FakeProvider(script) as provider:
        async with openai.AsyncOpenAI(base_url=provider.base_url, api_key="test", max_retries=0) as client:
            yield Agent(name="concierge", instructions="You book tables.", model=kind("fake", client), tools=own)


def first_request(seen: Seen) -> Move:
    return Say(f"parameters: {sorted(seen.parameters(TARGET))}")


@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
async def test_a_deferred_tool_is_found_loaded_and_called(mode: Any, kind: Any) -> None:
    script = FindThenCall(mode)
    async with agent_on(script, kind) as agent:
        result = await Runner.run(openai_agents.defer(agent, mode=mode), "A table for four.", run_config=QUIET)
    assert result.final_output == f"done: {RESULT}"
    assert script.is_complete


async def test_a_named_conversation_keeps_its_reveals_and_others_do_not_see_them() -> None:
    async with agent_on(FindThenCall("reveal")) as agent:
        deferred = openai_agents.defer(agent, session_of=lambda run: run.context.conversation_id)
        await Runner.run(deferred, "A table.", context=Context("a"), run_config=QUIET)
    async with agent_on(first_request) as other:
        again = deferred.clone(model=other.model)
        b = await Runner.run(again, "Hi.", context=Context("b"), run_config=QUIET)
        a = await Runner.run(again, "Hi.", context=Context("a"), run_config=QUIET)
    assert b.final_output == "parameters: []"
    assert a.final_output == "parameters: ['guests', 'place']"


async def test_unnamed_runs_never_share_reveals_and_leave_nothing_behind() -> None:
    async with agent_on(FindThenCall("reveal")) as agent:
        deferred = openai_agents.defer(agent)
        await Runner.run(deferred, "A table.", run_config=QUIET)
    gc.collect()
    async with agent_on(first_request) as other:
        result = await Runner.run(deferred.clone(model=other.model), "Hi.", run_config=QUIET)
    assert result.final_output == "parameters: []"


async def test_search_finds_only_what_is_enabled_in_this_run() -> None:
    def script(seen: Seen) -> Move:
        from client_fake_provider import Ask

        if not seen.results:
            return Ask("tool_search", {"query": ""})
        assert TARGET not in seen.results[0]
        assert "send_mail" in seen.results[0]
        return Say("scoped")

    tools = [function_tool(f, is_enabled=name != TARGET) for name, f in functions().items()]
    async with agent_on(script, tools=tools) as agent:
        result = await Runner.run(openai_agents.defer(agent), "Hi.", run_config=QUIET)
    assert result.final_output == "scoped"


async def test_a_tool_that_needs_approval_is_never_hidden_behind_the_bridge() -> None:
    tools = [function_tool(f, needs_approval=name == TARGET) for name, f in functions().items()]
    async with agent_on(first_request, tools=tools) as agent:
        deferred = openai_agents.defer(agent, mode="bridge")
        assert [tool.name for tool in deferred.tools] == [TARGET, "tool_search", "call_tool"]


async def test_dynamic_instructions_keep_their_text_and_get_the_note() -> None:
    def script(seen: Seen) -> Move:
        assert seen.system.startswith("For a.")
        assert "`tool_search`" in seen.system
        return Say("noted")

    async with agent_on(script) as agent:
        dynamic = agent.clone(instructions=lambda run, _: f"For {run.context.conversation_id}.")
        result = await Runner.run(openai_agents.defer(dynamic), "Hi.", context=Context("a"), run_config=QUIET)
    assert result.final_output == "noted"


async def test_below_the_threshold_the_agent_is_left_as_it_is() -> None:
    tools = [function_tool(f) for f in list(functions().values())[:3]]
    async with agent_on(first_request, tools=tools) as agent:
        deferred = openai_agents.defer(agent)
    assert deferred.tools == tools
    assert deferred.instructions == agent.instructions
    assert all(isinstance(tool, FunctionTool) for tool in deferred.tools)
    assert set(tools[0].params_json_schema["properties"]) == set(ARGUMENTS)
