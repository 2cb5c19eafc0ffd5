"""`toolcrib connection`, `tool`, `up` and `serve --stdio` as people run them, on the demo toolbox."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import Server, Shell, clean_environment

CANARY = "canary-7d2a91"


def test_a_tool_is_called_by_its_name(workshop: Shell) -> None:
    assert "units.convert_length" in workshop.run("tool", "list", "workshop", "--all").out
    arguments = ("--arg", "value=10", "--arg", "from_unit=km", "--arg", "to_unit=m")
    done = workshop.run("tool", "call", "workshop", "units.convert_length", *arguments)
    assert (done.code, float(done.out)) == (0, 10000.0)
    given = json.dumps({"value": 10, "from_unit": "km", "to_unit": "m"})
    assert workshop.run("tool", "call", "workshop", "units.convert_length", "-", stdin=given).out == done.out


def test_a_tool_that_says_no_fails_the_command(workshop: Shell) -> None:
    arguments = ("--arg", "value=10", "--arg", "from_unit=parsec", "--arg", "to_unit=m")
    done = workshop.run("tool", "call", "workshop", "units.convert_length", *arguments)
    assert (done.code, done.out) == (1, "")
    assert "units.convert_length" in done.err
    assert workshop.run("tool", "call", "workshop", "units.nothing").code == 1
    assert workshop.run("tool", "call", "workshop", "units.convert_length", "[1]").code == 2
    assert workshop.run("tool", "list", "nobody").code == 3


def test_sources_and_drift_are_shown(workshop: Shell) -> None:
    workshop.run("tool", "list", "workshop")
    sources = workshop.run("toolbox", "sources", "workshop", "--refresh", "-o", "json").json["sources"]
    assert {"units", "clock"} <= {source["label"] for source in sources}
    assert {source["status"] for source in sources} == {"ok"}
    assert workshop.run("toolbox", "sources", "workshop").code == 0
    drift = workshop.run("toolbox", "drift", "workshop", "-o", "json").json
    assert (drift["name"], drift["version"]) == ("workshop", "1")
    assert not [tool for tool in drift["tools"] if tool["tool"].startswith("units.")]
    assert workshop.run("toolbox", "drift", "workshop").code == 0
    assert workshop.run("toolbox", "drift", "workshop", "--accept", "units.nothing").code == 3


def test_a_connection_lives_without_ever_showing_its_secret(workshop: Shell, demo: Server) -> None:
    secretive = workshop.with_(CRM_KEY=CANARY)
    place = ("--kind", "api-key", "--target", "http://127.0.0.1:9/mcp")
    outputs = [
        secretive.run("connection", "add", "crm", *place, "--key-env", "CRM_KEY", "-o", "json"),
        workshop.run("connection", "add", "crm", *place, "--secrets-stdin", stdin=CANARY + "\n"),
        workshop.run("connection", "list", "-o", "json"),
        workshop.run("connection", "ls"),
        workshop.run("connection", "show", "crm"),
        workshop.run("connection", "show", "crm", "-o", "json"),
    ]
    for done in outputs:
        assert done.code == 0, done.err
        assert CANARY not in done.out + done.err
    assert workshop.run("connection", "test", "crm").code == 1
    updated = workshop.run("connection", "update", "crm", "--kind", "none", "--target", "http://127.0.0.1:8/mcp")
    assert updated.code == 0, updated.err
    shown = workshop.run("connection", "show", "crm", "-o", "json").json
    assert (shown["target"], shown["credentials"]) == ("http://127.0.0.1:8/mcp", {"type": "None"})
    assert workshop.run("connection", "remove", "crm").code == 2
    assert workshop.run("connection", "rm", "crm", "--force").code == 0
    assert workshop.run("connection", "show", "crm").code == 3
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in demo.data.rglob("*") if path.is_file())


def test_a_manifest_may_name_a_connection_instead_of_an_entry(workshop: Shell, tmp_path: Path) -> None:
    workshop.run("connection", "add", "lab", "--kind", "none", "--target", "http://127.0.0.1:9/mcp")
    manifest = tmp_path / "m.yaml"
    manifest.write_text("connections: [{name: lab}]")
    assert workshop.run("toolbox", "create", "from-connection", "--from-file", str(manifest)).code == 0
    entry = workshop.run("toolbox", "show", "from-connection", "-o", "json").json["version"]["tools"][0]
    assert (entry["type"], entry["server_label"], entry["server_url"]) == ("mcp", "lab", "http://127.0.0.1:9/mcp")
    manifest.write_text("connections: [{name: nowhere}]")
    assert workshop.run("toolbox", "create", "x", "--from-file", str(manifest)).code == 3


def conversation(*messages: dict[str, object]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def test_stdio_bridges_to_the_server_that_holds_the_data(demo: Server) -> None:
    call = {"name": "units.convert_length", "arguments": {"value": 1, "from_unit": "km", "to_unit": "m"}}
    asked = conversation({"id": 1, "method": "ping"}, {"id": "b", "method": "tools/call", "params": call})
    done = Shell(clean_environment()).run("serve", "--stdio", "workshop", "--data", str(demo.data), stdin=asked)
    answers = {answer["id"]: answer for answer in map(json.loads, done.out.splitlines())}
    assert done.code == 0, done.err
    assert answers[1]["result"] == {}
    assert answers["b"]["result"]["content"][0]["text"] == "1000.0"


def test_stdio_without_a_server_opens_the_data_itself_and_leaves_it_free(tmp_path: Path) -> None:
    shell = Shell(clean_environment())
    data = ("--data", str(tmp_path / "alone"))
    done = shell.run("serve", "--stdio", "nobody", *data)
    assert done.code == 3
    assert "nobody" in done.err
    assert shell.run("migrate", *data).code == 0
