"""The seed's keyword rule, point by point, and what the engine adds to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.client import Tool
from toolcrib.client.ranking import MAX_RESULTS, EngineRanking, KeywordRanking

TOOLS = [
    Tool("read_file", "Read text from the workspace."),
    Tool("write_file", "Write text to the workspace."),
    Tool("bash", "Run a command; it may read a file."),
    Tool("web_fetch", "Fetch a page from the web."),
]


def names(query: str, visible: Any = None, tools: list[Tool] = TOOLS) -> list[str]:
    return [tool.name for tool in KeywordRanking(tools).rank(query, visible)]


def test_a_term_in_the_name_is_worth_three_in_the_description_one() -> None:
    # read_file: 3 + 3; bash: 1 + 1, below half; write_file: 3, exactly half
    assert names("read file") == ["read_file", "write_file"]


def test_a_term_counts_once_for_a_tool_even_when_name_and_description_hold_it() -> None:
    # write_file has "write" in both: 3, not 4; bash has "command" and "run": 2, above half of 3
    assert names("write command run") == ["write_file", "bash"]


@pytest.mark.parametrize("query", ["read_file", '"read_file"', "`read_file`", " 'READ_FILE'. ", "(read_file)"])
def test_the_exact_name_wins_alone_with_quotes_backticks_or_punctuation_around_it(query: str) -> None:
    assert names(query) == ["read_file"]


def test_only_scores_of_at_least_half_the_top_are_returned() -> None:
    tools = [Tool("alpha_beta"), Tool("alpha"), Tool("other", "alpha")]
    assert names("alpha beta gamma", tools=tools) == ["alpha_beta", "alpha"]


def test_ties_keep_the_authors_order_and_the_cap_is_eight() -> None:
    tools = [Tool(f"file_{number}") for number in range(20)]
    assert names("file", tools=tools) == [f"file_{number}" for number in range(8)]


def test_tools_out_of_sight_neither_match_nor_set_the_top() -> None:
    assert names("read file", visible={"bash", "web_fetch"}) == ["bash"]


def test_nothing_matches_nothing() -> None:
    assert names("zqxj") == []
    assert names("...") == []


@given(st.text(max_size=40))
def test_any_query_is_answered_within_the_cap(query: str) -> None:
    found = names(query)
    assert len(found) <= MAX_RESULTS
    assert len(set(found)) == len(found)


def engine(query: str, visible: Any = None) -> list[str]:
    return [tool.name for tool in EngineRanking(TOOLS).rank(query, visible)]


def test_the_engine_loads_exactly_the_tools_a_query_names() -> None:
    assert engine("`web_fetch`") == ["web_fetch"]
    assert engine("bash, read_file") == ["bash", "read_file"]


def test_naming_tools_does_not_wake_the_engine() -> None:
    ranking = EngineRanking(TOOLS)
    ranking.rank("bash", None)
    assert ranking._index is None


def test_the_engine_ranks_by_meaningful_words_and_within_sight() -> None:
    assert engine("fetch a web page")[0] == "web_fetch"
    assert "web_fetch" not in engine("fetch a web page", visible={"bash", "read_file"})


def test_a_name_out_of_sight_is_not_loaded() -> None:
    assert "bash" not in engine("bash", visible={"read_file"})
