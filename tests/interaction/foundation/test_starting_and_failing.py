"""When a server must not start it says why and what to do; when its storage fails it says so and recovers."""

from __future__ import annotations

import base64
import os
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from tests.kit.running import OPERATOR_TOKEN, Server, clean_environment, refusal, running, start

WEB: dict[str, Any] = {"tools": [{"type": "web_search"}]}
SECRET: dict[str, Any] = {
    "tools": [{"type": "mcp", "server_label": "a", "server_url": "http://a.example/mcp", "authorization": "hush"}]
}


def test_a_second_server_on_the_same_data_names_the_address_of_the_first(server: Server) -> None:
    said = refusal(server.data)
    assert server.address in said
    assert "hint:" in said
    with server.client() as client:
        assert client.get("/toolboxes").status_code == 200


def test_a_server_that_was_killed_holds_nothing(data_dir: Path) -> None:
    first = start(data_dir)
    first.kill()
    with running(data_dir) as second, second.client() as client:
        assert client.get("/toolboxes").status_code == 200


def test_a_second_server_on_the_same_postgresql_refuses(postgres_server: Server, tmp_path: Path) -> None:
    said = refusal(tmp_path / "other", environment=postgres_server.environment)
    assert "Another toolcrib server uses this PostgreSQL database" in said


def test_a_taken_port_is_named(server: Server, tmp_path: Path) -> None:
    assert f"port {server.port}" in refusal(tmp_path / "other", "--port", str(server.port))


