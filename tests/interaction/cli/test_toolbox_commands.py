"""`toolcrib toolbox` as people run it: the life of a toolbox, in the JSON scripts rely on and the text people read."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from command_line import Server, Shell

from toolcrib import errors
from toolcrib.client.rest import Client

CANARY = "canary-1f6c0e"


@pytest.fixture
def name() -> str:
    return f"box-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "toolbox.yaml"
    path.write_text(
        f"""
description: Night shift
tools:
  - type: mcp
    server_label: files
    server_url: http://127.0.0.1:9/mcp
    headers: {{X-Key: {CANARY}}}
  - type: toolbox_search
"""
    )
    return path


def add(tmp_path: Path, **entry: str) -> str:
    path = tmp_path / f"{uuid.uuid4().hex}.json"
    path.write_text(json.dumps({"tools": [{"type": "mcp", "server_url": "http://127.0.0.1:9/mcp", **entry}]}))
    return str(path)


def test_a_toolbox_lives_from_create_to_delete(shell: Shell, server: Server, name: str, manifest: Path) -> None:
    def endpoint(version: str) -> str:
        return f"{server.endpoint}/toolboxes/{name}/versions/{version}/mcp?api-version=v1"

    created = shell.run("toolbox", "create", name, "--from-file", str(manifest), "-o", "json").json
    assert created == {"toolbox": name, "version": "1", "endpoint": endpoint("1")}
    again = shell.run("toolbox", "create", name, "--from-file", str(manifest), "-o", "json").json
    assert again == {"toolbox": name, "version": "2", "endpoint": endpoint("2")}

    shown = shell.run("toolbox", "show", name, "-o", "json").json
    assert shown["toolbox"]["default_version"] == shown["version"]["version"] == "1"
    assert shown["endpoint"] == endpoint("1")

    listed = shell.run("toolbox", "list", "-o", "json").json["toolboxes"]
    assert {"id": shown["toolbox"]["id"], "name": name, "default_version": "1"} in listed

    assert shell.run("toolbox", "publish", name, "2", "-o", "json").json["default_version"] == "2"
    versions = shell.run("toolbox", "versions", "list", name, "-o", "json").json
    assert (versions["toolbox"], versions["default_version"]) == (name, "2")
    newest = versions["versions"][0]
    assert set(newest) == {
        "id",
        "name",
        "version",
        "description",
        "created_at",
        "tools_count",
        "skills_count",
        "is_default",
    }
    assert (newest["version"], newest["tools_count"], newest["is_default"]) == ("2", 2, True)

    assert shell.run("toolbox", "rollback", name, "-o", "json").json["default_version"] == "1"
    moves = shell.run("toolbox", "versions", "promotions", name, "-o", "json").json["promotions"]
    assert [(m["from_version"], m["to_version"]) for m in moves] == [("2", "1"), ("1", "2"), (None, "1")]

    gone = shell.run("toolbox", "delete", name, "--version", "2", "--force", "-o", "json").json
    assert gone == {"name": name, "version": "2", "outcome": "version_deleted"}
    gone = shell.run("toolbox", "rm", name, "--version", "1", "--force", "-o", "json").json
    assert gone == {"name": name, "version": "1", "outcome": "toolbox_cascaded"}
    gone = shell.run("toolbox", "delete", name, "--force", "-o", "json").json
    assert gone == {"name": name, "version": None, "outcome": "already_deleted"}


def test_an_update_branches_from_the_latest_version_and_keeps_what_is_sealed(
    shell: Shell, name: str, manifest: Path, tmp_path: Path
) -> None:
    shell.run("toolbox", "create", name, "--from-file", str(manifest))
    shell.run("toolbox", "update", name, "--from-file", add(tmp_path, server_label="second"))
    third = shell.run("toolbox", "update", name, "--remove", "toolbox_search", "--metadata", "team=night")
    assert third.code == 0, third.err
    assert "version 1 stays the default" in third.err

    shown = shell.run("toolbox", "show", name, "--version", "3", "-o", "json").json["version"]
    assert [entry["server_label"] for entry in shown["tools"]] == ["files", "second"]
    assert (shown["description"], shown["metadata"]) == ("Night shift", {"team": "night"})
    first = shell.run("toolbox", "show", name, "-o", "json").json["version"]
    assert shown["tools"][0]["headers"] == first["tools"][0]["headers"]

    branched = shell.run("toolbox", "update", name, "--description", "Day", "--from-version", "1", "-o", "json").json
    diff = shell.run("toolbox", "diff", name, "1", branched["version"]).out
    assert diff == '~ /description: "Night shift" → "Day"\n'


def test_no_output_ever_holds_a_secret(shell: Shell, name: str, manifest: Path, tmp_path: Path) -> None:
    shell.run("toolbox", "create", name, "--from-file", str(manifest))
    changed = tmp_path / "changed.yaml"
    changed.write_text(manifest.read_text().replace(CANARY, CANARY + "-new"))
    shell.run("toolbox", "update", name, "--from-file", str(changed))
    for arguments in (
        ("show", name),
        ("show", name, "--version", "2"),
        ("versions", "list", name),
        ("diff", name, "1", "2"),
        ("list",),
    ):
        for form in ("table", "json"):
            done = shell.run("toolbox", *arguments, "-o", form)
            assert done.code == 0, done.err
            assert CANARY not in done.out + done.err
    assert "/headers/X-Key: changed" in shell.run("toolbox", "diff", name, "1", "2").out


def test_show_ends_with_the_line_an_agent_s_environment_needs(
    shell: Shell, server: Server, name: str, manifest: Path
) -> None:
    shell.run("toolbox", "create", name, "--from-file", str(manifest))
    line = shell.run("toolbox", "show", name).out.splitlines()[-1]
    assert line == f"TOOLBOX_ENDPOINT={server.endpoint}/toolboxes/{name}/mcp?api-version=v1"
    line = shell.run("toolbox", "show", name, "--version", "1").out.splitlines()[-1]
    assert line == f"TOOLBOX_ENDPOINT={server.endpoint}/toolboxes/{name}/versions/1/mcp?api-version=v1"


def test_what_the_server_warns_about_goes_to_stderr(shell: Shell, name: str, tmp_path: Path) -> None:
    done = shell.run(
        "toolbox", "create", name, "--from-file", add(tmp_path, server_label="a", novelty="1"), "-o", "json"
    )
    assert done.json["version"] == "1"
    assert "warning: " in done.err
    assert "novelty" in done.err


def test_each_failure_has_its_exit_code_and_a_sentence(shell: Shell, name: str, manifest: Path, tmp_path: Path) -> None:
    shell.run("toolbox", "create", name, "--from-file", str(manifest))
    shell.run("toolbox", "update", name, "--description", "two")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("tools: []\nsurprise: 1\n")
    for code, arguments in (
        (3, ("toolbox", "show", "nobody")),
        (3, ("toolbox", "show", name, "--version", "99")),
        (3, ("toolbox", "publish", name, "99")),
        (1, ("toolbox", "delete", name, "--version", "1", "--force")),
        (1, ("toolbox", "rollback", name)),
        (2, ("toolbox", "delete", name)),
        (2, ("toolbox", "create", name, "--from-file", str(wrong))),
        (2, ("toolbox", "create", name, "--from-file", "missing.yaml")),
        (2, ("toolbox", "update", name)),
        (2, ("toolbox", "update", name, "--remove", "nothing")),
        (5, ("toolbox", "list", "--project-endpoint", "http://127.0.0.1:1/api/projects/default")),
        (2, ("toolbox", "list", "--project-endpoint", "http://127.0.0.1:1")),
    ):
        done = shell.run(*arguments)
        assert done.code == code, (arguments, done)
        assert done.err.startswith("error: ")
        assert done.out == ""
    assert shell.with_(TOOLCRIB_TOKEN="wrong").run("toolbox", "list").code == 4


def test_a_rollback_does_not_undo_somebody_else_s_publish(
    shell: Shell, server: Server, name: str, manifest: Path
) -> None:
    shell.run("toolbox", "create", name, "--from-file", str(manifest))
    shell.run("toolbox", "update", name, "--description", "two")
    with Client(server.endpoint, (server.data / "admin.token").read_text().strip()) as client:
        client.publish(name, "2", if_default="1")
        with pytest.raises(errors.PreconditionFailed):
            client.publish(name, "1", if_default="1")


def test_the_shell_completes_toolbox_names(shell: Shell, name: str, manifest: Path) -> None:
    shell.run("toolbox", "create", name, "--from-file", str(manifest))
    words = f"toolcrib toolbox show {name[:7]}"
    completing = shell.with_(_TOOLCRIB_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="3")
    assert f"plain,{name}" in completing.run().out.splitlines()
