"""Ranking a query against the agent's own tools: the seed's rule, or our engine.

Both answer "which of these tools, best first" over one frozen catalogue, restricted to the names visible this turn.
They do not know about sessions, stubs or reveals. The engine is imported at the first search that needs it.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Literal, Protocol

from toolcrib.errors import InvalidPayload

if TYPE_CHECKING:
    from toolcrib.client.tool import Tool
    from toolcrib.search import ToolIndex

RankingName = Literal["engine", "keyword"]

# A search reveals what it returns, so the cap bounds the answer and how much one search can un-defer.
MAX_RESULTS = 8

_NAME_POINTS = 3
_DESCRIPTION_POINTS = 1
_EXACT_NAME_POINTS = 100
_WRAPPING = string.punctuation + string.whitespace


class Ranking(Protocol):
    def rank(self, query: str, visible: Collection[str] | None) -> list[Tool]:
        """The matching tools, best first, at most `MAX_RESULTS`. `visible` is None when every tool is."""
        ...


def ranking_named(name: str, tools: Sequence[Tool]) -> Ranking:
    if name == "keyword":
        return KeywordRanking(tools)
    if name == "engine":
        return EngineRanking(tools)
    raise InvalidPayload(f"unknown ranking {name!r}", param="ranking", hint='Use "engine" or "keyword".')


class KeywordRanking:
    """Seed 002 to the letter: 3 for a term in the name, else 1 in the description, +100 for the exact name, and
    nothing below half of the top score. Ties keep the catalogue's order."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._rows = [(tool, tool.name.lower(), tool.description.lower(), unwrapped(tool.name)) for tool in tools]

    def rank(self, query: str, visible: Collection[str] | None) -> list[Tool]:
        terms = [term for word in query.split() if (term := unwrapped(word))]
        exact = unwrapped(query)
        scored: list[tuple[int, Tool]] = []
        for tool, name, description, bare_name in self._rows:
            if visible is not None and tool.name not in visible:
                continue
            score = _EXACT_NAME_POINTS if exact and exact == bare_name else 0
            for term in terms:
                if term in name:
                    score += _NAME_POINTS
                elif term in description:
                    score += _DESCRIPTION_POINTS
            if score:
                scored.append((score, tool))
        return _top_band(scored)


def _top_band(scored: Sequence[tuple[float, Tool]]) -> list[Tool]:
    """At most `MAX_RESULTS`, and only what scores at least half the top: a loose query must not drag in its tail."""
    best = sorted(scored, key=lambda row: row[0], reverse=True)[:MAX_RESULTS]
    return [tool for score, tool in best if score * 2 >= best[0][0]]


class EngineRanking:
    """The server's engine over the same tools. Naming tools exactly loads just those, without waking the engine."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._by_bare_name = {unwrapped(name): tool for name, tool in self._tools.items()}
        self._index: ToolIndex | None = None
        self._building = Lock()

    def rank(self, query: str, visible: Collection[str] | None) -> list[Tool]:
        named = self._named_exactly(query, visible)
        if named:
            return named[:MAX_RESULTS]
        hits = self.index.search(query, MAX_RESULTS, allowed=visible)
        return _top_band([(hit.score, self._tools[hit.name]) for hit in hits])

    def _named_exactly(self, query: str, visible: Collection[str] | None) -> list[Tool]:
        """The tools a query names, one or several; empty as soon as one word of it is not a visible tool's name."""
        named: dict[str, Tool] = {}
        for word in query.replace(",", " ").split():
            tool = self._by_bare_name.get(unwrapped(word))
            if tool is None or (visible is not None and tool.name not in visible):
                return []
            named[tool.name] = tool
        return list(named.values())

    @property
    def index(self) -> ToolIndex:
        with self._building:
            if self._index is None:
                from toolcrib.search import ToolIndex, quickest

                # An agent waits for this: 5,000 tools take the transformer half a minute, the table half a second.
                self._index = ToolIndex.build([tool.as_mcp() for tool in self._tools.values()], encoder=quickest())
            return self._index


def unwrapped(text: str) -> str:
    """Lower-cased and without quotes, backticks or other punctuation around it."""
    return text.strip(_WRAPPING).lower()
