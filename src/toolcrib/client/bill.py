"""The token bill: what each way of listing tools sends, per turn and over a conversation.

A conversation is played against the real `DeferredTools`: in each of the first turns the model loads one tool, and
every turn adds to the history. Search answers and our own tools are counted, not only the list. It asks no provider:
what one keeps in context for its hosted search is an estimate, the rest is computed.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from toolcrib.client.deferral import DEFAULT_THRESHOLD, DeferredTools, Turn
from toolcrib.client.tool import Tool, read_tools
from toolcrib.errors import BadSettings

Way = Literal["full", "reveal", "bridge", "hosted"]
Counter = Literal["bytes/4", "bpe"]

_HOSTED_SEARCH = '{"type":"tool_search"}'


@dataclass(frozen=True, slots=True)
class WayBill:
    """One way's figures in tokens. `uncached` is what a provider that caches the exact prefix bills in full."""

    way: Way
    list_bytes: int
    first_turn: int
    last_turn: int
    total: int
    uncached: int


@dataclass(frozen=True, slots=True)
class TokenBill:
    counter: Counter
    tools: int
    turns: int
    loads: int
    ways: tuple[WayBill, ...]

    def of(self, way: Way) -> WayBill:
        return next(bill for bill in self.ways if bill.way == way)


def tokens(
    tools: Iterable[Tool | Mapping[str, object]],
    *,
    turns: int = 10,
    loads: int = 3,
    turn_tokens: int = 200,
    threshold: int = DEFAULT_THRESHOLD,
    never_defer: Iterable[str] = (),
    counter: Counter = "bytes/4",
) -> TokenBill:
    """The bill of a conversation of `turns`, in which the model loads `loads` tools, one a turn, and every turn adds
    `turn_tokens` to the history."""
    own, kept = read_tools(tools), tuple(never_defer)
    count = lru_cache(maxsize=None)(bpe_count() if counter == "bpe" else _count_bytes)
    reveal = DeferredTools(own, threshold, kept, "reveal", "keyword")
    bridge = DeferredTools(own, threshold, kept, "bridge", "keyword")
    whole = DeferredTools(own, never_defer=[tool.name for tool in own], ranking="keyword")
    played: dict[Way, list[_Request]] = {
        "full": _play(_listed, whole, turns, 0, turn_tokens),
        "reveal": _play(_listed, reveal, turns, loads, turn_tokens),
        "bridge": _play(_listed, bridge, turns, loads, turn_tokens),
        "hosted": _play(_listed_hosted, bridge, turns, loads, turn_tokens),
    }
    bills = tuple(_bill(way, requests, count) for way, requests in played.items())
    return TokenBill(counter, len(own), turns, loads, bills)


@dataclass(frozen=True, slots=True)
class _Request:
    """The tool list, tool by tool, and what follows it: text to count, or tokens whose text does not matter."""

    tools: tuple[str, ...]
    rest: tuple[str | int, ...]

    @property
    def pieces(self) -> tuple[str | int, ...]:
        return self.tools + self.rest


def _play(
    listing: Callable[[Turn], tuple[str, ...]], deferred: DeferredTools, turns: int, loads: int, turn_tokens: int
) -> list[_Request]:
    """The requests of one conversation, oldest first."""
    turn = deferred.turn("bill")
    wanted = [tool.name for tool in deferred.tools if deferred.is_deferrable(tool.name)][:loads]
    said: tuple[str | int, ...] = (deferred.note,)
    requests: list[_Request] = []
    for number in range(turns):
        said = (*said, turn_tokens)
        requests.append(_Request(listing(turn), said))
        if number < len(wanted):
            said = (*said, _json({"query": wanted[number]}), turn.search(wanted[number]).text)
    return requests


def _listed(turn: Turn) -> tuple[str, ...]:
    return tuple(_json(tool.as_mcp()) for tool in turn.listed())


def _listed_hosted(turn: Turn) -> tuple[str, ...]:
    """What a provider keeps in context: the search, and the tools that are never deferred."""
    kept = (tool for tool in turn.tools() if not turn.deferred.is_deferrable(tool.name))
    return (*(_json(tool.as_mcp()) for tool in kept), _HOSTED_SEARCH)


def _bill(way: Way, requests: Sequence[_Request], count: Callable[[str], int]) -> WayBill:
    def cost(pieces: Iterable[str | int]) -> int:
        return sum(piece if isinstance(piece, int) else count(piece) for piece in pieces)

    sent = [cost(request.pieces) for request in requests]
    earlier = [(), *(request.pieces for request in requests)]
    uncached = sum(cost(_beyond(before, now.pieces)) for before, now in zip(earlier, requests, strict=False))
    list_bytes = len(f"[{','.join(requests[0].tools)}]".encode()) if requests else 0
    first, last = (sent[0], sent[-1]) if sent else (0, 0)
    return WayBill(way, list_bytes, first, last, sum(sent), uncached)


def _beyond(before: Sequence[str | int], now: Sequence[str | int]) -> Sequence[str | int]:
    """What follows the longest prefix the two have in common."""
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    return now[same:]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _count_bytes(text: str) -> int:
    """The seed's rule of thumb for JSON: four bytes a token."""
    return round(len(text.encode()) / 4)


def bpe_count() -> Callable[[str], int]:
    """Counts with the o200k vocabulary that ships inside `bpe-openai`; nothing is fetched."""
    try:
        package: Any = importlib.import_module("bpe_openai")
    except ModuleNotFoundError as error:
        raise BadSettings(
            "counting by BPE needs a vocabulary on this machine", hint="Install it: pip install bpe-openai."
        ) from error
    encoding = package.get_encoding("o200k_base")
    return lambda text: len(encoding.encode_ordinary(text))
