"""`make conformance`: the official suite against a toolbox in front of the fixture upstream, for both revisions.

    python tests/conformance/run.py [--direct] [--results DIR]

`--direct` leaves toolcrib out and asks the fixture itself: what fails there is no fault of the gateway. The exit status
is 0 only if the suite's own is, for every revision; there is no file of expected failures.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

import kit_node  # noqa: E402
from conformance.front import front_of  # noqa: E402
from conformance.upstream import fixture_upstream  # noqa: E402
from kit.running import running  # noqa: E402

REVISIONS = ("2025-11-25", "2026-07-28")
SUITE = "@modelcontextprotocol/conformance"
SUITE_S = 600
SCENARIO_S = 60

# Scenarios of the suite that address the server by path alone: see front.py.
DROP_THE_QUERY = ("http-header-validation", "http-custom-header-server-validation")

# Why an unscored scenario may fail; what is not explained here is shown with the suite's own words only.
REASONS = {
    r"tasks-.*": "io.modelcontextprotocol/tasks is an optional extension that neither fixture nor toolcrib declares",
    r"json-schema-2020-12": "it looks its tool up by the bare name, and a toolbox lists label.tool",
    **dict.fromkeys(DROP_THE_QUERY, "it drops the query of the address, and api-version is required"),
}

Check = dict[str, Any]


@contextmanager
def toolbox_in_front_of(upstream: str) -> Iterator[str]:
    """The MCP address of a toolbox with the fixture as its only entry, no search and no authentication."""
    entry = {"type": "mcp", "server_label": "fixture", "server_url": upstream, "require_approval": "never"}
    settings = {"TOOLCRIB_AUTH": "off", "TOOLCRIB_ADMIN_TOKEN": ""}
    with tempfile.TemporaryDirectory() as data, running(Path(data) / "crib", environment=settings) as server:
        with server.client(token="") as rest:
            rest.post("toolboxes/conformance/versions", json={"tools": [entry]}).raise_for_status()
        yield f"{server.endpoint}/toolboxes/conformance/mcp?api-version=v1"


def suite(url: str, results: Path, *arguments: str, timeout_s: float = SUITE_S) -> int:
    """Run the suite; what it says goes to `results`."""
    command = [kit_node.node(), kit_node.program(SUITE), "server", "--url", url, "-o", results, *arguments]
    results.mkdir(parents=True, exist_ok=True)
    with (results / "output.txt").open("wb") as output:
        return subprocess.run(
            command, cwd=results, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=timeout_s
        ).returncode


def checks_of(results: Path) -> dict[str, list[Check]]:
    """Every scenario's checks, by its name."""
    found: dict[str, list[Check]] = {}
    for path in sorted(results.glob("server-*/checks.json"), key=lambda p: p.stat().st_mtime_ns):
        scenario = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)
        assert scenario, path
        found[scenario[1]] = json.loads(path.read_text())
    return found


def unscored(revision: str) -> dict[str, str]:
    """The scenarios that the suite runs without counting them, and its reason."""
    text = (kit_node.package(SUITE) / "requirements" / f"{revision}.yaml").read_text()
    entries = re.findall(r"- scenario: (\S+)\n\s+leg: server\n\s+reason: (\S+)", text)
    return dict(entries)


def report(revision: str, url: str, results: Path) -> int:
    code = suite(url, results, "--requirements", revision)
    checks, aside = checks_of(results), unscored(revision)
    if not checks:
        print((results / "output.txt").read_text())
        raise SystemExit(f"the suite ran no scenario of {revision}")
    scored = {name: found for name, found in checks.items() if name not in aside}
    passed = sum(not _of(found, "FAILURE") for found in scored.values())
    print(f"\n{revision}: {passed} of {len(scored)} required scenarios pass; the suite exits {code}")
    for name, found in scored.items():
        print(f"  {'✗' if _of(found, 'FAILURE') else '✓'} {name}: {len(_of(found, 'SUCCESS'))} checks")
        _say(found, "FAILURE", "WARNING")
    print("  not scored:")
    for name, why in aside.items():
        _tell_aside(name, why, checks.get(name, []), revision, url, results)
    return code


def _tell_aside(name: str, why: str, found: list[Check], revision: str, url: str, results: Path) -> None:
    failed = _of(found, "FAILURE")
    print(f"  {'✗' if failed or not found else '✓'} {name} ({why}): {len(_of(found, 'SUCCESS'))} checks", end="")
    reason = next((said for pattern, said in REASONS.items() if re.fullmatch(pattern, name)), None)
    if name in DROP_THE_QUERY and "?" not in url:
        reason = None  # nothing was dropped
    elif name in DROP_THE_QUERY and failed:
        print(f"; as it is {len(failed)} fail: {reason}")
        with front_of(url) as whole:
            suite(whole, results / name, "--scenario", name, "--spec-version", revision, timeout_s=SCENARIO_S)
        again = checks_of(results / name).get(name, [])
        good = len(_of(again, "SUCCESS"))
        print(f"    {'✗' if _of(again, 'FAILURE') else '✓'} the same with the query put back: {good} checks")
        _say(again, "FAILURE", "WARNING")
        return
    print(f"\n    {len(failed)} fail: {reason}" if failed and reason else "")
    if reason is None or not failed:
        _say(found, "FAILURE", "WARNING")


def _of(checks: list[Check], status: str) -> list[Check]:
    return [check for check in checks if check["status"] == status]


def _say(checks: list[Check], *statuses: str) -> None:
    for check in checks:
        if check["status"] in statuses:
            print(f"    {check['status'].lower()} {check['id']}: {check.get('errorMessage', '')}")


@contextmanager
def target(direct: bool) -> Iterator[str]:
    with fixture_upstream() as upstream:
        if direct:
            yield upstream
            return
        with toolbox_in_front_of(upstream) as url:
            yield url


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--direct", action="store_true", help="ask the fixture itself, without toolcrib")
    parser.add_argument("--results", type=Path, help="keep what the suite wrote in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, target(options.direct) as url:
        place = options.results or Path(scratch)
        print(f"{SUITE} against {url}")
        codes = [report(revision, url, (place / revision).resolve()) for revision in REVISIONS]
    print("\nconformance:", "both revisions" if not any(codes) else f"the suite exits {codes}")
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
