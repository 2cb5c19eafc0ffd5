"""Secrets of entries: sealed at rest, never shown, kept by "read, change, write", useless anywhere else."""

from __future__ import annotations

import copy
import os
import secrets
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from tests.kit.running import Server, clean_environment, running

from toolcrib.connections.sealing import Sealer, load_key
from toolcrib.errors import SealKeyMismatch
from toolcrib.storage.records_secrets import SealedValue

CANARIES = 50


@pytest.fixture
def client(either_server: Server) -> Iterator[httpx2.Client]:
    with either_server.client() as it:
        yield it


@pytest.fixture
def name() -> str:
    return f"sealed-{uuid.uuid4().hex[:12]}"


def entry(label: str = "a", **fields: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": label, "server_url": "https://127.0.0.1:1/mcp", **fields}


def create(client: httpx2.Client, name: str, *entries: dict[str, Any]) -> httpx2.Response:
    return client.post(f"/toolboxes/{name}/versions", json={"tools": list(entries)})


# --- canaries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_fifty_canaries_are_found_nowhere(
    engine: str, data_dir: Path, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    """Database, WAL, logs, every REST answer and the command line's output; also after bad requests and a kill."""
    canaries = [f"canary-{secrets.token_hex(12)}" for _ in range(CANARIES)]
    environment = {"TOOLCRIB_LOG_LEVEL": "debug"}
    if engine == "postgresql":
        environment["TOOLCRIB_DATABASE_URL"] = request.getfixturevalue("postgres_url")()
    with running(data_dir, environment=environment) as server, server.client() as client:
        heard = scatter(client, canaries)
        heard += ask_everything(client)
        heard += command_line(server)
        places = {f.name: f.read_bytes() for f in data_dir.rglob("*") if f.is_file()}  # the WAL is full now
        assert engine == "postgresql" or len(places["toolcrib.sqlite3-wal"]) > 10_000
        server.kill()
    places |= {f"{f.name} after": f.read_bytes() for f in data_dir.rglob("*") if f.is_file()}
    places["log"] = server.log.read_bytes()
    places["answers"] = "\n".join(heard).encode()
    if engine == "postgresql":
        places["postgresql"] = dump(environment["TOOLCRIB_DATABASE_URL"])
    hits = [(place, i) for place, content in places.items() for i, c in enumerate(canaries) if c.encode() in content]
    with capfd.disabled():
        size = sum(map(len, places.values()))
        print(f"\ncanaries ({engine}): {len(hits)} hits of {CANARIES} secrets in {len(places)} places, {size:,} bytes")
    assert hits == []
    assert b"sealed:" in places["answers"]


def scatter(client: httpx2.Client, canaries: list[str]) -> list[str]:
    """Put every canary into entries: as header, as authorization, in types that do not read them, in bad requests."""
    heard = []
    for i, canary in enumerate(canaries):
        fields = [
            {"headers": {"X-Api-Key": canary}},
            {"authorization": canary},
            {"headers": {"a": f"Bearer {canary}", "b": "plain"}, "authorization": f"Basic {canary}"},
        ][i % 3]
        good = entry("e", **fields) if i % 5 else {"type": "web_search", "name": "e", **fields}
        bad = {**good, "tool_configs": {"*": {"additional_search_text": "x" * 1001}}}
        heard.append(create(client, f"canary-{i % 7}", good).raise_for_status().text)
        wrongs = (bad, {**good, "server_url": "nowhere"}, {**good, "headers": {"k\n": canary}})
        heard += [create(client, f"canary-{i % 7}", wrong, good).text for wrong in wrongs]
    return heard


def ask_everything(client: httpx2.Client) -> list[str]:
    heard = [client.get(path).text for path in ("/toolboxes", "/keys", "/connections")]
    for i in range(7):
        box = f"/toolboxes/canary-{i}"
        latest = client.get(box).json()["versions"]["latest"]["version"]
        reads = ["", "/versions", f"/versions/{latest}", f"/diff?from=1&to={latest}", "/promotions", "/sources"]
        for path in reads:
            url, _, query = path.partition("?")
            params = {"api-version": "v1", **dict(p.split("=") for p in query.split("&") if p)}
            heard.append(client.get(box + url, params=params).text)
    return heard


def command_line(server: Server) -> list[str]:
    environment = clean_environment(TOOLCRIB_ENDPOINT=server.endpoint, TOOLCRIB_TOKEN=server.token)
    start = [sys.executable, "-c", "import sys; from toolcrib.cli.main import run; sys.exit(run())", "toolbox"]
    commands = [
        ["show", "canary-1", "--output", "json"],
        ["show", "canary-2"],
        ["list"],
        ["diff", "canary-1", "1", "2"],
    ]
    heard = []
    for command in commands:
        done = subprocess.run([*start, *command], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        heard.append(done.stdout + done.stderr)
    return heard


def dump(url: str) -> bytes:
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        rows = [row for (t,) in tables for row in connection.execute(f'SELECT * FROM "{t}"').fetchall()]
    return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for row in rows for value in row)


# --- read, change, write ---------------------------------------------------------------------------------------------


def stored(server: Server, reference: str) -> SealedValue:
    """One sealed value as it lies in the database."""
    sql = "SELECT id, project, owner, place, key_id, box FROM sealed_values WHERE id = "
    sealed_id = reference.removeprefix("sealed:")
    url = server.environment.get("TOOLCRIB_DATABASE_URL")
    if url is not None:
        with psycopg.connect(url) as postgres:
            row = postgres.execute(f"{sql}%s", (sealed_id,)).fetchone()
    else:
        connection = sqlite3.connect(server.data / "toolcrib.sqlite3")
        row = connection.execute(f"{sql}?", (sealed_id,)).fetchone()
        connection.close()
    assert row is not None
    return SealedValue(*row[:5], bytes(row[5]))


def sealer(server: Server) -> Sealer:
    return Sealer(load_key(text=None, path=None, default_path=server.data / "seal.key"))


def test_read_change_write_keeps_what_was_sealed(either_server: Server, client: httpx2.Client, name: str) -> None:
    secret = entry(authorization="Bearer first", headers={"X-Key": "k1", "X-Other": "k2"})
    create(client, name, secret, {"type": "web_search"}).raise_for_status()
    read = client.get(f"/toolboxes/{name}").json()["versions"]["latest"]["tools"]
    assert all(v.startswith("sealed:") for v in [read[0]["authorization"], *read[0]["headers"].values()])
    changed = copy.deepcopy(read)
    changed[0]["server_description"] = "now with a description"
    changed[0]["headers"]["X-Other"] = "k3"
    again = create(client, name, *changed[::-1]).raise_for_status().json()["tools"][1]
    assert again["authorization"] == read[0]["authorization"]
    assert again["headers"]["X-Key"] == read[0]["headers"]["X-Key"]
    assert again["headers"]["X-Other"] != read[0]["headers"]["X-Other"]
    opener = sealer(either_server)
    opened = {k: opener.open(stored(either_server, v)) for k, v in again["headers"].items()}
    assert opened == {"X-Key": "k1", "X-Other": "k3"}
    assert opener.open(stored(either_server, again["authorization"])) == "Bearer first"


def test_a_sealed_value_sent_anywhere_else_is_refused(client: httpx2.Client, name: str) -> None:
    first = create(client, name, entry(authorization="s1", headers={"x-key": "s2"}), entry("b")).json()["tools"][0]
    reference, header = first["authorization"], first["headers"]["x-key"]
    moved = {
        "another field": entry(headers={"x-key": reference}),
        "another header": entry(headers={"x-other": header}),
        "another entry": entry("b", authorization=reference),
        "a renamed entry": entry("renamed", authorization=reference),
        "an invented one": entry(authorization="sealed:" + "0" * 24),
        "no id": entry(authorization="sealed:"),
        "no such id": entry(headers={"x-key": "sealed:a"}),
        "a prefix of it": entry(authorization=reference[:-1]),
    }
    for where, wrong in moved.items():
        answer = create(client, name, wrong)
        assert answer.status_code == 400, where
        problem = answer.json()["error"]
        assert problem["code"] == "invalid_payload", where
        assert problem["param"].startswith("tools[0]."), where
    other = create(client, f"{name}-other", entry(authorization=reference))
    assert (other.status_code, other.json()["error"]["param"]) == (400, "tools[0].authorization")
    assert len(client.get(f"/toolboxes/{name}/versions").json()["data"]) == 1


def test_a_sealed_value_of_another_project_is_refused(server: Server, name: str) -> None:
    with server.client() as client:
        reference = create(client, name, entry(authorization="s")).json()["tools"][0]["authorization"]
        client.post(f"{server.address}/api/projects", json={"name": name}).raise_for_status()
        body = {"tools": [entry(authorization=reference)]}
        answer = client.post(f"{server.project(name)}/toolboxes/{name}/versions", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools[0].authorization")
        client.delete(server.project(name))


def test_a_deleted_toolbox_takes_its_secrets_with_it(either_server: Server, client: httpx2.Client, name: str) -> None:
    reference = create(client, name, entry(authorization="s")).json()["tools"][0]["authorization"]
    client.delete(f"/toolboxes/{name}").raise_for_status()
    answer = create(client, name, entry(authorization=reference))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools[0].authorization")
    with pytest.raises(AssertionError):
        stored(either_server, reference)


def test_diff_says_only_that_a_secret_changed(client: httpx2.Client, name: str) -> None:
    create(client, name, entry(authorization="one", headers={"a": "1", "b": "2"}))
    create(client, name, entry(authorization="two", headers={"a": "1", "c": "3"}))
    query = {"api-version": "v1", "from": "1", "to": "2"}
    changes = client.get(f"/toolboxes/{name}/diff", params=query).json()["entries"]
    fields = {f["path"]: f for f in changes[0]["fields"]}
    assert fields["/authorization"] == {"path": "/authorization", "change": "changed"}
    assert fields["/headers/a"] == {"path": "/headers/a", "change": "changed"}
    assert fields["/headers/b"]["change"] == "removed"
    assert fields["/headers/c"]["change"] == "added"


# --- sealing itself --------------------------------------------------------------------------------------------------


def test_a_box_moved_to_another_row_does_not_open() -> None:
    opener = Sealer(os.urandom(32))
    box = opener.seal("secret", project="p", owner="toolbox/a", place="e/authorization")
    assert opener.open(box) == "secret"
    for change in ({"project": "q"}, {"owner": "toolbox/b"}, {"place": "e/headers/x"}, {"box": box.box[:-1] + b"\0"}):
        values = {f: getattr(box, f) for f in ("id", "project", "owner", "place", "key_id", "box")}
        with pytest.raises(SealKeyMismatch) as refused:
            opener.open(SealedValue(**{**values, **change}))
        assert "secret" not in str(refused.value).replace("send the secret again", "")
    with pytest.raises(SealKeyMismatch):
        Sealer(os.urandom(32)).open(box)


def test_the_same_secret_is_never_sealed_the_same_way_twice() -> None:
    opener = Sealer(os.urandom(32))
    boxes = {opener.seal("s", project="p", owner="o", place="x").box[:12] for _ in range(10_000)}
    assert len(boxes) == 10_000
