"""The numbers of an evaluation are worked out by hand here."""

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from toolcrib.search import WordsOnly
from toolcrib.search.baselines import KeywordRule, installed
from toolcrib.search.evaluation import Dataset, engine, evaluate, judge, macro

TOOLS = [
    {"set": "a", "id": "a/1", "name": "read_file", "description": "Read a file"},
    {"set": "a", "id": "a/2", "name": "send_mail", "description": "Send a mail"},
    {"set": "a", "id": "a/3", "name": "read_file", "description": "Load text from a disk"},
    {"set": "b", "id": "b/1", "name": "Read-File", "description": "read a file."},
]
QUERIES = [
    {"set": "a", "query": "read a file", "gold": ["a/1"]},
    {"set": "a", "query": "send mail", "gold": ["a/2"]},
    {"set": "b", "query": "read file", "gold": ["b/1"]},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pool = [{"set": "p", "id": "p/1", "name": "paint", "description": "Paint a wall"}]
    for name, rows in {"tools": TOOLS, "queries": QUERIES, "pool": pool}.items():
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return tmp_path


def test_one_answer_is_judged_by_hand() -> None:
    hit, at_5, at_10, gain, whole_5, whole_10, first = judge(["x", "g", *"abcd", "h"], frozenset("gh"))
    assert (hit, at_5, at_10, whole_5, whole_10, first) == (0, 0.5, 1, 0, 1, 0.5)
    assert gain == pytest.approx((1 / math.log2(3) + 1 / math.log2(8)) / (1 + 1 / math.log2(3)))


def test_corpora_hold_what_their_name_says(folder: Path) -> None:
    data = Dataset.read(folder)
    sizes = {mode: [len(tools) for tools, _ in data.corpora(mode)] for mode in ("own", "pool", "merged", "full")}
    assert sizes == {"own": [3, 1], "pool": [4, 2], "merged": [3], "full": [4]}


def test_a_collapsed_copy_counts_as_the_tool_it_copies(folder: Path) -> None:
    ((_, questions),) = Dataset.read(folder).corpora("merged")
    assert questions[-1].gold == {"a/1"}


def test_the_engine_is_measured_per_set_and_over_sets(folder: Path) -> None:
    rows = evaluate(engine(WordsOnly()), Dataset.read(folder), "full")
    assert list(rows) == ["a", "b"]
    assert (rows["a"].hit_at_1, rows["a"].tools, rows["a"].queries) == (1, 4, 2)
    assert macro(rows.values()).queries == 3


def test_macro_weighs_sets_alike(folder: Path) -> None:
    class Blind:
        def search(self, query: str, limit: int) -> Sequence[str]:
            return ["b/1"]

    rows = evaluate(lambda _: Blind(), Dataset.read(folder), "own")
    assert macro(rows.values()).hit_at_1 == 0.5


def test_a_cap_takes_the_same_questions_each_time(folder: Path) -> None:
    data = Dataset.read(folder)
    assert data.capped(1).questions == data.capped(1).questions
    assert len(data.capped(1).questions) == 2
    assert data.capped(0) is data


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("read", ["r1", "r2"]),  # name hits score 3, a description hit alone 1, below half
        ('"Read_File"', ["r1"]),  # the exact name, quotes off, outscores the rest
        ("mail", ["m"]),
        ("nothing", []),
    ],
)
def test_the_keyword_rule_is_the_seeds(query: str, found: list[str]) -> None:
    tools = [
        {"id": "m", "name": "post", "description": "read or send a mail"},
        {"id": "r1", "name": "read_file", "description": ""},
        {"id": "r2", "name": "read_line", "description": "read"},
    ]
    assert KeywordRule(tools).search(query, 10) == found


def test_the_keyword_rule_answers_eight_at_most() -> None:
    tools = [{"id": str(i), "name": f"read_{i}", "description": ""} for i in range(20)]
    assert len(KeywordRule(tools).search("read", 10)) == 8


def test_every_installed_baseline_finds_the_obvious() -> None:
    rivals = installed()
    assert set(rivals) == {"keyword rule", "fastmcp bm25", "bm25s"}
    tools = [{"id": str(i), "name": f"tool {word}", "description": f"about {word}"}
             for i, word in enumerate(["weather", "mail", "file", "invoice"])]  # fmt: skip
    for build in rivals.values():
        assert build(tools).search("invoice", 3)[0] == "3"
