"""The golden queries: what an agent would ask for, over the demo catalogue, must find what its author had in mind.

The floors stand a little below what the engine measures, so that a ranking that got worse fails here and says where.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from toolcrib.demo import catalogue
from toolcrib.search import ToolIndex, WordsOnly

QUERIES = Path(__file__).parents[2] / "golden" / "queries.jsonl"
MIN_TOOLS, MIN_QUERIES = 120, 200
WORST_SHOWN = 25


@dataclass(frozen=True)
class Answer:
    query: str
    gold: frozenset[str]
    found: tuple[str, ...]

    @property
    def hit_at_1(self) -> bool:
        return self.found[:1] != () and self.found[0] in self.gold

    @property
    def recall_at_5(self) -> float:
        return len(self.gold.intersection(self.found[:5])) / min(5, len(self.gold))


def golden() -> Iterator[tuple[str, frozenset[str]]]:
    for line in QUERIES.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["query"], frozenset(row["gold"])


def answers(index: ToolIndex) -> list[Answer]:
    return [Answer(query, gold, tuple(hit.name for hit in index.search(query, limit=10))) for query, gold in golden()]


def gate(asked: list[Answer], hit_at_1: float, recall_at_5: float) -> None:
    """Fails with the figures and the worst queries when either falls below its floor."""
    hit = sum(answer.hit_at_1 for answer in asked) / len(asked)
    recall = sum(answer.recall_at_5 for answer in asked) / len(asked)
    print(f"hit@1 {hit:.3f} (floor {hit_at_1}), recall@5 {recall:.3f} (floor {recall_at_5}), {len(asked)} queries")
    if hit < hit_at_1 or recall < recall_at_5:
        worst = sorted(asked, key=lambda answer: (answer.recall_at_5, answer.hit_at_1))[:WORST_SHOWN]
        lines = [f"  {a.query!r}: wanted {', '.join(sorted(a.gold))}; found {', '.join(a.found[:3])}" for a in worst]
        pytest.fail(f"hit@1 {hit:.3f} < {hit_at_1} or recall@5 {recall:.3f} < {recall_at_5}\n" + "\n".join(lines))


def test_the_golden_queries_ask_for_every_tool_of_a_large_catalogue() -> None:
    names = {tool["name"] for tool in catalogue()}
    asked = list(golden())
    assert len(names) >= MIN_TOOLS
    assert len(asked) >= MIN_QUERIES
    assert len({query for query, _ in asked}) == len(asked)
    assert frozenset().union(*(gold for _, gold in asked)) == names


def test_words_alone_find_most_golden_tools() -> None:
    # Measured: hit@1 0.551, recall@5 0.729 (336 queries, 170 tools).
    gate(answers(ToolIndex.build(catalogue(), encoder=WordsOnly())), hit_at_1=0.53, recall_at_5=0.71)


def test_the_best_installed_model_finds_the_golden_tools() -> None:
    # Measured: hit@1 0.729, recall@5 0.885 (two towers).
    gate(answers(ToolIndex.build(catalogue())), hit_at_1=0.70, recall_at_5=0.86)