@pytest.mark.parametrize(
    ("environment", "flags", "named"),
    [
        ({"TOOLCRIB_AUTH": "off"}, ("--host", "0.0.0.0"), "TOOLCRIB_AUTH"),
        ({"TOOLCRIB_AUTH": "off", "TOOLCRIB_HOST": "::"}, (), "TOOLCRIB_AUTH"),
        ({"TOOLCRIB_AUTH": "maybe"}, (), "TOOLCRIB_AUTH"),
        ({"TOOLCRIB_ADMIN_TOKEN": "pw-1234"}, (), "TOOLCRIB_ADMIN_TOKEN"),
        ({"TOOLCRIB_SEAL_KEY": "changeme"}, (), "TOOLCRIB_SEAL_KEY"),
        ({"TOOLCRIB_SEAL_KEY": base64.b64encode(b"0" * 32).decode()}, (), "TOOLCRIB_SEAL_KEY"),
        ({"TOOLCRIB_SEAL_KEY": base64.b64encode(os.urandom(16)).decode()}, (), "TOOLCRIB_SEAL_KEY"),
        ({"TOOLCRIB_SEAL_KEY_FILE": "/nowhere/seal.key"}, (), "/nowhere/seal.key"),
        ({"TOOLCRIB_DATABASE_URL": "mysql://root@localhost/x"}, (), "TOOLCRIB_DATABASE_URL"),
        ({"TOOLCRIB_REFRESH_S": "often"}, (), "TOOLCRIB_REFRESH_S"),
        ({"TOOLCRIB_MAX_BODY_BYTES": "0"}, (), "max_body_bytes"),
        ({"TOOLCRIB_TLS_CERT": "cert.pem"}, (), "tls_key"),
        ({"TOOLCRIB_TLS_CERT": "none.pem", "TOOLCRIB_TLS_KEY": "none.key"}, (), "none.pem"),
        ({"TOOLCRIB_LOG_LEVEL": "loud"}, (), "TOOLCRIB_LOG_LEVEL"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    tmp_path: Path, environment: dict[str, str], flags: tuple[str, ...], named: str
) -> None:
    said = refusal(tmp_path / "crib", *flags, environment=environment)
    assert named in said
    for name in ("TOOLCRIB_ADMIN_TOKEN", "TOOLCRIB_SEAL_KEY"):
        assert environment.get(name, "\0") not in said


def test_a_database_url_that_is_none_is_not_repeated(tmp_path: Path) -> None:
    url = "postgresql://crib:hunter2-%zz@localhost/crib"
    said = refusal(tmp_path / "crib", environment={"TOOLCRIB_DATABASE_URL": url})
    assert "TOOLCRIB_DATABASE_URL" in said
    assert "hunter2" not in said


def test_a_postgresql_that_is_not_there_is_named(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"postgresql://crib:hunter2@127.0.0.1:{nobody.getsockname()[1]}/crib"
        said = refusal(tmp_path / "crib", environment={"TOOLCRIB_DATABASE_URL": url})
    assert "PostgreSQL could not be used" in said
    assert "hunter2" not in said


def test_a_file_of_settings_with_a_word_nobody_reads_is_refused(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "toolcrib.toml").write_text('prot = 8700\n[stdio.a]\ncommand = ["true"]\n')
    assert "prot" in refusal(data_dir)
    assert "does not exist" in refusal(data_dir, "--config", str(data_dir / "missing.toml"))


def test_a_data_directory_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        said = refusal(place)
        assert str(place) in said
        assert "hint:" in said


def test_a_database_that_is_no_database_is_refused(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "toolcrib.sqlite3").write_bytes(b"this is a text file, not a database" * 100)
    said = refusal(data_dir)
    assert "not a database" in said
    assert (data_dir / "toolcrib.sqlite3").read_bytes().startswith(b"this is a text file")


def test_the_wrong_seal_key_refuses_to_start_and_the_right_one_goes_on(data_dir: Path) -> None:
    right, wrong = (base64.b64encode(os.urandom(32)).decode() for _ in range(2))
    with running(data_dir, environment={"TOOLCRIB_SEAL_KEY": right}) as server, server.client() as client:
        client.post("/toolboxes/sealed/versions", json=SECRET).raise_for_status()
    said = refusal(data_dir, environment={"TOOLCRIB_SEAL_KEY": wrong})
    assert "sealed with key" in said
    assert wrong not in said
    assert "sealed with key" in refusal(data_dir)  # nor does a fresh one help
    with running(data_dir, environment={"TOOLCRIB_SEAL_KEY": right}) as server, server.client() as client:
        assert client.get("/toolboxes/sealed").status_code == 200


def test_the_first_start_makes_its_secrets_for_the_owner_alone_and_shows_the_token_once(data_dir: Path) -> None:
    with running(data_dir, environment={"TOOLCRIB_ADMIN_TOKEN": ""}) as server:
        token = (data_dir / "admin.token").read_text().strip()
        for name in ("admin.token", "seal.key", "server.lock"):
            assert stat.S_IMODE((data_dir / name).stat().st_mode) == 0o600
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
        with server.client(token=token) as client:
            assert client.get("/keys").status_code == 200
    assert server.log.read_text().count(token) == 1
    with running(data_dir, environment={"TOOLCRIB_ADMIN_TOKEN": ""}) as again:
        assert again.log.read_text().count(token) == 1
        with again.client(token=token) as client:
            assert client.get("/keys").status_code == 200


def test_auth_off_on_loopback_is_admin_and_still_checks_host_and_origin(data_dir: Path) -> None:
    with running(data_dir, environment={"TOOLCRIB_AUTH": "off"}) as server:
        assert "auth is off" in server.log.read_text()
        with server.client(token="") as client:
            assert client.get("/keys").status_code == 200
            assert client.get("/keys", headers={"host": "rebound.example"}).status_code == 421
            assert client.get("/keys", headers={"origin": "https://evil.example"}).status_code == 403
            assert client.get("/keys", headers={"origin": server.address}).status_code == 200


def test_sigterm_ends_cleanly_with_what_was_begun_finished(data_dir: Path) -> None:
    server = start(data_dir)
    with server.client() as client:
        client.post("/toolboxes/a/versions", json=WEB).raise_for_status()
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()
    assert not (data_dir / "toolcrib.sqlite3-wal").exists()


# --- storage that fails while running --------------------------------------------------------------------------------


def test_a_full_disk_is_a_503_reads_go_on_and_it_recovers_without_a_restart(data_dir: Path) -> None:
    with running(data_dir) as server, server.client() as client:
        for _ in range(3):
            client.post("/toolboxes/full/versions", json=WEB).raise_for_status()
        process = psutil.Process(server.process.pid)
        size = (data_dir / "toolcrib.sqlite3-wal").stat().st_size
        process.rlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))  # no file may grow: the disk is full
        failed = [client.post("/toolboxes/full/versions", json=WEB) for _ in range(3)]
        assert {f.status_code for f in failed} == {503}
        assert {f.json()["error"]["code"] for f in failed} == {"storage_failed"}
        assert client.get("/toolboxes/full").json()["versions"]["latest"]["version"] == "3"
        assert len(client.get("/toolboxes/full/versions").json()["data"]) == 3
        process.rlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert client.post("/toolboxes/full/versions", json=WEB).json()["version"] == "4"
    with sqlite3.connect(data_dir / "toolcrib.sqlite3") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_a_postgresql_whose_connections_break_is_a_503_and_then_works_again(
    tmp_path: Path, postgres_url: Callable[[], str]
) -> None:
    url = postgres_url()
    with running(tmp_path / "crib", environment={"TOOLCRIB_DATABASE_URL": url}) as server, server.client() as client:
        client.post("/toolboxes/cut/versions", json=WEB).raise_for_status()
        with psycopg.connect(url, autocommit=True) as connection:
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            connection.execute(f"{cut} AND pid <> pg_backend_pid()")
        answers = [client.post("/toolboxes/cut/versions", json=WEB) for _ in range(20)]
        assert {a.status_code for a in answers} <= {200, 503}
        assert answers[-1].status_code == 200
        good = [int(a.json()["version"]) for a in answers if a.status_code == 200]
        assert good == sorted(set(good))
        listed = client.get("/toolboxes/cut/versions", params={"api-version": "v1", "limit": 100}).json()["data"]
        assert {int(v["version"]) for v in listed} == {1, *good}
        assert client.get(f"{server.address}/readyz").json()["status"] == "ok"


# --- migrations by the command ---------------------------------------------------------------------------------------


def test_migrate_prepares_a_database_that_serve_then_uses(data_dir: Path) -> None:
    command = [sys.executable, "-c", "import sys; from toolcrib.cli.main import run; sys.exit(run())", "migrate"]
    environment = clean_environment(TOOLCRIB_ADMIN_TOKEN=OPERATOR_TOKEN)
    for _ in range(2):
        subprocess.run([*command, "--data", str(data_dir)], env=environment, check=True, timeout=60)
    with running(data_dir) as server, server.client() as client:
        assert client.post("/toolboxes/a/versions", json=WEB).status_code == 200
        held = subprocess.run([*command, "--data", str(data_dir)], env=environment, capture_output=True, timeout=60)
        assert held.returncode != 0
        assert server.address.encode() in held.stderr


def test_an_interrupted_server_can_be_stopped_by_ctrl_c(data_dir: Path) -> None:
    server = start(data_dir)
    server.process.send_signal(signal.SIGINT)
    server.process.wait(30)
    assert "Traceback" not in server.log.read_text()
