"""Hostile archives at the front door: refused with the entry's name, nothing kept, and nobody else kept waiting."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import psutil
import pytest
from skill_kit import md

from kit.running import Server, running
from kit.skill_archives import HOSTILE, SHAPELESS, Item, bomb, build

HANG_S = 20.0  # ten times what is promised: a guard against hanging, no measurement
ROOM_BYTES = 256 * 2**20


def stored(server: Server) -> dict[str, int]:
    with sqlite3.connect(server.data / "toolcrib.sqlite3") as db:
        tables = ("skills", "skill_versions", "skill_counters", "skill_references")
        counts = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    db.close()
    return counts


def send(client: httpx2.Client, data: bytes) -> httpx2.Response:
    return client.post("/skills/trap/versions", files=[("files", ("trap.zip", data, "application/zip"))])


@pytest.mark.parametrize("case", [*HOSTILE, *SHAPELESS])
def test_a_hostile_archive_is_refused_and_nothing_is_kept(server: Server, client: httpx2.Client, case: str) -> None:
    data, name = HOSTILE[case] if case in HOSTILE else (SHAPELESS[case], "")
    before, files = stored(server), sorted(p for p in server.data.rglob("*") if p.is_file())
    began = time.monotonic()
    answer = send(client, data)
    assert time.monotonic() - began < HANG_S
    assert answer.status_code in (400, 413), answer.text
    problem = answer.json()["error"]
    assert problem["code"] in ("invalid_payload", "payload_too_large")
    assert name.replace("\\x00", "") in problem["message"].replace("\\\\", "\\").replace("\\x00", "")
    assert stored(server) == before
    assert sorted(p for p in server.data.rglob("*") if p.is_file()) == files
    assert "Traceback" not in server.log.read_text()


def test_many_bombs_at_once_stay_within_bounds_and_others_are_served(tmp_path: Path) -> None:
    incompressible = build(Item("SKILL.md", md("trap")), Item("x.bin", bytes(range(256)) * 80_000, method=0))
    with running(tmp_path / "crib") as server, server.client() as client:
        process = psutil.Process(server.process.pid)
        resting = process.memory_info().rss

        def attack(data: bytes) -> int:
            with server.client() as attacker:
                return send(attacker, data).status_code

        with ThreadPoolExecutor(8) as pool:
            attacks = [pool.submit(attack, data) for data in [bomb(), incompressible] * 4]
            while not all(attack.done() for attack in attacks):
                assert client.get("/toolboxes").status_code == 200
        assert sorted(attack.result(HANG_S) for attack in attacks) == [200] * 4 + [413] * 4
        assert process.memory_info().rss - resting < ROOM_BYTES


def test_the_operators_limits_hold(tmp_path: Path) -> None:
    limits = {
        "TOOLCRIB_MAX_SKILL_FILES": "3",
        "TOOLCRIB_MAX_SKILL_BYTES": "2000",
        "TOOLCRIB_MAX_SKILL_ARCHIVE_BYTES": "1000",
    }
    skill = Item("SKILL.md", md("trap"))
    with running(tmp_path / "crib", environment=limits) as server, server.client() as client:
        assert send(client, build(skill, Item("a", b"x"))).status_code == 200
        for data, said in (
            (build(skill, Item("a"), Item("b"), Item("too-many")), "too-many"),
            (build(skill, Item("a"), Item("large", b"x" * 2000)), "large"),
            (build(skill, Item("a", b"x" * 1000, method=0)), "1000"),
        ):
            answer = send(client, data)
            assert answer.status_code == 413
            assert said in answer.json()["error"]["message"]
