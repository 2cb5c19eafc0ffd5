"""Everything an upstream offers, page by page, within bounds.

Lists that never end, go in circles or grow too large are cut and called partial. Knows no transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from toolcrib import errors
from toolcrib.domain import JsonObject
from toolcrib.protocol import METHOD_NOT_FOUND
from toolcrib.upstreams import messages
from toolcrib.upstreams.upstream import Complete, Limits, Listing, Outcome, Params

MAX_PAGES: Final = 1_000
MAX_TTL_MS: Final = 7 * 24 * 3600 * 1000

Request = Callable[[str, Params, int], Awaitable[Outcome]]
"""Method, params, and how many bytes the answer may have."""

_LISTS: Final = (
    ("tools/list", "tools", "tools"),
    ("resources/list", "resources", "resources"),
    ("resources/templates/list", "resources", "resourceTemplates"),
    ("prompts/list", "prompts", "prompts"),
)


@dataclass(slots=True)
class _Budget:
    bytes_left: int
    items_left: int
    ends_at: float
    partial: str | None = None
    ttls: list[float] = field(default_factory=list[float])


async def collect(request: Request, hello: messages.Hello, limits: Limits, source: str) -> Listing:
    """All lists the upstream declares. What was read before a failure is kept only when the budget ended it."""
    loop = asyncio.get_running_loop()
    budget = _Budget(limits.listing_bytes, limits.listing_items, loop.time() + limits.fetch_s)
    found: dict[str, tuple[JsonObject, ...]] = {}
    for method, capability, key in _LISTS:
        if capability in hello.capabilities or (capability == "tools" and not hello.capabilities):
            found[key] = tuple(await _pages(request, method, key, budget, source))
    return Listing(
        tools=found.get("tools", ()),
        resources=found.get("resources", ()),
        resource_templates=found.get("resourceTemplates", ()),
        prompts=found.get("prompts", ()),
        capabilities=hello.capabilities,
        server_info=hello.server_info,
        instructions=hello.instructions,
        era=hello.era,
        protocol_version=hello.version,
        ttl_s=min(budget.ttls) if budget.ttls else None,
        partial=budget.partial,
    )


async def _pages(request: Request, method: str, key: str, budget: _Budget, source: str) -> list[JsonObject]:
    items: list[JsonObject] = []
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        page = await _page(request, method, cursor, budget, source, first=not items)
        listed: Any = page.get(key) if page is not None else []
        if page is None or not isinstance(listed, list):
            return items
        items += [item for item in cast("list[Any]", listed) if isinstance(item, dict)]
        cursor = page.get("nextCursor")
        if reason := _why_stop(items, cursor, seen, budget):
            budget.partial = budget.partial or f"{method}: {reason}"
            return items[: budget.items_left]
        if not isinstance(cursor, str) or not cursor:
            budget.items_left -= len(items)
            return items
        seen.add(cursor)


def _why_stop(items: list[JsonObject], cursor: object, seen: set[str], budget: _Budget) -> str | None:
    more = isinstance(cursor, str) and cursor != ""
    if len(items) > budget.items_left or (more and len(items) == budget.items_left):
        return f"more than {budget.items_left} items"
    if more and cursor in seen:
        return "its cursors go in circles"
    if more and len(seen) >= MAX_PAGES:
        return f"more than {MAX_PAGES} pages"
    return None


async def _page(
    request: Request, method: str, cursor: str | None, budget: _Budget, source: str, *, first: bool
) -> JsonObject | None:
    """One page; None when the budget is spent, or when the upstream does not know the method."""
    left_s = budget.ends_at - asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(max(left_s, 0.01)):
            outcome = await request(method, {"cursor": cursor} if cursor else {}, budget.bytes_left)
    except (TimeoutError, errors.TimedOut, errors.AnswerTooLarge) as error:
        if first and budget.partial is None and not isinstance(error, errors.AnswerTooLarge):
            raise errors.TimedOut(f"{source!r} did not answer {method} in time.", source=source) from None
        too_large = isinstance(error, errors.AnswerTooLarge)
        budget.partial = budget.partial or f"{method}: {'too many bytes' if too_large else 'took too long'}"
        return None
    except errors.UpstreamRefused as refusal:
        if refusal.rpc_code == METHOD_NOT_FOUND:
            return None
        raise
    if not isinstance(outcome, Complete):
        raise errors.BadAnswer(f"{source!r} wants input before it lists anything.", source=source)
    budget.bytes_left = max(1, budget.bytes_left - len(outcome.result))
    page = messages.read_object(outcome.result, source)
    if isinstance(ttl_ms := page.get("ttlMs"), int | float):
        budget.ttls.append(max(0, min(ttl_ms, MAX_TTL_MS)) / 1000)
    return page
