"""A tool is found by its name however the name is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.search import ToolIndex, WordsOnly
from toolcrib.search.names import Directory

NAMES = ["github.create_issue", "github.list_issues", "slack.send_message", "files.readFile", "jira.create_issue"]


@pytest.fixture(scope="module")
def index() -> ToolIndex:
    noise = [
        {"name": f"noise.tool_{i}", "description": "create issue read file send message github " * 20}
        for i in range(50)
    ]
    tools = [{"name": name, "description": "something else entirely"} for name in NAMES]
    return ToolIndex.build([*noise, *tools], encoder=WordsOnly())


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("slack.send_message", "slack.send_message"),
        ("slack___send_message", "slack.send_message"),
        ("slack__send_message", "slack.send_message"),
        ("slack_send_message", "slack.send_message"),
        ("send_message", "slack.send_message"),
        ("mcp__slack__send_message", "slack.send_message"),
        ("other.send_message", "slack.send_message"),
        ("`send_message`", "slack.send_message"),
        ('"SLACK.SEND_MESSAGE"', "slack.send_message"),
        ("  'Send-Message'.", "slack.send_message"),
        ("send message", "slack.send_message"),
        ("sendMessage", "slack.send_message"),
        ("sned_message", "slack.send_message"),
        ("send_mesage", "slack.send_message"),
        ("send_messages", "slack.send_message"),
        ("read_file", "files.readFile"),
        ("github/create_issue", "github.create_issue"),
    ],
)
def test_a_named_tool_comes_first(index: ToolIndex, query: str, name: str) -> None:
    assert index.search(query, 3)[0].name == name


def test_a_bare_name_of_two_sources_brings_both_first(index: ToolIndex) -> None:
    found = [hit.name for hit in index.search("create_issue", 2)]
    assert sorted(found) == ["github.create_issue", "jira.create_issue"]


def test_a_name_match_says_so(index: ToolIndex) -> None:
    assert index.search("create_issue")[0].explain().signals["name"] > 0


def test_near_names_answer_an_unknown_name(index: ToolIndex) -> None:
    assert index.near_names("github.create_isues", 2)[0] == "github.create_issue"
    assert "slack.send_message" in index.near_names("post_message")
    assert index.near_names("zzzzqqqq") == []


def test_near_names_keep_hidden_tools_hidden(index: ToolIndex) -> None:
    seen = index.only(lambda name: not name.startswith("github."))
    assert "github.create_issue" not in seen.near_names("create_issue", 10)


@given(st.lists(st.from_regex(r"[a-z]{2,8}(\.|__|_)[a-z]{3,9}", fullmatch=True), unique=True, min_size=1, max_size=12))
def test_every_name_is_named_by_itself_and_by_nothing_once_removed(names: list[str]) -> None:
    directory = Directory.build((name, "") for name in names)
    for name in names:
        assert name in directory.named(name)
        assert name not in directory.changed((), [name]).named(name)
