"""`kill -9` at random moments during writes: nothing that was acknowledged is lost, nothing is torn.

The killer (this test), the writer and the servers are separate processes. A kill counts only if a request was sent
before it and broken by it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tests.kit.running
from tests.kit.running import OPERATOR_TOKEN, clean_environment, running

from toolcrib.domain import Content

KIT = Path(tests.kit.running.__file__).parent
KILLS = 100 * int(os.environ.get("TOOLCRIB_SOAK", "1"))
PATIENCE_S = 60.0
LONGEST_LIFE_S = 0.04


@dataclass
class Journal:
    """What the writer said, as it says it."""

    events: list[dict[str, Any]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def read(self, stream: Any) -> None:
        for line in stream:
            with self.changed:
                self.events.append(json.loads(line))
                self.changed.notify_all()

    def wait_for_acknowledgement(self, since: int) -> None:
        with self.changed:
            assert self.changed.wait_for(
                lambda: any(e["event"] == "acknowledged" for e in self.events[since:]), PATIENCE_S
            ), f"no acknowledgement within {PATIENCE_S} s"

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == kind]


def free_port() -> int:
    """Below the ephemeral ports: a client that tries such a port while nobody listens can connect to itself."""
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


@contextmanager
def child(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )
    try:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def start_one(zygote: subprocess.Popen[str]) -> int:
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    zygote.stdin.write("start\n")
    zygote.stdin.flush()
    return int(zygote.stdout.readline())


def in_flight(journal: Journal, killed_at: list[float]) -> list[int]:
    """How many requests each kill broke: sent before it, broken after it."""
    ends = journal.of("broken")  # before the beginnings: the journal is being written
    begins = {e["id"]: e["at"] for e in journal.of("sent")}
    return [sum(begins[e["id"]] < kill < e["at"] for e in ends) for kill in killed_at]


def kill_until_enough(data: Path, log: Path) -> tuple[Journal, list[float]]:
    port, journal, killed_at = free_port(), Journal(), list[float]()
    moments = random.Random(20261115)
    environment = clean_environment(TOOLCRIB_ADMIN_TOKEN=OPERATOR_TOKEN, TOOLCRIB_LOG_LEVEL="warning")
    with (
        log.open("wb") as stderr,
        child(f"{KIT}/zygote.py", str(data), str(port), env=environment, stderr=stderr) as zygote,
        child(f"{KIT}/writer.py", str(port), OPERATOR_TOKEN) as writer,
    ):
        reader = threading.Thread(target=journal.read, args=(writer.stdout,))
        reader.start()
        try:
            while sum(map(bool, in_flight(journal, killed_at))) < KILLS:
                assert len(killed_at) < 3 * KILLS, "kills hardly ever land with a request in flight"
                since = len(journal.events)
                pid = start_one(zygote)
                journal.wait_for_acknowledgement(since)
                time.sleep(moments.uniform(0, LONGEST_LIFE_S))  # the random moment
                killed_at.append(time.monotonic())
                os.kill(pid, signal.SIGKILL)
        finally:
            assert writer.stdin is not None
            writer.stdin.close()
            reader.join(PATIENCE_S)
    return journal, killed_at


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_and_nothing_is_torn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, log = tmp_path / "crib", tmp_path / "killed.log"
    began = time.monotonic()
    journal, killed_at = kill_until_enough(data, log)
    broken = in_flight(journal, killed_at)
    acknowledged = journal.of("acknowledged")
    versions = [e for e in acknowledged if "mark" in e]
    promotions = [e for e in acknowledged if "to" in e]
    assert journal.of("refused") == []

    lost = [e["answer"]["version"] for e in versions if not is_there(data, e)]
    torn = torn_versions(data)
    unrecorded = promotions_missing(data, promotions)
    with capsys.disabled():
        print(
            f"\nkill -9: {len(killed_at)} kills, {sum(map(bool, broken))} of them with requests in flight"
            f" ({sum(broken)} requests), {len(versions)} versions and {len(promotions)} promotions acknowledged;"
            f" {len(lost)} versions and {len(unrecorded)} promotions lost, {len(torn)} torn;"
            f" {time.monotonic() - began:.0f} s"
        )
    assert sum(map(bool, broken)) >= KILLS
    assert (lost, torn, unrecorded) == ([], [], [])
    assert query(data, "PRAGMA integrity_check") == [("ok",)]
    assert query(data, "PRAGMA foreign_key_check") == []
    serves_after_all(data, versions)


def query(data: Path, sql: str, *params: object) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(data / "toolcrib.sqlite3")
    try:
        return connection.execute(sql, params).fetchall()
    finally:
        connection.close()


def is_there(data: Path, event: dict[str, Any]) -> bool:
    sql = "SELECT digest, content FROM toolbox_versions WHERE toolbox = ? AND number = ?"
    rows = query(data, sql, event["toolbox"], int(event["answer"]["version"]))
    return bool(rows) and rows[0][0] == event["answer"]["digest"] and event["mark"].encode() in rows[0][1]


def torn_versions(data: Path) -> list[tuple[str, int]]:
    """Versions whose content is not what their digest says, or whose secrets are not there."""
    sealed = {row[0] for row in query(data, "SELECT id FROM sealed_values")}
    torn = []
    for toolbox, number, digest, content in query(
        data, "SELECT toolbox, number, digest, content FROM toolbox_versions"
    ):
        parsed = msgspec.json.decode(content, type=Content)
        again = hashlib.sha256(msgspec.json.encode(parsed, order="sorted")).hexdigest()
        reference = parsed.tools[0]["headers"]["k"].removeprefix("sealed:")
        if digest != f"sha256:{again}" or reference not in sealed:
            torn.append((toolbox, number))
    return torn


def promotions_missing(data: Path, acknowledged: list[dict[str, Any]]) -> list[str]:
    """The default is where the history says; every acknowledged move is in it, or was none."""
    rows = query(data, "SELECT to_version FROM promotions WHERE toolbox = 'box-0' ORDER BY sequence")
    history = [str(row[0]) for row in rows]
    default = query(data, "SELECT default_version FROM toolboxes WHERE name = 'box-0'")
    assert default == [(int(history[-1]),)]
    return [e["to"] for e in acknowledged if e["to"] not in history]


def serves_after_all(data: Path, versions: list[dict[str, Any]]) -> None:
    """A server started on what is left answers for the newest of them and goes on counting."""
    newest = max(versions, key=lambda e: int(e["answer"]["version"]) if e["toolbox"] == "box-1" else 0)["answer"]
    with running(data) as server, server.client() as client:
        assert client.get(f"/toolboxes/box-1/versions/{newest['version']}").json()["digest"] == newest["digest"]
        body = {"tools": [{"type": "web_search"}]}
        assert int(client.post("/toolboxes/box-1/versions", json=body).json()["version"]) > int(newest["version"])
