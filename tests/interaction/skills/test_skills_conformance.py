"""The official suite's scenarios for the skills extension (SEP-2640), against a toolbox with skills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from skill_kit import attach, create, md

from conformance.run import checks_of, suite
from kit.running import running

SCENARIOS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest")
SCENARIO_S = 120


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"TOOLCRIB_AUTH": "off", "TOOLCRIB_ADMIN_TOKEN": ""}
    with running(tmp_path_factory.mktemp("sep-2640") / "crib", environment=settings) as server:
        with server.client(token="") as client:
            more = "license: MIT\ncompatibility: any\nallowed-tools: a b\nmetadata:\n  since: 2026-11-15\n"
            files = {"SKILL.md": md("pdf-forms", "Fill in forms.", more=more), "references/a b.md": b"A"}
            create(client, "pdf-forms", files)
            create(client, "support-style", description="yes", instructions="Be kind.")
            attach(client, "conformance", "pdf-forms", "support-style")
        yield f"{server.endpoint}/toolboxes/conformance/mcp?api-version=v1"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_official_suite_finds_nothing_wrong(url: str, tmp_path: Path, scenario: str) -> None:
    suite(url, tmp_path, "--scenario", scenario, "--spec-version", "2026-07-28", "--force", timeout_s=SCENARIO_S)
    checks = checks_of(tmp_path).get(scenario, [])
    assert sum(check["status"] == "SUCCESS" for check in checks) >= 5, (tmp_path / "output.txt").read_text()
    wrong = [c for c in checks if c["status"] in ("FAILURE", "WARNING")]
    assert not wrong, [(c["id"], c.get("errorMessage")) for c in wrong]
