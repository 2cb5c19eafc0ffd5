"""The options every adapter takes, once: those of `DeferredTools`, spelled for keyword arguments.

It does not know any provider or framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from toolcrib.client.deferral import DeferredTools, Mode
from toolcrib.client.ranking import RankingName
from toolcrib.client.tool import Tool


class DeferralOptions(TypedDict, total=False):
    threshold: int
    never_defer: Iterable[str]
    mode: Mode
    ranking: RankingName
    max_sessions: int


def deferred_tools(tools: Iterable[Tool | Mapping[str, object]], options: DeferralOptions) -> DeferredTools:
    return DeferredTools(tools, **options)


def sendable(tool: Mapping[str, object]) -> dict[str, object]:
    """A wire tool without the keys only we read, which a provider would refuse."""
    return {key: value for key, value in tool.items() if key not in ("deferrable", "server")}
