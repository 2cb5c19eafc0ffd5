"""A hand-written loop's session: its instructions, and what its calls come to."""

from typing import Any

import pytest

from toolcrib.client import DeferredTools
from toolcrib.client.conversation import Conversation, runner
from toolcrib.errors import BadRequest

TOOLS = [{"name": f"tool_{number}", "description": f"Number {number}."} for number in range(20)]


def conversation(run: Any) -> Conversation:
    return Conversation(DeferredTools(TOOLS, mode="bridge", ranking="keyword").turn("s"), runner(run))


def test_the_note_follows_the_authors_own_instructions() -> None:
    text = conversation({}).instructions("Be kind.")
    assert text.startswith("Be kind.\n\n")
    assert "`tool_search`" in text


def test_a_result_that_is_not_text_reaches_the_model_as_json() -> None:
    talk = conversation({"tool_1": lambda **arguments: arguments})
    assert talk.perform("call_tool", {"name": "tool_1", "arguments": {"a": [1]}}).text == '{"a": [1]}'


def test_what_a_tool_raises_is_the_authors() -> None:
    def broken(name: str, arguments: dict[str, object]) -> str:
        raise KeyError(name)

    with pytest.raises(KeyError):
        conversation(broken).perform("tool_1", {})


async def test_an_asynchronous_tool_is_awaited_in_the_async_form_and_refused_in_the_other() -> None:
    async def run(name: str, arguments: dict[str, object]) -> str:
        return f"ran {name}"

    assert (await conversation(run).perform_async("tool_1", "{}")).text == "ran tool_1"
    with pytest.raises(BadRequest, match="asynchronous"):
        conversation(run).perform("tool_1", "{}")


async def test_a_search_and_a_wrong_name_are_answered_without_running_anything() -> None:
    def never(name: str, arguments: dict[str, object]) -> str:
        raise AssertionError(name)

    found = await conversation(never).perform_async("tool_search", {"query": "tool_1"})
    assert found.found is not None
    assert conversation(never).perform("call_tool", {"name": "tool_99"}).is_error
