"""What every adapter takes, once: the options of `DeferredTools`, and a tool list that may change between turns.

It does not know any provider or framework.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypedDict

from toolcrib.client.deferral import DEFAULT_MAX_SESSIONS, DEFAULT_THRESHOLD, DeferredTools, Mode, Turn
from toolcrib.client.ranking import RankingName
from toolcrib.client.tool import DeferrablePolicy, Tool, read_tools


class DeferralOptions(TypedDict, total=False):
    threshold: int
    never_defer: Iterable[str]
    mode: Mode
    ranking: RankingName
    max_sessions: int
    policies: Mapping[str, DeferrablePolicy]  # by tool name, where the tool's own form has no place for one


class LiveTools:
    """Deferred tools over a list the framework owns and may change or filter from turn to turn.

    Everything seen is one catalogue, so the index is built once; each turn sees only its own list of it.
    """

    def __init__(self, options: DeferralOptions) -> None:
        self._policies = options.get("policies", {})
        self._seen: dict[str, Tool] = {}
        self._deferred = DeferredTools(
            (),
            options.get("threshold", DEFAULT_THRESHOLD),
            options.get("never_defer", ()),
            options.get("mode", "reveal"),
            options.get("ranking", "engine"),
            options.get("max_sessions", DEFAULT_MAX_SESSIONS),
        )

    @property
    def max_sessions(self) -> int:
        return self._deferred.revealed.max_sessions

    def turn(self, session: Hashable, tools: Iterable[Tool | Mapping[str, object]]) -> Turn:
        """The turn of a session that is given these tools."""
        given = {tool.name: self._with_policy(tool) for tool in read_tools(tools)}
        self._seen |= given
        self._deferred = self._deferred.with_tools(self._seen.values())
        return self._deferred.turn(session, None if len(given) == len(self._seen) else given.keys())

    def turn_of(self, session: Hashable, visible: Collection[str]) -> Turn:
        """The turn of a session whose tools were seen before."""
        return self._deferred.turn(session, visible)

    def _with_policy(self, tool: Tool) -> Tool:
        return replace(tool, deferrable=self._policies.get(tool.name, tool.deferrable))


def deferred_tools(tools: Iterable[Tool | Mapping[str, object]], options: DeferralOptions) -> DeferredTools:
    return LiveTools(options).turn(None, tools).deferred


def sendable(tool: Mapping[str, object]) -> dict[str, object]:
    """A wire tool without the keys only we read, which a provider would refuse."""
    return {key: value for key, value in tool.items() if key not in ("deferrable", "server")}
