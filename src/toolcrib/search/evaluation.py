"""How good is the ranking? Runs any searcher over a folder of tools and labelled queries and says it in numbers.

A folder holds `tools.jsonl.gz` ({set, id, name, server?, description, input_schema?}), `queries.jsonl.gz` ({set, query,
gold: [ids]}) and optionally `pool.jsonl.gz`, tools without queries that only distract. It knows no model and prints
nothing; rivals to measure beside ours are in `baselines`.
"""

import gzip
import json
import math
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from toolcrib.search.dense import Encoder, VectorCache
from toolcrib.search.documents import ToolDefinition
from toolcrib.search.engine import ToolIndex

Corpus = Literal["own", "pool", "merged", "full"]
DEPTH = 10


class Searcher(Protocol):
    """Anything that ranks tool ids for a query."""

    def search(self, query: str, limit: int) -> Sequence[str]: ...


Build = Callable[[Sequence[ToolDefinition]], Searcher]


@dataclass(frozen=True, slots=True)
class Question:
    """A query and the tools that its annotators would use."""

    set: str
    query: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a report: shares between 0 and 1, times in milliseconds."""

    hit_at_1: float
    recall_at_5: float
    recall_at_10: float
    ndcg_at_10: float
    complete_at_5: float
    complete_at_10: float
    mrr: float
    p50_ms: float
    p95_ms: float
    tools: int
    queries: int
    build_s: float


@dataclass(frozen=True, slots=True)
class Dataset:
    """A folder in memory."""

    tools: Sequence[ToolDefinition]
    pool: Sequence[ToolDefinition]
    questions: Sequence[Question]

    @classmethod
    def read(cls, folder: str | Path) -> "Dataset":
        """Reads the folder; a missing pool is an empty one."""
        at = Path(folder)
        pool = at / "pool.jsonl.gz"
        return cls(
            list(_lines(at / "tools.jsonl.gz")),
            list(_lines(pool)) if pool.exists() else [],
            [Question(row["set"], row["query"], frozenset(row["gold"])) for row in _lines(at / "queries.jsonl.gz")],
        )

    def capped(self, cap: int) -> "Dataset":
        """At most `cap` questions per set, always the same ones; 0 keeps all."""
        if not cap:
            return self
        kept: list[Question] = []
        for name in self.sets:
            asked = [question for question in self.questions if question.set == name]
            kept += random.Random(7).sample(asked, cap) if len(asked) > cap else asked  # noqa: S311
        return Dataset(self.tools, self.pool, kept)

    @property
    def sets(self) -> list[str]:
        """The sets that have questions, in their order."""
        return list(dict.fromkeys(question.set for question in self.questions))

    def corpora(self, mode: Corpus) -> Iterator[tuple[list[ToolDefinition], list[Question]]]:
        """Which tools each group of questions is asked over, copies collapsed and gold ids following."""
        extra = self.pool if mode in ("pool", "full") else ()
        if mode in ("own", "pool"):
            for name in self.sets:
                own = [tool for tool in self.tools if tool["set"] == name]
                yield _collapsed([*own, *extra], [question for question in self.questions if question.set == name])
        else:
            yield _collapsed([*self.tools, *extra], self.questions)


class EngineSearcher:
    """Our engine behind ids; tools that share a name get a mark that search does not read."""

    def __init__(self, tools: Sequence[ToolDefinition], encoder: Encoder | None, cache: VectorCache | None) -> None:
        self._ids: dict[str, str] = {}
        for tool in tools:
            name = str(tool["name"])
            while name in self._ids:
                name += "~"
            self._ids[name] = str(tool["id"])
        renamed = ({**tool, "name": name} for tool, name in zip(tools, self._ids, strict=True))
        self.index = ToolIndex.build(renamed, encoder=encoder, cache=cache)

    def search(self, query: str, limit: int) -> list[str]:
        """Ids, best first."""
        return [self._ids[hit.name] for hit in self.index.search(query, limit)]


def engine(encoder: Encoder | None = None, cache: VectorCache | None = None) -> Build:
    """Builds our engine with this encoder, or the best installed."""
    return lambda tools: EngineSearcher(tools, encoder, cache)


def evaluate(build: Build, data: Dataset, corpus: Corpus = "own") -> dict[str, Row]:
    """A row per set, in order."""
    rows: dict[str, Row] = {}
    for tools, questions in data.corpora(corpus):
        start = time.perf_counter()
        searcher = build(tools)
        build_s = time.perf_counter() - start
        searcher.search(questions[0].query, DEPTH)
        for name in dict.fromkeys(question.set for question in questions):
            asked = [question for question in questions if question.set == name]
            rows[name] = _row(searcher, asked, len(tools), build_s)
    return rows


def macro(rows: Iterable[Row]) -> Row:
    """The plain mean over sets, whatever their size; tools and queries are summed."""
    each = list(rows)
    mean: dict[str, Any] = {f.name: float(np.mean([getattr(row, f.name) for row in each])) for f in fields(Row)}
    counts = {"tools": sum(row.tools for row in each), "queries": sum(row.queries for row in each)}
    return Row(**{**mean, **counts})


def judge(ranked: Sequence[str], gold: frozenset[str]) -> tuple[float, ...]:
    """hit@1, recall@5, recall@10, nDCG@10, completeness@5, completeness@10 and reciprocal rank of one answer."""
    hits = [place for place, found in enumerate(ranked[:DEPTH]) if found in gold]
    ideal = sum(1 / math.log2(place + 2) for place in range(min(DEPTH, len(gold))))
    gain = sum(1 / math.log2(place + 2) for place in hits) / ideal
    at_5, at_10 = sum(place < 5 for place in hits) / len(gold), len(hits) / len(gold)
    first = 1 / (hits[0] + 1) if hits else 0.0
    return float(hits[:1] == [0]), at_5, at_10, gain, float(at_5 == 1), float(at_10 == 1), first


def _row(searcher: Searcher, questions: Sequence[Question], tools: int, build_s: float) -> Row:
    marks: list[tuple[float, ...]] = []
    times_ms: list[float] = []
    for question in questions:
        start = time.perf_counter()
        ranked = searcher.search(question.query, DEPTH)
        times_ms.append((time.perf_counter() - start) * 1e3)
        marks.append(judge(ranked, question.gold))
    hit, at_5, at_10, gain, complete_5, complete_10, first = np.mean(marks, axis=0).tolist()
    p50, p95 = np.percentile(times_ms, [50, 95]).tolist()
    return Row(
        hit, at_5, at_10, gain, complete_5, complete_10, first, p50, p95, tools, len(questions), round(build_s, 3)
    )


def _collapsed(
    tools: Sequence[ToolDefinition], questions: Sequence[Question]
) -> tuple[list[ToolDefinition], list[Question]]:
    """Tools with the same name and description, but for case and punctuation, count as one."""
    first: dict[tuple[str, str], str] = {}
    same: dict[str, str] = {}
    kept: list[ToolDefinition] = []
    for tool in tools:
        key = (_letters(tool["name"]), _letters(tool.get("description", "")))
        if key not in first:
            first[key] = tool["id"]
            kept.append(tool)
        same[tool["id"]] = first[key]
    return kept, [Question(q.set, q.query, frozenset(same[gold] for gold in q.gold)) for q in questions]


def _letters(text: str) -> str:
    return re.sub(r"[^0-9a-z\u0080-\uffff]+", "", text.lower())


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)
