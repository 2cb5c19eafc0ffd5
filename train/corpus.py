"""The training pairs: what somebody asks for, and the tool that serves it.

Reads the folders given on the command line and nothing else. It never lets an evaluation query in: MetaTool queries
that stand in the evaluation folder are dropped here, and written requests are pairs of their own tools only.
"""

import csv
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolcrib.search.documents import Document, read_document


@dataclass(frozen=True)
class Pair:
    """A request, its tool told in full and in brief, and the family of tools among which it must be told apart."""

    query: str
    passage: str
    brief: str
    family: str


def pair(query: str, document: Document, family: str) -> Pair:
    """Tools come with and without a server and inputs; the brief form makes both familiar."""
    opening = re.split(r"(?<=[.!?])\s", document.description, maxsplit=1)[0]
    brief = replace(document, server="", parameters=(), description=opening).passage()
    return Pair(query, document.passage(), brief, family)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def fingerprint(paths: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of every input, for the model card."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def written_requests(train: Path, evaluation: Path) -> list[Pair]:
    """Four requests each for operations and pool tools, written for this project."""
    known = {tool["id"]: read_document(tool) for tool in lines(evaluation / "pool.jsonl.gz")}
    for operation in lines(train / "openapi-operations.jsonl.gz"):
        key = f"oas/{operation['api']}/{operation['op'] or operation['path']}"
        known.setdefault(key, operation_document(operation, operation["summary"]))
    pairs: list[Pair] = []
    for row in lines(train / "requests.jsonl.gz"):
        document = known[row["id"]]
        pairs += [pair(request, document, document.server or "none") for request in row["requests"]]
    return pairs


def operations(train: Path) -> list[Pair]:
    """An operation's summary, or the first sentence of its description, against the rest of it."""
    pairs: list[Pair] = []
    for operation in lines(train / "openapi-operations.jsonl.gz"):
        summary, told = plain(operation["summary"]), plain(operation["desc"])
        opening = re.split(r"(?<=[.!?])\s", told, maxsplit=1)[0]
        for query, document in (
            (summary, operation_document(operation, "")),
            (opening if opening != summary else "", operation_document({**operation, "desc": ""}, summary)),
        ):
            if 8 <= len(query) <= 300 and " " in query:
                pairs.append(pair(query, document, operation["api"]))
    return list({(each.query.lower(), each.family): each for each in pairs}.values())


def metatool(train: Path, evaluation: Path) -> list[Pair]:
    """MetaTool's labelled queries without those that are in the evaluation."""
    held_out = {query["query"].strip().lower() for query in lines(evaluation / "queries.jsonl.gz")}
    told: dict[str, str] = {}
    for name in ("metatool-plugin-descriptions.json", "metatool-tool-descriptions.json"):
        told |= json.loads((train / name).read_text(encoding="utf-8"))
    pairs: list[Pair] = []
    with gzip.open(train / "metatool.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["Tool"] in told and row["Query"].strip().lower() not in held_out:
                document = read_document({"name": row["Tool"], "description": told[row["Tool"]]})
                pairs.append(pair(row["Query"], document, "metatool"))
    return pairs


def operation_document(operation: dict[str, Any], summary: str) -> Document:
    """An OpenAPI operation as the tool that a gateway would make of it."""
    name = operation["op"] or re.sub(r"[^A-Za-z0-9]+", "_", operation["path"]).strip("_")
    return read_document(
        {
            "name": re.sub(r"[./:]|__+", "_", name),
            "server": operation["api"],
            "description": f"{plain(summary)} {plain(operation['desc'])}".strip(),
            "inputSchema": {"properties": {name: {} for name in operation["params"]}},
        }
    )


def plain(text: str) -> str:
    """Prose without markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())
