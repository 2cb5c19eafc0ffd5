"""Rivals to measure beside our engine: the seed's keyword rule, FastMCP's BM25 and plain bm25s.

The last two come from their own packages and are absent where those are not installed; nothing of them is copied here.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from toolcrib.search.documents import ToolDefinition
from toolcrib.search.evaluation import Build, Searcher

_QUOTES = "\"'`“”‘’.,:;!?()[]{}<>"


class KeywordRule:
    """The seed's rule: 3 for a term in the name, 1 if only in the description, +100 for the exact name."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        self._tools = [(tool["id"], tool["name"].lower(), tool.get("description", "").lower()) for tool in tools]

    def search(self, query: str, limit: int) -> list[str]:
        """At most eight ids, none below half of the best score."""
        terms, whole = query.lower().split(), query.lower().strip().strip(_QUOTES)
        scored = [(self._score(name, told, terms, whole), tool_id) for tool_id, name, told in self._tools]
        best = max((score for score, _ in scored), default=0)
        band = [(score, tool_id) for score, tool_id in scored if score and 2 * score >= best]
        return [tool_id for _, tool_id in sorted(band, key=lambda pair: -pair[0])[: min(8, limit)]]

    @staticmethod
    def _score(name: str, told: str, terms: Sequence[str], whole: str) -> int:
        score = 100 if name == whole else 0
        return score + sum(3 if term in name else 1 if term in told else 0 for term in terms)


class FastMCPSearch:
    """FastMCP's search transform: its tokeniser, its BM25, its document text."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        module: Any = importlib.import_module("fastmcp.server.transforms.search.bm25")
        self._ids = [tool["id"] for tool in tools]
        self._ranker = module._BM25Index()
        self._ranker.build([module._extract_searchable_text(_as_fastmcp(tool)) for tool in tools])

    def search(self, query: str, limit: int) -> list[str]:
        """Ids, best first."""
        return [self._ids[i] for i in self._ranker.query(query, limit)]


class Bm25s:
    """The bm25s package with its English stop words and Snowball stemmer, over name and description."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        self._bm25s: Any = importlib.import_module("bm25s")
        self._stemmer: Any = importlib.import_module("Stemmer").Stemmer("english")
        self._ids = [tool["id"] for tool in tools]
        self._ranker = self._bm25s.BM25()
        self._ranker.index(
            self._tokens([f"{t['name']} {t.get('description', '')}" for t in tools]), show_progress=False
        )

    def search(self, query: str, limit: int) -> list[str]:
        """Ids, best first."""
        found, scores = self._ranker.retrieve(self._tokens([query]), k=min(limit, len(self._ids)), show_progress=False)
        return [self._ids[i] for i, score in zip(found[0], scores[0], strict=True) if score > 0]

    def _tokens(self, texts: list[str]) -> Any:
        return self._bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)


def installed() -> dict[str, Build]:
    """The baselines that can run here, by name."""
    found: dict[str, Build] = {"keyword rule": KeywordRule}
    needs: Mapping[str, tuple[tuple[str, ...], Callable[[Sequence[ToolDefinition]], Searcher]]] = {
        "fastmcp bm25": (("fastmcp",), FastMCPSearch),
        "bm25s": (("bm25s", "Stemmer"), Bm25s),
    }
    for name, (packages, build) in needs.items():
        if all(find_spec(package) for package in packages):
            found[name] = build
    return found


def _as_fastmcp(tool: ToolDefinition) -> SimpleNamespace:
    """The three attributes that FastMCP reads of a tool."""
    schema: Any = tool.get("inputSchema") or tool.get("input_schema")
    return SimpleNamespace(name=tool["name"], description=tool.get("description", ""), parameters=schema or {})
