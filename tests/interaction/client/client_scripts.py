"""What the scripted model does in every adapter's test: find a deferred tool, read its schema, call it, report.

The tools are twenty small ones of which `book_table` is wanted; the script checks at each step what it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from client_fake_provider import Ask, Move, Say, Script, Seen

NAMES = [
    *("read_mail", "send_mail", "archive_mail", "list_events", "create_event", "cancel_event", "book_table"),
    *("cancel_table", "find_restaurant", "get_weather", "get_forecast", "convert_money", "get_stock", "translate"),
    *("set_alarm", "play_music", "pause_music", "find_flight", "book_flight", "write_note"),
]
TARGET = "book_table"
ARGUMENTS = {"place": "Maaemo", "guests": 4}
RESULT = "booked Maaemo for 4"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "description": "Where."},
        "guests": {"type": "integer", "description": "How many."},
    },
    "required": ["place", "guests"],
}


def describe(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()} for the person who asks."


def run(name: str, arguments: dict[str, Any]) -> str:
    assert name == TARGET, f"the wrong tool was run: {name}"
    return f"booked {arguments['place']} for {arguments['guests']}"


def functions() -> dict[str, Callable[..., str]]:
    """The twenty tools as plain functions, for frameworks that read signatures."""

    def named(name: str) -> Callable[..., str]:
        def function(place: str, guests: int) -> str:
            return run(name, {"place": place, "guests": guests})

        function.__name__ = function.__qualname__ = name
        function.__doc__ = describe(name)
        return function

    return {name: named(name) for name in NAMES}


@dataclass
class FindThenCall:
    """The model's part of one conversation, in either mode. `conversations` may follow one another."""

    mode: str
    query: str = TARGET
    steps: list[str] = field(default_factory=list[str])
    first_list: str = ""

    def __call__(self, seen: Seen) -> Move:
        step = (self._search, self._call, self._report)[min(len(seen.results), 2)]
        self.steps.append(step.__name__)
        return step(seen)

    def _search(self, seen: Seen) -> Move:
        self.first_list = seen.wire_tools
        assert "tool_search" in seen.tools
        assert "query" in seen.parameters("tool_search")
        assert "`tool_search`" in seen.system
        if self.mode == "reveal":
            assert set(seen.tools) == {*NAMES, "tool_search"}
            assert seen.parameters(TARGET) == set()
            assert seen.tools[TARGET]["description"] == describe(TARGET)
        else:
            assert set(seen.tools) == {"tool_search", "call_tool"}
        return Ask("tool_search", {"query": self.query})

    def _call(self, seen: Seen) -> Move:
        found = json.loads(seen.results[0])["tools"]
        assert found[0]["name"] == TARGET
        assert set(found[0]["inputSchema"]["properties"]) == set(ARGUMENTS)
        if self.mode == "reveal":
            assert seen.parameters(TARGET) == set(ARGUMENTS)
            assert seen.parameters("cancel_table") == set()
            return Ask(TARGET, ARGUMENTS)
        assert seen.wire_tools == self.first_list, "a bridge's list never changes"
        return Ask("call_tool", {"name": TARGET, "arguments": ARGUMENTS})

    def _report(self, seen: Seen) -> Move:
        return Say(f"done: {seen.results[1]}")

    @property
    def is_complete(self) -> bool:
        return self.steps == ["_search", "_call", "_report"]


def impatient(seen: Seen) -> Move:
    """A model that calls a tool it has not loaded; the provider must object."""
    return Ask(TARGET, ARGUMENTS) if not seen.results else Say("never")


def silent(seen: Seen) -> Move:
    return Say("nothing to do")


SCRIPTS: dict[str, Script] = {"impatient": impatient, "silent": silent}
