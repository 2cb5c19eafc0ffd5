"""What a person reads on stdout: tables, dates and text with control characters made harmless.

What an upstream wrote may be hostile to a terminal, so every cell passes through `clean`. Knows no command.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import click
import msgspec


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell, and the header in capitals."""
    lines = [[h.upper() for h in headers], *([clean(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def json(value: object) -> None:
    """Indented JSON; our structs as they go over the wire."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def text(value: str) -> None:
    """A paragraph that may hold line breaks and tabs, but no terminal commands."""
    click.echo("\n".join(clean(line, keep="\t") for line in value.split("\n")))


def when(seconds: int | None) -> str:
    """A time as UTC; a dash for one that never was."""
    return "-" if not seconds else time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def clean(value: str, keep: str = "") -> str:
    """Control characters (terminal escapes among them) become visible question marks."""
    return "".join(c if c.isprintable() or c in keep else "�" for c in value)


def shorten(value: str, width: int = 72) -> str:
    """The first line, cut to `width`."""
    line = value.strip().partition("\n")[0]
    return line if len(line) <= width else line[: width - 1] + "…"
