"""The seed's benchmark on bytes, and the token bill of a conversation."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from toolcrib.cli.tokens import tokens as command
from toolcrib.client import DeferredTools, tokens
from toolcrib.client.finder import search_tool
from toolcrib.errors import BadSettings, InvalidPayload


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def listed(surface: Any, **options: Any) -> list[dict[str, Any]]:
    return [tool.as_mcp() for tool in DeferredTools(surface, **options).turn("s").listed()]


def schema_bytes(tools: list[dict[str, Any]]) -> int:
    return sum(size(tool["inputSchema"]) for tool in tools)


@pytest.fixture
def full(surface: Any) -> list[dict[str, Any]]:
    return [*surface, search_tool().as_mcp()]


def test_the_surface_has_the_seeds_size(full: list[dict[str, Any]]) -> None:
    assert len(full) == 19
    assert 11_000 <= size(full) <= 12_500
    assert 7_800 <= schema_bytes(full) <= 8_800


def test_the_first_list_is_smaller_than_the_seeds_by_its_own_measure(surface: Any, full: list[dict[str, Any]]) -> None:
    stubs = listed(surface)
    assert size(stubs) <= size(full) * 0.61
    assert schema_bytes(stubs) <= schema_bytes(full) * 0.45


def test_a_bridge_saves_four_fifths_with_its_own_tools_and_the_note_counted(
    surface: Any, full: list[dict[str, Any]]
) -> None:
    bridge = DeferredTools(surface, mode="bridge")
    assert size([tool.as_mcp() for tool in bridge.turn("s").listed()]) + len(bridge.note) <= size(full) * 0.20


def test_eighteen_of_nineteen_are_deferred(surface: Any) -> None:
    assert sum(tool.is_stub for tool in DeferredTools(surface).turn("s").listed()) == 18


def test_the_bill_counts_search_answers_and_what_the_cache_loses(surface: Any) -> None:
    bill = tokens(surface, turns=10, loads=3)
    full, reveal, bridge, hosted = (bill.of(way) for way in ("full", "reveal", "bridge", "hosted"))
    assert hosted.total < bridge.total < reveal.total < full.total
    # every turn's request extends the one before, so each token is billed in full once
    assert full.uncached == full.last_turn
    assert bridge.uncached == bridge.last_turn
    # a reveal changes the list, so what follows is billed again
    assert reveal.uncached > reveal.last_turn


def test_without_loads_the_reveal_list_is_as_stable_as_the_others(surface: Any) -> None:
    reveal = tokens(surface, loads=0).of("reveal")
    assert reveal.uncached == reveal.last_turn


def test_a_vocabulary_counts_when_it_is_installed(surface: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = SimpleNamespace(encode_ordinary=lambda text: text.split())
    monkeypatch.setitem(sys.modules, "bpe_openai", SimpleNamespace(get_encoding=lambda name: encoding))
    bill = tokens(surface, counter="bpe", turns=1, turn_tokens=0)
    assert bill.of("hosted").first_turn == 1 + len(DeferredTools(surface, mode="bridge").note.split())


def test_a_missing_vocabulary_is_said_and_never_fetched(surface: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    with pytest.raises(BadSettings, match="vocabulary"):
        tokens(surface, counter="bpe")


def test_the_command_prints_a_table_and_json(surface: Any) -> None:
    table = CliRunner().invoke(command, ["-", "--turns", "5"], input=json.dumps({"tools": surface}))
    assert table.exit_code == 0
    assert [line.split()[0] for line in table.output.splitlines()[2:]] == ["full", "reveal", "bridge", "hosted"]
    printed = CliRunner().invoke(command, ["-", "--json"], input=json.dumps(surface))
    assert json.loads(printed.output)["ways"][0]["way"] == "full"


@pytest.mark.parametrize("text", ["nonsense", '{"tool": []}', "[1]"])
def test_the_command_refuses_what_holds_no_tools(text: str) -> None:
    result = CliRunner().invoke(command, ["-"], input=text)
    assert isinstance(result.exception, InvalidPayload)
