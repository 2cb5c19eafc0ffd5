"""The index as a value: search, change, restrict, save and load."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.search import Document, MemoryCache, ToolIndex, UnreadableIndex, WordsOnly

WORDS = ["issue", "file", "weather", "message", "repository", "calendar", "invoice", "deploy", "user", "search"]


def tool(name: str, description: str = "", **more: object) -> dict[str, object]:
    return {"name": name, "description": description, **more}


TOOLS = [
    tool("github.create_issue", "Open a new issue in a repository"),
    tool("slack.send_message", "Send a message to a channel"),
    tool("weather.forecast", "Weather for the next days", inputSchema={"properties": {"city": {"type": "string"}}}),
    tool("bank.pay", "Settle an invoice", keywords="remit wire transfer"),
    tool("天気", "天気予報を取得する"),
]


class Letters:
    """An encoder that a test can see through: one axis per letter."""

    def __init__(self, model_id: str = "letters") -> None:
        self.model_id = model_id
        self.embedded: list[str] = []

    def embed_query(self, query: str) -> npt.NDArray[np.float32]:
        return self._vector(query)

    def embed_tools(self, tools: Sequence[Document]) -> npt.NDArray[np.float32]:
        self.embedded += [each.name for each in tools]
        return np.stack([self._vector(each.passage()) for each in tools]) if tools else np.empty((0, 26), np.float32)

    @staticmethod
    def _vector(text: str) -> npt.NDArray[np.float32]:
        counts = np.array([text.lower().count(chr(97 + i)) for i in range(26)], np.float32)
        return counts / max(float(np.linalg.norm(counts)), 1e-9)


@pytest.fixture
def index() -> ToolIndex:
    return ToolIndex.build(TOOLS, encoder=WordsOnly())


def names(index: ToolIndex, query: str, limit: int = 5) -> list[str]:
    return [hit.name for hit in index.search(query, limit)]


def test_words_find_tools_by_every_field(index: ToolIndex) -> None:
    assert names(index, "opening issues")[0] == "github.create_issue"
    assert names(index, "which city")[0] == "weather.forecast"
    assert names(index, "remittance by wire")[0] == "bank.pay"
    assert names(index, "slack")[0] == "slack.send_message"
    assert names(index, "明日の天気予報")[0] == "天気"


def test_a_hit_says_why(index: ToolIndex) -> None:
    why = index.search("send repository messages")[0].explain()
    assert sorted(why.terms) == ["messages", "send"]
    assert why.fields == ("name", "description")
    assert why.signals["words"] == 1.0


def test_nothing_matches_nothing(index: ToolIndex) -> None:
    for query in ("", "   ", "zzzz", "the of and", "\x00\x01", "([.*+?^${}|]"):
        assert index.search(query) == []
    assert index.search("issue", 0) == []
    assert ToolIndex.build([], encoder=WordsOnly()).search("issue") == []


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'a'"):
        ToolIndex.build([tool("a"), tool("b"), tool("a")], encoder=WordsOnly())
    with pytest.raises(ValueError, match="no name"):
        ToolIndex.build([tool("")], encoder=WordsOnly())


def test_a_change_is_a_new_value(index: ToolIndex) -> None:
    changed = index.with_changes([tool("git.tag", "Mark an issue"), tool("bank.pay", "Buy stamps")], ["天気"])
    assert names(changed, "issue") == ["github.create_issue", "git.tag"]
    assert names(changed, "invoice") == []
    assert "天気" not in changed
    assert names(index, "invoice") == ["bank.pay"]
    assert len(index) == 5


def test_rights_come_before_the_best_few(index: ToolIndex) -> None:
    wide = index.with_changes([tool(f"spam.{i}", "issue issue issue") for i in range(20)])
    assert [hit.name for hit in wide.search("issue", 1, allowed={"github.create_issue"})] == ["github.create_issue"]
    assert [hit.score for hit in wide.search("issue", 1, allowed={"github.create_issue"})] == [1.0]
    narrow = wide.only(lambda name: name.startswith("spam."))
    assert all(hit.name.startswith("spam.") for hit in narrow.search("issue github.create_issue", 30))
    assert narrow.search("github repository") == []


def test_only_narrows_what_was_narrowed(index: ToolIndex) -> None:
    assert index.only({"bank.pay"}).only({"slack.send_message"}).search("invoice message") == []


def test_vectors_are_embedded_once_per_content() -> None:
    encoder, cache = Letters(), MemoryCache()
    first = ToolIndex.build(TOOLS, encoder=encoder, cache=cache)
    ToolIndex.build(TOOLS, encoder=encoder, cache=cache)
    first.with_changes([tool("new", "one")], ["天気"])
    assert encoder.embedded == [*(str(each["name"]) for each in TOOLS), "new"]
    assert len(cache) == 6


def test_with_vectors_embeds_only_for_another_model() -> None:
    first, same, other = Letters("one"), Letters("one"), Letters("two")
    index = ToolIndex.build(TOOLS, encoder=first)
    assert index.with_vectors(same).model_id == "one"
    assert same.embedded == []
    assert index.with_vectors(other).model_id == "two"
    assert len(other.embedded) == len(TOOLS)


def test_vectors_find_what_words_miss() -> None:
    index = ToolIndex.build([tool("aaa", "aaaa"), tool("zzz", "zzzz")], encoder=Letters())
    assert names(index, "zz aazzzzzz")[0] == "zzz"


def test_a_saved_index_answers_as_before(tmp_path: Path) -> None:
    encoder = Letters()
    index = ToolIndex.build(TOOLS, encoder=encoder)
    index.save(tmp_path / "index")
    encoder.embedded.clear()
    loaded = ToolIndex.load(tmp_path / "index", encoder=encoder)
    assert encoder.embedded == []
    for query in ("issue", "invoice wire", "天気", "create_issue"):
        assert [(hit.name, hit.score) for hit in loaded.search(query)] == [
            (hit.name, hit.score) for hit in index.search(query)
        ]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_damaged_index_is_refused(tmp_path: Path, index: ToolIndex) -> None:
    path = tmp_path / "index"
    index.save(path)
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:40], b"", b"toolcrib-index 9 x\n", whole.replace(b"issue", b"tissu")):
        path.write_bytes(content)
        with pytest.raises(UnreadableIndex):
            ToolIndex.load(path, encoder=WordsOnly())


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, index: ToolIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"old")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        index.save(path)
    assert [each.name for each in tmp_path.iterdir()] == ["index"]
    assert path.read_bytes() == b"old"


def test_odd_definitions_are_read_as_far_as_they_go() -> None:
    deep: dict[str, object] = {"properties": {}}
    for _ in range(50):
        deep = {"properties": {"child": deep}}
    odd = [
        {"name": "a", "description": None, "inputSchema": []},
        {"name": "b", "inputSchema": {"properties": {"x": True, "y": {"enum": [1, "kelvin"]}}}},
        {"name": "c", "inputSchema": deep},
        {"name": "d", "keywords": ["one", "two"], "description": "\ud800"},
    ]
    index = ToolIndex.build(odd, encoder=WordsOnly())
    assert names(index, "kelvin") == ["b"]
    assert names(index, "two") == ["d"]


def test_stuffing_does_not_pay() -> None:
    stuffed = tool("spam", " ".join(WORDS * 700))
    honest = [tool(f"tool.{word}_{n}", f"Handle one {word} {n}") for word in WORDS for n in ("alpha", "beta", "gamma")]
    index = ToolIndex.build([*honest, stuffed], encoder=WordsOnly())
    for word in WORDS:
        assert "spam" not in names(index, f"handle {word}", 3)


@given(query=st.text(max_size=400), limit=st.integers(-1, 20))
def test_any_query_gets_an_ordered_bounded_answer(query: str, limit: int) -> None:
    index = ToolIndex.build(TOOLS, encoder=Letters())
    scores = [hit.score for hit in index.search(query, limit)]
    assert len(scores) <= max(limit, 0)
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)


@pytest.mark.parametrize("query", ["issue " * 2000, "x" * 10_000, "天気" * 5000, "a\x00" * 5000, "(((((" * 2000])
def test_huge_queries_are_answered(index: ToolIndex, query: str) -> None:
    assert len(index.search(query)) <= 5


definition = st.builds(
    tool,
    st.sampled_from([f"tool_{i}" for i in range(12)]),
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
)


@settings(max_examples=60)
@given(
    start=st.lists(definition, unique_by=lambda each: str(each["name"]), max_size=8),
    added=st.lists(definition, unique_by=lambda each: str(each["name"]), max_size=4),
    removed=st.lists(st.sampled_from([f"tool_{i}" for i in range(12)]), max_size=4),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
)
def test_changing_an_index_equals_building_it_anew(
    start: list[dict[str, object]], added: list[dict[str, object]], removed: list[str], query: str
) -> None:
    changed = ToolIndex.build(start, encoder=Letters()).with_changes(added, removed)
    left = [t for t in start if t["name"] not in {*removed, *(new["name"] for new in added)}]
    fresh = ToolIndex.build([*left, *added], encoder=Letters())
    assert changed.names == fresh.names
    assert [(hit.name, hit.score) for hit in changed.search(query, 20)] == [
        (hit.name, hit.score) for hit in fresh.search(query, 20)
    ]
