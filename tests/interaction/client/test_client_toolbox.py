"""One line points every adapter at a toolbox instead, with the same behaviour.

With the toolbox's own search its two tools are passed on; with `expose="all"` everything is deferred here.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import agent_framework as framework
import anthropic
import openai
import pytest
from agents import Agent as SdkAgent
from agents import OpenAIChatCompletionsModel, RunConfig, Runner
from client_fake_provider import FakeProvider, Script
from client_scripts import RESULT, FindThenCall
from client_small_toolbox import TOKEN, SmallToolbox, small_toolbox
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from test_client_agent_framework import LoopbackChatClient

from toolcrib.client.adapters import (
    agent_framework,
    langchain,
    mcp_session,
    openai_agents,
    openai_chat,
    openai_responses,
    pydantic_ai,
)
from toolcrib.client.adapters import anthropic as anthropic_adapter
from toolcrib.client.toolbox import toolbox_address
from toolcrib.errors import BadSettings

ASK = "A table for four."


@pytest.fixture(scope="module")
def served() -> Generator[SmallToolbox]:
    with small_toolbox() as box:
        yield box


@pytest.fixture
def box(served: SmallToolbox, monkeypatch: pytest.MonkeyPatch) -> SmallToolbox:
    monkeypatch.setenv("TOOLBOX_ENDPOINT", served.url)
    monkeypatch.setenv("TOOLCRIB_TOKEN", TOKEN)
    served.queries.clear()
    served.called.clear()
    return served


@pytest.fixture(params=["search", "reveal", "bridge"])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The toolbox's own search, or everything listed and deferred here in either mode."""
    return {} if request.param == "search" else {"expose": "all", "mode": request.param}


@asynccontextmanager
async def provider(way: dict[str, Any]) -> AsyncGenerator[tuple[FakeProvider, openai.AsyncOpenAI]]:
    script: Script = FindThenCall(way.get("mode", "bridge"))
    with FakeProvider(script) as fake:
        async with openai.AsyncOpenAI(base_url=fake.base_url, api_key="test", max_retries=0) as client:
            yield fake, client


def check(box: SmallToolbox, way: dict[str, Any]) -> None:
    searched_there = ["tool_search", "call_tool"]
    assert box.called == (["book_table"] if "expose" in way else searched_there)
    assert all(query["names"] == ["safe"] and query["api-version"] for query in box.queries)


async def test_openai_chat(box: SmallToolbox, way: dict[str, Any]) -> None:
    async with provider(way) as (_, client), openai_chat.toolbox(**way) as tools:
        chat = tools.session("a")
        messages: list[Any] = [{"role": "system", "content": chat.instructions()}, {"role": "user", "content": ASK}]
        while True:
            reply = await client.chat.completions.create(model="fake", messages=messages, tools=chat.tools())
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            messages += [await chat.answer_async(call) for call in message.tool_calls if call.type == "function"]
    assert message.content == f"done: {RESULT}"
    check(box, way)


async def test_openai_responses(box: SmallToolbox, way: dict[str, Any]) -> None:
    async with provider(way) as (_, client), openai_responses.toolbox(**way) as tools:
        talk = tools.session("a")
        items: list[Any] = [{"role": "user", "content": ASK}]
        while True:
            reply = await client.responses.create(
                model="fake", input=items, tools=talk.tools(), instructions=talk.instructions()
            )
            items += [item.to_dict() for item in reply.output]
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                break
            items += [await talk.answer_async(call) for call in calls]
    assert reply.output_text == f"done: {RESULT}"
    check(box, way)


async def test_anthropic(box: SmallToolbox, way: dict[str, Any]) -> None:
    async with provider(way) as (fake, _), anthropic_adapter.toolbox(**way) as tools:
        talk = tools.session("a")
        messages: list[Any] = [{"role": "user", "content": ASK}]
        async with anthropic.AsyncAnthropic(base_url=fake.root, api_key="test", max_retries=0) as client:
            while True:
                reply = await client.messages.create(
                    model="fake", max_tokens=9, system=talk.instructions(), messages=messages, tools=talk.tools()
                )
                messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
                calls = [block for block in reply.content if block.type == "tool_use"]
                if not calls:
                    break
                messages.append({"role": "user", "content": [await talk.answer_async(call) for call in calls]})
    assert reply.content[0].to_dict()["text"] == f"done: {RESULT}"
    check(box, way)


async def test_pydantic_ai(box: SmallToolbox, way: dict[str, Any]) -> None:
    async with provider(way) as (_, client), pydantic_ai.toolbox(**way) as toolset:
        model = OpenAIChatModel("fake", provider=OpenAIProvider(openai_client=client))
        result = await PydanticAgent(model, toolsets=[toolset]).run(ASK)
    assert result.output == f"done: {RESULT}"
    check(box, way)


async def test_openai_agents(box: SmallToolbox, way: dict[str, Any]) -> None:
    async with provider(way) as (_, client):
        agent = SdkAgent(name="concierge", model=OpenAIChatCompletionsModel("fake", client))
        async with openai_agents.toolbox(agent, **way) as with_tools:
            result = await Runner.run(with_tools, ASK, run_config=RunConfig(tracing_disabled=True))
    assert result.final_output == f"done: {RESULT}"
    check(box, way)


async def test_langchain(box: SmallToolbox, way: dict[str, Any]) -> None:
    async with provider(way) as (fake, _), langchain.toolbox(**way) as middleware:
        model = ChatOpenAI(model="fake", base_url=fake.base_url, api_key="test", max_retries=0)
        result = await create_agent(model, middleware=[middleware]).ainvoke(
            {"messages": [{"role": "user", "content": ASK}]}
        )
    assert result["messages"][-1].content == f"done: {RESULT}"
    check(box, way)


async def test_agent_framework(box: SmallToolbox, way: dict[str, Any]) -> None:
    async with provider(way) as (_, client), agent_framework.toolbox(**way) as context_provider:
        agent = framework.Agent(LoopbackChatClient(client), context_providers=[context_provider])
        result = await agent.run(ASK)
    assert result.text == f"done: {RESULT}"
    check(box, way)


async def test_mcp_session(box: SmallToolbox, way: dict[str, Any]) -> None:
    async with mcp_session.toolbox(**way) as session:
        listed = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert "tool_search" in listed
        found = await session.call_tool("tool_search", {"query": "book_table"})
        assert "guests" in mcp_session.read_result(found).text
        name, arguments = "book_table", {"place": "Maaemo", "guests": 4}
        if way.get("mode") != "reveal":
            name, arguments = "call_tool", {"name": name, "arguments": arguments}
        result = await session.call_tool(name, arguments)
    assert mcp_session.read_result(result).text == RESULT
    check(box, way)


def test_the_legacy_variable_is_read_when_the_other_is_not_set() -> None:
    address = toolbox_address(environ={"FOUNDRY_TOOLBOX_ENDPOINT": "http://h/mcp?api-version=v9"})
    assert address.url == "http://h/mcp?api-version=v9&names=safe"
    assert address.headers == {}


def test_without_an_endpoint_it_says_what_to_set() -> None:
    with pytest.raises(BadSettings, match="no toolbox endpoint is set") as caught:
        toolbox_address(environ={})
    assert caught.value.hint is not None
    assert "TOOLBOX_ENDPOINT" in caught.value.hint


def test_a_token_is_not_shown_when_an_address_is_printed() -> None:
    assert TOKEN not in repr(toolbox_address("http://h/mcp", token=TOKEN))
