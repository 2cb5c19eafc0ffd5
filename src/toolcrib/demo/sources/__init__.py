"""The demo's sources by label, each in a module of its own that is imported when it is opened."""

from collections.abc import Callable
from datetime import datetime
from importlib import import_module

from toolcrib.demo.source import Source, utc_now

LABELS = (
    "files",
    "calendar",
    "tickets",
    "inventory",
    "invoices",
    "weather",
    "notes",
    "mail",
    "contacts",
    "text",
    "math",
    "units",
    "clock",
)


def open_source(label: str, now: Callable[[], datetime] = utc_now) -> Source:
    """A fresh source of this label."""
    module = import_module(f"toolcrib.demo.sources.{label}")
    opened = getattr(module, label.capitalize())(now)
    if not isinstance(opened, Source):
        raise TypeError(f"{label} is no source")
    return opened
