"""Retrieval speed and size through the public face: `python bench/retrieval.py [--tools 1000,5000,10000]`.

Prints build time, one changed tool, search p50 and p95 beside FastMCP's BM25 and the seed's keyword rule, and how much
memory an index adds. Tools are made up, but as varied as real ones. Quality is measured by `toolcrib eval data DIR`.
"""

import argparse
import gc
import random
import time
from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import Any

import psutil

from toolcrib.search import Encoder, ToolIndex, WordsOnly, static_table
from toolcrib.search.baselines import installed

VERB_TEXT = "get list create update delete search send archive restore export import approve assign cancel merge"
NOUN_TEXT = """
issue invoice message repository calendar event user team file folder report ticket order shipment payment contract
deployment container cluster alert metric dashboard query table record contact campaign lead meeting note comment
"""
DETAIL_TEXT = """by its identifier
in the given workspace
with optional filters
for one customer
and return its new state
page by page
including archived ones
for the current user
between two dates
as a compressed file
and notify its owner"""
VERBS, NOUNS, DETAILS = VERB_TEXT.split(), NOUN_TEXT.split(), DETAIL_TEXT.splitlines()


def made_up(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Tools of sixty sources with names, descriptions and parameters."""
    draw = random.Random(seed)
    tools: list[dict[str, Any]] = []
    for i in range(count):
        verb, noun, other = draw.choice(VERBS), draw.choice(NOUNS), draw.choice(NOUNS)
        server = f"{draw.choice(NOUNS)}hub{i % 60}"
        told = (
            f"{verb.title()} a {noun} of a {other} {' '.join(draw.sample(DETAILS, 3))}. Code {draw.randrange(10**6)}."
        )
        schema = {"properties": {f"{noun}_id": {"type": "string", "description": f"Which {noun} to {verb}"},
                                 f"{other}_name": {"type": "string", "description": f"Name of the {other}"},
                                 "limit": {"type": "integer", "description": "How many at most"}}}  # fmt: skip
        tools.append({"id": str(i), "name": f"{server}.{verb}_{noun}_{i}", "description": told, "inputSchema": schema})
    return tools


def questions(count: int = 300, seed: int = 8) -> list[str]:
    """Requests of five to twenty words."""
    draw = random.Random(seed)
    return [
        f"I want to {draw.choice(VERBS)} the {draw.choice(NOUNS)} of our {draw.choice(NOUNS)} "
        + " ".join(draw.sample(DETAILS, draw.randrange(0, 4)))
        for _ in range(count)
    ]


def timed_ms(search: Callable[[str, int], object], asked: Sequence[str]) -> tuple[float, float]:
    search(asked[0], 5)
    times: list[float] = []
    for query in asked:
        start = time.perf_counter()
        search(query, 5)
        times.append((time.perf_counter() - start) * 1e3)
    return median(times), quantiles(times, n=20)[-1]


def resident_mib() -> float:
    gc.collect()
    return psutil.Process().memory_info().rss / 2**20


def measure(count: int, encoder: Encoder, title: str) -> None:
    tools, asked = made_up(count), questions()
    encoder.embed_query(asked[0])
    before = resident_mib()
    start = time.perf_counter()
    index = ToolIndex.build(tools, encoder=encoder)
    build_s = time.perf_counter() - start
    p50, p95 = timed_ms(index.search, asked)
    grown = resident_mib() - before
    changes: list[float] = []
    for i in range(15):
        start = time.perf_counter()
        index.with_changes([{**tools[i], "description": f"Now different {i}"}])
        changes.append((time.perf_counter() - start) * 1e3)
    print(
        f"| {title} | {count} | {build_s:.2f} | {median(changes):.1f} | {p50:.3f} | {p95:.3f} | {grown:.0f} |",
        flush=True,
    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--tools", default="1000,5000,10000")
    sizes = [int(size) for size in asked.parse_args().tools.split(",")]
    print("| engine | tools | build s | one changed tool ms | search p50 ms | p95 ms | RSS MiB |")
    print("|---|---|---|---|---|---|---|")
    for size in sizes:
        measure(size, static_table(), "words and table")
    for size in sizes:
        measure(size, WordsOnly(), "words only")
    for name, build in installed().items():
        for size in sizes:
            p50, p95 = timed_ms(build(made_up(size)).search, questions(40 if size > 2000 else 100))
            print(f"| {name} | {size} | | | {p50:.3f} | {p95:.3f} | |", flush=True)


if __name__ == "__main__":
    main()
