"""Pages as the official clients read them: `limit`, `order`, `after`, `before` in; one page out.

One more row than asked for is read, to know whether there is more without counting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from toolcrib import wire
from toolcrib.errors import InvalidPayload
from toolcrib.http import Request
from toolcrib.storage.records_toolboxes import Slice

T = TypeVar("T")
DEFAULT_LIMIT = 20
LARGEST_LIMIT = 100
Cursor = Callable[[str], str | int | None]


def read_slice(request: Request, cursor: Cursor) -> Slice:
    """What part of a list the query asks for. `cursor` turns an object id into a position, None if it cannot."""
    order = request.query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidPayload("order must be 'asc' or 'desc'.", param="order")
    return Slice(
        limit=_limit(request),
        descending=order == "desc",
        after=_position(request, "after", cursor),
        before=_position(request, "before", cursor),
    )


def one_more(part: Slice) -> Slice:
    return replace(part, limit=part.limit + 1)


def page(rows: Sequence[T], part: Slice, id_of: Callable[[T], str]) -> wire.Page[T]:
    """`rows` were read with `one_more(part)`; the surplus row is at the far end."""
    has_more = len(rows) > part.limit
    backwards = part.before is not None and part.after is None
    data = list(rows[-part.limit :] if backwards else rows[: part.limit])
    first = id_of(data[0]) if data else None
    return wire.Page(data=data, has_more=has_more, first_id=first, last_id=id_of(data[-1]) if has_more else None)


def _limit(request: Request) -> int:
    text = request.query.get("limit", str(DEFAULT_LIMIT))
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= LARGEST_LIMIT):
        raise InvalidPayload(f"limit must be a number from 1 to {LARGEST_LIMIT}.", param="limit")
    return int(text)


def _position(request: Request, name: str, cursor: Cursor) -> str | int | None:
    text = request.query.get(name)
    if text is None:
        return None
    position = cursor(text)
    if position is None:
        raise InvalidPayload(f"{name} is not the id of an object of this list.", param=name)
    return position
