"""Deferred tools in LangChain agents on LangGraph, against the real packages and ChatOpenAI."""

from typing import Any

import pytest
from client_fake_provider import Ask, FakeProvider, Move, Say, Seen
from client_scripts import NAMES, RESULT, TARGET, FindThenCall, functions
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from toolcrib.client.adapters import langchain

ASK = {"messages": [{"role": "user", "content": "A table for four."}]}


def agent_on(provider: FakeProvider, middleware: Any, checkpointer: Any = None) -> Any:
    model = ChatOpenAI(model="fake", base_url=provider.base_url, api_key="test", max_retries=0)
    tools = [StructuredTool.from_function(function) for function in functions().values()]
    return create_agent(
        model, tools, system_prompt="You book tables.", middleware=[*middleware], checkpointer=checkpointer
    )


def first_request(seen: Seen) -> Move:
    return Say(f"parameters: {sorted(seen.parameters(TARGET))}")


def test_a_deferred_tool_is_found_loaded_and_called(mode: Any) -> None:
    script = FindThenCall(mode)
    with FakeProvider(script) as provider:
        result = agent_on(provider, [langchain.defer(mode=mode)]).invoke(ASK)
    assert result["messages"][-1].content == f"done: {RESULT}"
    assert script.is_complete


async def test_it_works_the_same_asynchronously(mode: Any) -> None:
    script = FindThenCall(mode)
    with FakeProvider(script) as provider:
        result = await agent_on(provider, [langchain.defer(mode=mode)]).ainvoke(ASK)
    assert result["messages"][-1].content == f"done: {RESULT}"
    assert script.is_complete


def test_reveals_follow_the_thread_and_no_other() -> None:
    middleware, memory = langchain.defer(), InMemorySaver()
    with FakeProvider(FindThenCall("reveal")) as provider:
        agent_on(provider, [middleware], memory).invoke(ASK, {"configurable": {"thread_id": "a"}})
    with FakeProvider(first_request) as provider:
        agent = agent_on(provider, [middleware], memory)
        b = agent.invoke(ASK, {"configurable": {"thread_id": "b"}})
        a = agent.invoke(ASK, {"configurable": {"thread_id": "a"}})
    assert b["messages"][-1].content == "parameters: []"
    assert a["messages"][-1].content == "parameters: ['guests', 'place']"
    assert "toolcrib_session" not in a


def test_without_a_checkpointer_every_run_is_its_own_session() -> None:
    middleware = langchain.defer()
    with FakeProvider(FindThenCall("reveal")) as provider:
        agent_on(provider, [middleware]).invoke(ASK)
    with FakeProvider(first_request) as provider:
        result = agent_on(provider, [middleware]).invoke(ASK)
    assert result["messages"][-1].content == "parameters: []"


@pytest.mark.parametrize("query", ["", TARGET])
def test_search_is_scoped_to_what_other_middleware_leaves(query: str) -> None:
    from langchain.agents.middleware import wrap_model_call

    @wrap_model_call
    def without_target(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=[tool for tool in request.tools if tool.name != TARGET]))

    def script(seen: Seen) -> Move:
        assert TARGET not in seen.tools
        if not seen.results:
            return Ask("tool_search", {"query": query})
        assert f'"name":"{TARGET}"' not in seen.results[0]
        assert f'"{TARGET}"' not in seen.results[0].replace(f"'{TARGET}'", "")
        return Say("scoped")

    with FakeProvider(script) as provider:
        result = agent_on(provider, [without_target, langchain.defer()]).invoke(ASK)
    assert result["messages"][-1].content == "scoped"


def test_a_wrong_name_is_an_error_the_model_can_read() -> None:
    def script(seen: Seen) -> Move:
        moves = (Ask("tool_search", {"query": TARGET}), Ask("call_tool", {"name": TARGET, "arguments": "{}"}))
        if len(seen.results) < len(moves):
            return moves[len(seen.results)]
        assert "place" in seen.results[1]
        return Say("told")

    with FakeProvider(script) as provider:
        result = agent_on(provider, [langchain.defer(mode="bridge")]).invoke(ASK)
    assert result["messages"][-1].content == "told"
    assert len(NAMES) == 20
