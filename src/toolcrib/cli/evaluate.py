"""`toolcrib eval`: how well tools are found, on a folder of public sets or on a toolbox and queries of one's own.

Prints one row per set and the plain mean over them, for our engine and, where installed, for baselines beside it. The
measuring itself is `search.evaluation`'s; what a server would answer is asked of the server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli import printing
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, ToolboxName, remote

if TYPE_CHECKING:
    from toolcrib.search.evaluation import Build, Row

_HEAD = ("engine", "set", "tools", "queries", "hit@1", "R@5", "R@10", "nDCG@10", "C@5", "C@10", "p50 ms", "p95 ms")
_TIERS = ("best", "words", "table", "transformer", "baselines")


@click.group("eval", cls=NounGroup)
def evaluate() -> None:
    """Measure how well tools are found."""


@evaluate.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--corpus",
    type=click.Choice(["own", "pool", "merged", "full"]),
    default="own",
    show_default=True,
    help="Each set over its own tools, with the pool, all together, or all with the pool.",
)
@click.option("--cap", type=int, default=300, show_default=True, help="At most this many queries per set; 0 for all.")
@click.option(
    "--engine", "engines", type=click.Choice(_TIERS), multiple=True, help="Repeatable; default best+baselines."
)
def data(folder: Path, corpus: str, cap: int, engines: tuple[str, ...]) -> None:
    """Run the engine over FOLDER (tools.jsonl.gz, queries.jsonl.gz, pool.jsonl.gz) and print the usual measures."""
    from toolcrib.search.evaluation import Dataset, evaluate, macro

    sets = Dataset.read(folder).capped(cap)
    for name, build in _builds(engines or ("best", "baselines")):
        rows = evaluate(build, sets, corpus)  # pyright: ignore[reportArgumentType] - click has checked the choice
        shown = {**rows, "MACRO": macro(rows.values())}
        printing.table(_HEAD, (_cells(name, of, row) for of, row in shown.items()))


@evaluate.command()
@click.argument("toolbox", type=ToolboxName())
@click.option(
    "--queries",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help='One JSON object a line: {"query": …, "gold": [tool names]}.',
)
@click.option("--version", metavar="VERSION", help="Ask this version instead of the default one.")
@remote
def toolbox(remote: Remote, toolbox: str, queries: Path, version: str | None) -> None:
    """Ask TOOLBOX's own tool_search every query of a file, and print how often the right tool came."""
    from toolcrib.search.evaluation import judge

    asked = [json.loads(line) for line in queries.read_text("utf-8").splitlines() if line.strip()]
    scores: list[tuple[float, ...]] = []
    missed: list[tuple[str, str, str]] = []
    with remote.open() as client:
        for question in asked:
            found = _found(client, toolbox, question["query"], version)
            scores.append(judge(found, frozenset(question["gold"])))
            if scores[-1][1] == 0:
                missed.append((question["query"], ", ".join(question["gold"]), ", ".join(found[:3])))
    means = [sum(column) / len(scores) for column in zip(*scores, strict=True)]
    names = ("hit@1", "recall@5", "recall@10", "nDCG@10", "complete@5", "complete@10", "MRR")
    answer = {"toolbox": toolbox, "queries": len(asked), **dict(zip(names, means, strict=True))}
    if not remote.answers(answer):
        printing.table(("measure", "value"), ((name, f"{value:.3f}") for name, value in zip(names, means, strict=True)))
        printing.table(("not in the first five", "wanted", "found"), missed[:25])


def _found(client: Any, toolbox: str, query: str, version: str | None) -> list[str]:
    params = {"name": "tool_search", "arguments": {"query": query, "limit": 10, "detail": "brief"}}
    result = client.rpc(toolbox, "tools/call", params, version=version, expose="search")
    return [tool["name"] for tool in result["structuredContent"]["tools"]]


def _builds(engines: tuple[str, ...]) -> Iterator[tuple[str, Build]]:
    from toolcrib.search import MemoryCache, WordsOnly, baselines, best_installed, full_transformer, static_table
    from toolcrib.search.evaluation import engine

    makers: Mapping[str, Any] = {
        "best": best_installed,
        "words": WordsOnly,
        "table": static_table,
        "transformer": full_transformer,
    }
    for name in engines:
        if name == "baselines":
            yield from baselines.installed().items()
        else:
            encoder = makers[name]()
            yield f"toolcrib ({encoder.model_id})", engine(encoder, MemoryCache())


def _cells(engine: str, of: str, row: Row) -> tuple[object, ...]:
    shares = (row.hit_at_1, row.recall_at_5, row.recall_at_10, row.ndcg_at_10, row.complete_at_5, row.complete_at_10)
    return (engine, of, row.tools, row.queries, *(f"{s:.3f}" for s in shares), f"{row.p50_ms:.2f}", f"{row.p95_ms:.2f}")
