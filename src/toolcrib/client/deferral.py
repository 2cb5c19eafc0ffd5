"""DeferredTools: an agent's tools with their parameter schemas held back until the model asks.

Here are the policy, the threshold, the stubs and the reveals of seed 002, and the bridge whose tool list never
changes. It does not know any provider's or framework's form of a tool (`adapters`), and it executes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Self, get_args

from toolcrib.client.finder import (
    CALL,
    NOTE,
    SEARCH,
    Call,
    Found,
    browse,
    call_tool,
    nothing_found,
    read_arguments,
    read_call,
    search_tool,
)
from toolcrib.client.ranking import RankingName, ranking_named
from toolcrib.client.sessions import SessionNames
from toolcrib.client.tool import DeferrablePolicy, Tool, read_tools
from toolcrib.errors import InvalidPayload, NotFound

Mode = Literal["reveal", "bridge"]

DEFAULT_THRESHOLD = 15
DEFAULT_MAX_SESSIONS = 4096


class DeferredTools:
    """The tools of one agent, shared by all its sessions. Frozen but for the reveals, which are kept per session."""

    def __init__(
        self,
        tools: Iterable[Tool | Mapping[str, object]],
        threshold: int = DEFAULT_THRESHOLD,
        never_defer: Iterable[str] = (),
        mode: Mode = "reveal",
        ranking: RankingName = "engine",
        max_sessions: int = DEFAULT_MAX_SESSIONS,
    ) -> None:
        if mode not in get_args(Mode):
            raise InvalidPayload(f"unknown mode {mode!r}", param="mode", hint='Use "reveal" or "bridge".')
        self.tools = read_tools(tools)
        self.mode: Mode = mode
        self.revealed = SessionNames(max_sessions)
        self._threshold = threshold
        self._never_defer = frozenset(never_defer)
        self._ranking_name: RankingName = ranking
        self._by_name = {tool.name: tool for tool in self.tools}
        self._ranking = ranking_named(ranking, self.tools)
        self._deferred = self._choose_deferred()

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, object] | str,
        tools: Iterable[Tool | Mapping[str, object]],
        *,
        never_defer: Iterable[str] = (),
    ) -> Self:
        """Take the seed's capability configuration, as JSON text or a mapping; `never_defer` is merged with its own.

        Without the `tool_search` capability nothing is deferred.
        """
        from toolcrib.client.config import read_config  # brings msgspec, which most agents never need here

        own = read_tools(tools)
        options = read_config(config)
        if options is None:
            return cls(own, never_defer=[tool.name for tool in own])
        allowed = {*never_defer, *options.never_defer}
        return cls(own, options.threshold, allowed, options.mode, options.ranking, options.max_sessions)

    def with_tools(self, tools: Iterable[Tool | Mapping[str, object]]) -> Self:
        """The same options and reveals over another tool list; self when the list is the same."""
        changed = read_tools(tools)
        if changed == self.tools:
            return self
        size = self.revealed.max_sessions
        other = type(self)(changed, self._threshold, self._never_defer, self.mode, self._ranking_name, size)
        other.revealed = self.revealed
        return other

    def _choose_deferred(self) -> frozenset[str]:
        # A list that brings its own tool_search (a toolbox with search) is already deferred; ours would shadow it.
        if SEARCH in self._by_name or (self.mode == "bridge" and CALL in self._by_name):
            return frozenset()
        return frozenset(tool.name for tool in self.tools if self._holds_back(tool))

    def _holds_back(self, tool: Tool) -> bool:
        if tool.name in self._never_defer or (tool.is_watched and self.mode == "bridge"):
            return False
        if tool.deferrable is DeferrablePolicy.ALWAYS:
            return True
        return tool.deferrable is DeferrablePolicy.AUTOMATIC and len(self.tools) >= self._threshold

    @property
    def is_active(self) -> bool:
        """Whether anything is held back; when not, the list is sent as it is, without `tool_search`."""
        return bool(self._deferred)

    @property
    def note(self) -> str:
        """The one paragraph for the system prompt; empty when nothing is held back, here or by a toolbox."""
        if self.is_active:
            return NOTE[self.mode]
        return NOTE["bridge"] if SEARCH in self._by_name and CALL in self._by_name else ""

    def is_deferrable(self, name: str) -> bool:
        return name in self._deferred

    def get(self, name: str) -> Tool | None:
        return self._by_name.get(name)

    def turn(self, session: Hashable, visible: Collection[str] | None = None) -> Turn:
        """One session's turn. `visible` is the turn's allowlist of tool names; None means all of them."""
        return Turn(self, session, None if visible is None else frozenset(visible))

    def rank(self, query: str, visible: Collection[str] | None) -> list[Tool]:
        return self._ranking.rank(query, visible)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one session sees in one turn, and what its calls mean."""

    deferred: DeferredTools
    session: Hashable
    visible: frozenset[str] | None

    def listed(self, *, can_search: bool = True, forced: str | None = None) -> list[Tool]:
        """The tools to advertise, in the author's order, ours last.

        A tool no loader could reach is sent whole: all of them when the turn cannot call `tool_search`, and the one
        a forced tool choice names.
        """
        tools = self.tools()
        held = {tool.name for tool in tools if self.deferred.is_deferrable(tool.name) and tool.name != forced}
        if not held or not can_search:
            return tools
        if self.deferred.mode == "bridge":
            hidden = [tool.name for tool in tools if tool.name in held]
            return [*(tool for tool in tools if tool.name not in held), search_tool(hidden), call_tool()]
        held -= self.deferred.revealed.of(self.session)
        return [*(tool.stub() if tool.name in held else tool for tool in tools), search_tool()]

    def tools(self) -> list[Tool]:
        """The agent's own tools this turn may use, whole."""
        return [tool for tool in self.deferred.tools if self.visible is None or tool.name in self.visible]

    def search(self, query: str) -> Found:
        """Find tools among those visible this turn, and reveal what is found for the rest of the session."""
        if not query.strip():
            return browse([tool.name for tool in self.tools()])
        tools = self.deferred.rank(query, self.visible)
        if not tools:
            return nothing_found(query, [tool.name for tool in self.tools()])
        if self.deferred.mode == "reveal":
            self.deferred.revealed.add(self.session, (tool.name for tool in tools))
        return Found(tuple(tools))

    def route(self, name: str, arguments: object) -> Found | Call:
        """What a call the model made means: an answer from us, or a call of one of the agent's own tools."""
        given = read_arguments(arguments)
        if self.deferred.is_active and name == SEARCH:
            return self.search(str(given.get("query") or ""))
        is_bridged = self.deferred.is_active and name == CALL and self.deferred.get(CALL) is None
        call = read_call(given) if is_bridged else Call(name, given)
        if self.deferred.get(call.name) is None or not self.can_use(call.name):
            raise NotFound(
                f"no tool is named {call.name!r}" if call.name else "the call names no tool",
                param="name",
                hint=f"Call {SEARCH} to see what is available.",
            )
        return call

    def can_use(self, name: str) -> bool:
        return self.visible is None or name in self.visible
