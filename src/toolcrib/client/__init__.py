"""For agent authors: defer tools on your side, for any model; no server needed.

Importing this loads neither an engine, a web client nor any framework; each name is fetched when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.client.bill import TokenBill, tokens
    from toolcrib.client.deferral import DeferredTools, Turn
    from toolcrib.client.finder import Call, Found
    from toolcrib.client.hosted import Endpoint, SearchPlace
    from toolcrib.client.tool import DeferrablePolicy, Tool

__all__ = [
    "Call",
    "DeferrablePolicy",
    "DeferredTools",
    "Endpoint",
    "Found",
    "SearchPlace",
    "TokenBill",
    "Tool",
    "Turn",
    "tokens",
]

_HOME = {
    "Call": "finder",
    "DeferrablePolicy": "tool",
    "DeferredTools": "deferral",
    "Endpoint": "hosted",
    "Found": "finder",
    "SearchPlace": "hosted",
    "TokenBill": "bill",
    "Tool": "tool",
    "Turn": "deferral",
    "tokens": "bill",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
