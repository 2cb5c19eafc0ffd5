"""`toolcrib tokens FILE`: what each way of listing these tools costs, per turn and over a conversation.

Reads, calls `toolcrib.client.tokens`, prints. It talks to no server.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, Any, cast

import click

from toolcrib.client import TokenBill
from toolcrib.client import tokens as bill_of
from toolcrib.errors import InvalidPayload


@click.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--turns", type=click.IntRange(min=1), default=10, show_default=True, help="Length of the conversation.")
@click.option("--loads", type=click.IntRange(min=0), default=3, show_default=True, help="Tools the model loads in it.")
@click.option("--turn-tokens", type=click.IntRange(min=0), default=200, show_default=True, help="What a turn adds.")
@click.option("--threshold", type=click.IntRange(min=0), default=15, show_default=True, help="Defer from this many on.")
@click.option("--never-defer", multiple=True, metavar="NAME", help="A tool that stays loaded; may be repeated.")
@click.option("--bpe", is_flag=True, help="Count with a real vocabulary (needs bpe-openai) instead of bytes / 4.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def tokens(
    file: IO[str],
    turns: int,
    loads: int,
    turn_tokens: int,
    threshold: int,
    never_defer: tuple[str, ...],
    bpe: bool,
    as_json: bool,
) -> None:
    """Print the token bill of the tools in FILE (- for standard input).

    FILE holds a JSON list of tools, or an object with `tools`, in MCP, OpenAI or Anthropic form.
    """
    bill = bill_of(
        _read_tools(file),
        turns=turns,
        loads=loads,
        turn_tokens=turn_tokens,
        threshold=threshold,
        never_defer=never_defer,
        counter="bpe" if bpe else "bytes/4",
    )
    click.echo(json.dumps(asdict(bill), indent=2) if as_json else _table(bill))


def _read_tools(file: IO[str]) -> list[dict[str, object]]:
    try:
        body: Any = json.load(file)
    except ValueError as error:
        raise InvalidPayload(f"{file.name} is not JSON: {error}", param="FILE") from error
    found: Any = cast("dict[str, Any]", body).get("tools") if isinstance(body, dict) else body
    if not isinstance(found, list) or not all(isinstance(tool, dict) for tool in cast("list[Any]", found)):
        raise InvalidPayload(
            f"{file.name} holds no list of tools", param="FILE", hint='Write [...] or {"tools": [...]}.'
        )
    return cast("list[dict[str, object]]", found)


def _table(bill: TokenBill) -> str:
    head = f"{bill.tools} tools, {bill.turns} turns, {bill.loads} tools loaded; tokens by {bill.counter}"
    rows: list[tuple[str, ...]] = [("", "list bytes", "first turn", "last turn", "all turns", "not cached")]
    for way in bill.ways:
        figures = (way.list_bytes, way.first_turn, way.last_turn, way.total, way.uncached)
        rows.append((way.way, *(f"{figure:,}" for figure in figures)))
    return "\n".join([head, *("".join((row[0].ljust(8), *(cell.rjust(12) for cell in row[1:]))) for row in rows)])
