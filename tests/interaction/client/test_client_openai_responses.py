"""Deferred tools in a hand-written loop over the Responses API, with our search and with the provider's."""

from typing import Any

import openai
from client_fake_provider import Ask, FakeProvider, Move, Say, Search, Seen
from client_scripts import ARGUMENTS, NAMES, RESULT, SCHEMA, TARGET, FindThenCall, describe, run

from toolcrib.client import Endpoint, SearchPlace
from toolcrib.client.adapters import openai_responses


def wire_tools(**more: Any) -> list[Any]:
    return [
        {"type": "function", "name": n, "description": describe(n), "parameters": SCHEMA, "strict": False, **more}
        for n in NAMES
    ]


def converse(
    provider: FakeProvider, talk: openai_responses.ResponsesConversation, endpoint: Endpoint | None = None
) -> str:
    items: list[Any] = [{"role": "user", "content": "A table for four."}]
    with openai.OpenAI(base_url=provider.base_url, api_key="test", max_retries=0) as client:
        while True:
            tools = talk.tools(endpoint=endpoint)
            reply = client.responses.create(
                model="fake", input=items, tools=tools, instructions=talk.instructions(endpoint=endpoint)
            )
            items += [item.to_dict() for item in reply.output]
            calls = [item for item in reply.output if item.type in ("function_call", "tool_search_call")]
            ours = [call for call in calls if getattr(call, "execution", "client") == "client"]
            if not ours:
                return reply.output_text
            items += [talk.answer(call) for call in ours]


def declaring(provider: FakeProvider, place: SearchPlace) -> Endpoint:
    """The loopback provider passes for a gateway that hands the hosted format on."""
    return Endpoint("openai.responses", provider.base_url, frozenset({place}), relays_hosted=True)


def test_a_deferred_tool_is_found_loaded_and_called(mode: Any) -> None:
    script = FindThenCall(mode)
    with FakeProvider(script) as provider:
        talk = openai_responses.defer(wire_tools(), run, mode=mode).session("a")
        assert converse(provider, talk) == f"done: {RESULT}"
    assert script.is_complete


def test_hosted_search_gets_deferred_tools_and_no_stubs() -> None:
    def script(seen: Seen) -> Move:
        if seen.results:
            return Say(f"done: {seen.results[0]}")
        assert {"type": "tool_search"} in seen.body["tools"]
        assert seen.system == ""
        assert all(tool["defer_loading"] and seen.parameters(name) for name, tool in seen.tools.items())
        return Search("table", hosted=True, then=Ask(TARGET, ARGUMENTS))

    with FakeProvider(script) as provider:
        talk = openai_responses.defer(wire_tools(), run).session("a")
        assert converse(provider, talk, declaring(provider, SearchPlace.HOSTED)) == f"done: {RESULT}"
        assert provider.seen[0].wire_tools == provider.seen[1].wire_tools


def test_a_search_we_execute_is_loaded_by_the_provider() -> None:
    def script(seen: Seen) -> Move:
        if seen.results:
            return Say(f"done: {seen.results[0]}")
        if seen.loaded:
            assert seen.loaded[TARGET]["parameters"] == SCHEMA
            return Ask(TARGET, ARGUMENTS)
        search = next(tool for tool in seen.body["tools"] if tool["type"] == "tool_search")
        assert search["execution"] == "client"
        assert search["description"]
        assert "call them directly" in seen.system
        return Search(TARGET)

    with FakeProvider(script) as provider:
        talk = openai_responses.defer(wire_tools(), run).session("a")
        assert converse(provider, talk, declaring(provider, SearchPlace.REFERENCED)) == f"done: {RESULT}"
        assert provider.seen[0].wire_tools == provider.seen[2].wire_tools


def test_tools_of_one_server_share_a_namespace() -> None:
    def script(seen: Seen) -> Move:
        namespace = seen.body["tools"][0]
        assert namespace["type"] == "namespace"
        assert namespace["name"] == "concierge"
        assert len(namespace["tools"]) == len(NAMES)
        return Say("seen")

    with FakeProvider(script) as provider:
        talk = openai_responses.defer(wire_tools(server="concierge"), run).session("a")
        assert converse(provider, talk, declaring(provider, SearchPlace.HOSTED)) == "seen"


def test_our_own_keys_never_reach_the_provider() -> None:
    with FakeProvider(lambda seen: Say("types hold")) as provider:
        tools = wire_tools(server="concierge", deferrable="never")
        assert converse(provider, openai_responses.defer(tools, run).session("a")) == "types hold"


def test_the_providers_own_tools_pass_untouched() -> None:
    talk = openai_responses.defer([*wire_tools(), {"type": "web_search"}], run).session("a")
    assert talk.tools()[-1] == {"type": "web_search"}
