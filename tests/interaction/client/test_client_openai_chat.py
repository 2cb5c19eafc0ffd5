"""Deferred tools in a hand-written loop over Chat Completions, against the real `openai` package."""

from typing import Any

import openai
import pytest
from client_fake_provider import FakeProvider, Say
from client_scripts import ARGUMENTS, NAMES, RESULT, SCHEMA, TARGET, FindThenCall, describe, impatient, run

from toolcrib.client.adapters import openai_chat


def wire_tools() -> list[Any]:
    return [
        {"type": "function", "function": {"name": name, "description": describe(name), "parameters": SCHEMA}}
        for name in NAMES
    ]


def converse(provider: FakeProvider, chat: openai_chat.ChatConversation) -> str:
    client = openai.OpenAI(base_url=provider.base_url, api_key="test", max_retries=0)
    messages: list[Any] = [
        {"role": "system", "content": chat.instructions("You book tables.")},
        {"role": "user", "content": "A table for four."},
    ]
    with client:
        while True:
            reply = client.chat.completions.create(model="fake", messages=messages, tools=chat.tools())
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            messages += [chat.answer(call) for call in message.tool_calls if call.type == "function"]


def test_a_deferred_tool_is_found_loaded_and_called(mode: Any) -> None:
    script = FindThenCall(mode)
    with FakeProvider(script) as provider:
        assert converse(provider, openai_chat.defer(wire_tools(), run, mode=mode).session("a")) == f"done: {RESULT}"
    assert script.is_complete


def test_tools_are_run_by_name_when_functions_are_given() -> None:
    runners = {TARGET: lambda place, guests: f"booked {place} for {guests}"}
    with FakeProvider(FindThenCall("bridge")) as provider:
        chat = openai_chat.defer(wire_tools(), runners, mode="bridge").session("a")
        assert converse(provider, chat) == f"done: {RESULT}"


def test_a_call_before_the_schema_was_shown_is_caught_by_the_provider() -> None:
    provider = FakeProvider(impatient)
    chat = openai_chat.defer(wire_tools(), run).session("a")
    with pytest.raises(openai.BadRequestError, match="before its schema was shown"), provider:
        converse(provider, chat)
    assert len(provider.failures) == 1


def test_one_session_never_sees_what_another_revealed() -> None:
    tools = openai_chat.defer(wire_tools(), run)
    with FakeProvider(FindThenCall("reveal")) as provider:
        converse(provider, tools.session("a"))
    script = FindThenCall("reveal")
    with FakeProvider(script) as provider:
        converse(provider, tools.session("b"))
    assert script.is_complete


def test_a_session_keeps_what_it_revealed_for_its_next_request() -> None:
    tools = openai_chat.defer(wire_tools(), run)
    with FakeProvider(FindThenCall("reveal")) as provider:
        converse(provider, tools.session("a"))

    def already_loaded(seen: Any) -> Say:
        assert seen.parameters(TARGET) == set(ARGUMENTS)
        return Say("loaded")

    with FakeProvider(already_loaded) as provider:
        assert converse(provider, tools.session("a")) == "loaded"


def test_a_tool_that_the_request_forces_is_sent_whole() -> None:
    chat = openai_chat.defer(wire_tools(), run).session("a")
    listed: list[Any] = chat.tools({"type": "function", "function": {"name": TARGET}})
    by_name = {tool["function"]["name"]: tool["function"]["parameters"]["properties"] for tool in listed}
    assert by_name[TARGET] == SCHEMA["properties"]
    assert by_name["send_mail"] == {}


def test_everything_is_sent_whole_when_the_request_allows_no_search() -> None:
    chat = openai_chat.defer(wire_tools(), run).session("a")
    choice = {"type": "allowed_tools", "allowed_tools": {"tools": [{"type": "function", "function": {"name": TARGET}}]}}
    assert chat.tools(choice) == wire_tools()
