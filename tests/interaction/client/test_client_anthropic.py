"""Deferred tools in a hand-written loop over Anthropic Messages, with our search and with the provider's."""

from typing import Any

import anthropic
from client_fake_provider import Ask, FakeProvider, Move, Say, Search, Seen
from client_scripts import ARGUMENTS, NAMES, RESULT, SCHEMA, TARGET, FindThenCall, describe, run

from toolcrib.client import Endpoint, SearchPlace
from toolcrib.client.adapters import anthropic as adapter


def wire_tools(**more: Any) -> list[Any]:
    return [{"name": n, "description": describe(n), "input_schema": SCHEMA, **more} for n in NAMES]


def converse(provider: FakeProvider, talk: adapter.MessagesConversation, endpoint: Endpoint | None = None) -> str:
    messages: list[Any] = [{"role": "user", "content": "A table for four."}]
    with anthropic.Anthropic(base_url=provider.root, api_key="test", max_retries=0) as client:
        while True:
            reply = client.messages.create(
                model="fake",
                max_tokens=100,
                system=talk.instructions("You book tables.", endpoint),
                messages=messages,
                tools=talk.tools(endpoint=endpoint),
            )
            messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in reply.content if block.type == "text")
            messages.append({"role": "user", "content": [talk.answer(call, endpoint) for call in calls]})


def declaring(provider: FakeProvider, place: SearchPlace) -> Endpoint:
    return Endpoint("anthropic.messages", provider.base_url, frozenset({place}), relays_hosted=True)


def test_a_deferred_tool_is_found_loaded_and_called(mode: Any) -> None:
    script = FindThenCall(mode)
    with FakeProvider(script) as provider:
        assert converse(provider, adapter.defer(wire_tools(), run, mode=mode).session("a")) == f"done: {RESULT}"
    assert script.is_complete


def test_hosted_search_gets_deferred_tools_and_no_stubs() -> None:
    def script(seen: Seen) -> Move:
        if seen.results:
            return Say(f"done: {seen.results[0]}")
        assert all(tool["defer_loading"] and seen.parameters(name) for name, tool in seen.tools.items())
        assert seen.system == "You book tables."
        return Search("table", hosted=True, then=Ask(TARGET, ARGUMENTS))

    with FakeProvider(script) as provider:
        talk = adapter.defer(wire_tools(cache_control={"type": "ephemeral"}), run).session("a")
        assert converse(provider, talk, declaring(provider, SearchPlace.HOSTED)) == f"done: {RESULT}"
        assert provider.seen[0].wire_tools == provider.seen[1].wire_tools


def test_our_ranking_answers_with_tool_references() -> None:
    def script(seen: Seen) -> Move:
        if len(seen.results) > 1:
            return Say(f"done: {seen.results[1]}")
        if seen.loaded:
            return Ask(TARGET, ARGUMENTS)
        assert not seen.tools["tool_search"].get("defer_loading")
        return Ask("tool_search", {"query": TARGET})

    with FakeProvider(script) as provider:
        talk = adapter.defer(wire_tools(), run).session("a")
        assert converse(provider, talk, declaring(provider, SearchPlace.REFERENCED)) == f"done: {RESULT}"
        assert provider.seen[0].wire_tools == provider.seen[2].wire_tools


def test_a_search_without_a_match_names_the_tools_also_under_references() -> None:
    def script(seen: Seen) -> Move:
        if seen.results:
            assert TARGET in seen.results[0]
            return Say("named")
        return Ask("tool_search", {"query": "zzzz"})

    with FakeProvider(script) as provider:
        talk = adapter.defer(wire_tools(), run, ranking="keyword").session("a")
        assert converse(provider, talk, declaring(provider, SearchPlace.REFERENCED)) == "named"


def test_a_wrong_name_is_an_error_the_model_can_read() -> None:
    talk = adapter.defer(wire_tools(), run, mode="bridge").session("a")
    block = anthropic.types.ToolUseBlock(id="t", name="call_tool", input={"name": "book_tabel"}, type="tool_use")
    result = talk.answer(block)
    assert result.get("is_error") is True
    assert "tool_search" in str(result.get("content"))
