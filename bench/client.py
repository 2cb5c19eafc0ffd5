"""What the client library saves and costs. Run `python bench/client.py`; every figure below is printed by it.

Bytes and tokens are computed and repeat exactly; times are medians on this machine and do not. Nothing is fetched.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import toolcrib
from client_surface import TOOLS
from toolcrib.client import DeferredTools, TokenBill, tokens
from toolcrib.client.finder import search_tool
from toolcrib.errors import BadSettings

PACKAGE = Path(toolcrib.__file__).parent


def main() -> None:
    print_lists()
    print_bills()
    print_import()
    print_size()
    print_search()


def print_lists() -> None:
    full = [*TOOLS, search_tool().as_mcp()]
    ways = {
        "full schemas": full,
        "stubs, first turn": [tool.as_mcp() for tool in DeferredTools(TOOLS).turn("bench").listed()],
        "bridge, every turn": [tool.as_mcp() for tool in DeferredTools(TOOLS, mode="bridge").turn("bench").listed()],
    }
    heading("The seed's benchmark: 19 tools, the list sent to the model (seed: 39 % smaller, schemas 55 %)")
    table(
        ("", "list bytes", "saved", "schema bytes", "saved", "tokens, bytes/4", "tokens, BPE"),
        [
            (
                name,
                f"{size(way):,}",
                percent(size(way), size(full)),
                f"{schemas(way):,}",
                percent(schemas(way), schemas(full)),
                f"{size(way) // 4:,}",
                bpe(way),
            )
            for name, way in ways.items()
        ],
    )


def print_bills() -> None:
    for turns, loads in ((1, 0), (10, 3), (30, 3)):
        for counter in counters():
            print_bill(tokens(TOOLS, turns=turns, loads=loads, counter=counter))


def print_bill(bill: TokenBill) -> None:
    heading(f"Token bill: {bill.turns} turns, {bill.loads} tools loaded, 200 tokens a turn; tokens by {bill.counter}")
    table(
        ("", "first turn", "last turn", "all turns", "billed uncached"),
        [
            (way.way, f"{way.first_turn:,}", f"{way.last_turn:,}", f"{way.total:,}", f"{way.uncached:,}")
            for way in bill.ways
        ],
    )


def print_import() -> None:
    code = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
    heading("Import time, median of 9 fresh interpreters")
    for line in (
        "import toolcrib.client",
        "from toolcrib.client import DeferredTools",
        "from toolcrib.search import ToolIndex",
    ):
        runs = [float(output([sys.executable, "-c", code.format(line)])) for _ in range(9)]
        print(f"{line:48} {statistics.median(runs) * 1000:8.1f} ms")


def print_size() -> None:
    heading("Installed size of the bare install, beside numpy")
    ours = {
        "toolcrib.client": bytes_below(PACKAGE / "client"),
        "toolcrib.search": bytes_below(PACKAGE / "search"),
        "all of toolcrib": bytes_below(PACKAGE),
    }
    others = {name: installed_bytes(name) for name in sorted(requirements("toolcrib")) if name != "numpy"}
    for name, count in {**ours, **others}.items():
        print(f"{name:48} {count / 1e6:8.2f} MB")
    print(f"{'together':48} {(ours['all of toolcrib'] + sum(others.values())) / 1e6:8.2f} MB")


def print_search() -> None:
    tools, queries = catalogue(5_000), requests(200)
    heading("Search over 5,000 tools, 200 requests in words, none an exact name")
    for ranking in ("keyword", "engine"):
        deferred = DeferredTools(tools, ranking=ranking)
        first = timed(lambda d=deferred: d.turn("bench").search("warm up"))
        runs = sorted(timed(lambda d=deferred, q=query: d.turn("bench").search(q)) for query in queries)
        p50, p99 = statistics.median(runs), runs[int(len(runs) * 0.99)]
        print(
            f"{ranking:10} p50 {p50 * 1000:7.2f} ms   p99 {p99 * 1000:7.2f} ms   first, with the index {first:6.2f} s"
        )
    exact = DeferredTools(tools)
    runs = [timed(lambda q=tool["name"]: exact.turn("bench").search(q)) for tool in tools[:200]]
    print(f"{'exact name':10} p50 {statistics.median(runs) * 1000:7.2f} ms")


# --- measuring ----------------------------------------------------------------------------------------------------


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def schemas(tools: Sequence[dict[str, Any]]) -> int:
    return sum(size(tool["inputSchema"]) for tool in tools)


def percent(now: int, before: int) -> str:
    return f"{100 - 100 * now / before:.0f} %"


def counters() -> list[Literal["bytes/4", "bpe"]]:
    return ["bytes/4", "bpe"] if bpe([]) != "-" else ["bytes/4"]


def bpe(value: Any) -> str:
    from toolcrib.client.bill import bpe_count

    try:
        return f"{bpe_count()(json.dumps(value, ensure_ascii=False, separators=(',', ':'))):,}"
    except BadSettings:
        return "-"


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def requirements(name: str) -> set[str]:
    """Distributions a bare install brings, extras and markers left out."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for line in metadata.requires(waiting.pop()) or ():
            needed = line.split(";")[0].split("[")[0].strip("()")
            needed = needed.translate(str.maketrans("<>=!~", "     ")).split()[0].lower().replace("_", "-")
            if "extra ==" not in line and needed not in found and is_installed(needed):
                found.add(needed)
                waiting.append(needed)
    return found


def is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def installed_bytes(name: str) -> int:
    files = metadata.files(name) or ()
    paths = (Path(str(file.locate())) for file in files if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.is_file())


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")


# --- a catalogue of the size people have --------------------------------------------------------------------------


def words(text: str) -> list[str]:
    return text.split()


VERBS = words("create list get update delete search export import archive share assign comment merge approve schedule")
NOUNS = words("issue invoice ticket message event file page contact order payment report deployment branch survey lead")
SERVICES = words(
    "github gitlab jira slack teams gmail outlook salesforce hubspot stripe zendesk notion asana trello dropbox box "
    "confluence linear airtable shopify twilio sentry datadog"
)
TRAITS = words(
    "overdue shared recent archived personal public draft urgent monthly internal external unpaid open stale"
)


def catalogue(count: int) -> list[dict[str, Any]]:
    pick = random.Random(7)
    names = [f"{s}_{v}_{n}" for s, v, n in itertools.product(SERVICES, VERBS, NOUNS)]
    pick.shuffle(names)
    return [described(name, pick) for name in names[:count]]


def described(name: str, pick: random.Random) -> dict[str, Any]:
    service, verb, noun = name.split("_")
    trait, other = pick.sample(TRAITS, 2)
    description = (
        f"{verb.capitalize()} a {noun} in {service.capitalize()}. Works for {trait} and {other} {noun}s alike."
    )
    fields = {f"{noun}_id": "string", "workspace": "string", trait: "boolean", "limit": "integer"}
    properties = {key: {"type": kind, "description": f"The {key} to use."} for key, kind in fields.items()}
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}


def requests(count: int) -> list[str]:
    pick = random.Random(11)
    return [
        f"{pick.choice(VERBS)} the {pick.choice(TRAITS)} {pick.choice(NOUNS)} in {pick.choice(SERVICES)}"
        for _ in range(count)
    ]


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        print(row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)))


if __name__ == "__main__":
    main()
