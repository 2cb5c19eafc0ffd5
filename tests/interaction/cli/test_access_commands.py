"""`toolcrib key`, `project`, `serve` and `migrate` as people run them."""

from __future__ import annotations

import uuid
from pathlib import Path

from command_line import Server, Shell


def test_a_key_opens_what_its_role_may_and_nothing_after_it_is_revoked(shell: Shell, tmp_path: Path) -> None:
    issued = shell.run("key", "create", "--role", "viewer", "--label", "watcher", "-o", "json").json
    viewer = shell.with_(TOOLCRIB_TOKEN=issued["key"])
    assert viewer.run("toolbox", "list").code == 0
    manifest = tmp_path / "m.yaml"
    manifest.write_text("tools: [{type: web_search}]")
    assert viewer.run("toolbox", "create", "x", "--from-file", str(manifest)).code == 4
    assert viewer.run("key", "list").code == 4

    listed = shell.run("key", "ls", "-o", "json")
    assert issued["id"] in [key["id"] for key in listed.json["keys"]]
    assert issued["key"] not in listed.out

    assert shell.run("key", "revoke", issued["id"]).code == 2
    assert shell.run("key", "revoke", issued["id"], "--force").code == 0
    assert viewer.run("toolbox", "list").code == 4


def test_a_key_is_the_only_thing_on_stdout(shell: Shell) -> None:
    done = shell.run("key", "create", "--role", "agent", "--act-for-users")
    assert len(done.out.splitlines()) == 1
    assert shell.with_(TOOLCRIB_TOKEN=done.out.strip()).run("toolbox", "list").code == 0


def test_a_project_is_a_place_of_its_own(shell: Shell, server: Server, tmp_path: Path) -> None:
    name = f"p-{uuid.uuid4().hex[:8]}"
    created = shell.run("project", "create", name)
    assert created.out.splitlines()[-1] == f"TOOLCRIB_ENDPOINT={server.address}/api/projects/{name}"
    assert name in [p["name"] for p in shell.run("project", "list", "-o", "json").json["projects"]]

    inside = shell.with_(TOOLCRIB_ENDPOINT=f"{server.address}/api/projects/{name}")
    manifest = tmp_path / "m.yaml"
    manifest.write_text("tools: [{type: web_search}]")
    assert inside.run("toolbox", "create", "only-here", "--from-file", str(manifest)).code == 0
    assert "only-here" not in shell.run("toolbox", "list").out

    key = inside.run("key", "create", "--role", "admin").out.strip()
    assert shell.with_(TOOLCRIB_TOKEN=key).run("toolbox", "list").code == 4
    assert shell.with_(TOOLCRIB_TOKEN=key).run("project", "create", "other").code == 4

    assert shell.run("project", "delete", name, "--force").code == 0
    assert inside.run("toolbox", "list").code == 3


def test_a_second_server_on_the_same_data_says_where_the_first_is(shell: Shell, server: Server) -> None:
    done = shell.run("serve", "--port", "0", "--data", str(server.data))
    assert done.code == 1
    assert server.address in done.err
    assert "hint: " in done.err


def test_migrate_can_run_twice(shell: Shell, tmp_path: Path) -> None:
    first = shell.run("migrate", "--data", str(tmp_path / "fresh"))
    assert (first.code, first.out.splitlines()[0][:12]) == (0, "applied 0001")
    assert shell.run("migrate", "--data", str(tmp_path / "fresh")).out == "nothing to do: the schema is current\n"


def test_a_wrong_setting_is_named(shell: Shell, tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text("prot = 1\n")
    done = shell.run("serve", "--config", str(config), "--data", str(tmp_path))
    assert (done.code, "prot" in done.err) == (2, True)
