"""`toolcrib skill` and `toolcrib toolbox skill` as people run them: the seed's table, line by line."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx2
import pytest
from skill_kit import create, md, read, rpc
from tests.interaction.cli.command_line import Done

from kit.running import Server, clean_environment

CALL_S = 60


class Shell:
    def __init__(self, server: Server) -> None:
        self._environment = clean_environment(TOOLCRIB_ENDPOINT=server.endpoint, TOOLCRIB_TOKEN=server.token)

    def __call__(self, *arguments: str | Path) -> Done:
        command = [str(Path(sys.executable).with_name("toolcrib")), *map(str, arguments)]
        done = subprocess.run(
            command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CALL_S,
        )
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def toolcrib(server: Server) -> Shell:
    return Shell(server)


def folder(root: Path, name: str, description: str = "For tests.", **files: bytes) -> Path:
    path = root / name
    path.mkdir(parents=True)
    (path / "SKILL.md").write_bytes(md(name, description))
    for spelt, data in files.items():
        target = path / spelt.replace("__", "/").replace("_dot_", ".")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return path


def test_the_recipe_of_the_seed(toolcrib: Shell, client: httpx2.Client, name: str, tmp_path: Path) -> None:
    """Create, attach, promote, verify; then change the skill, and agents have it with no republish."""
    source = folder(tmp_path, name, "First.", references__a_dot_md=b"A")
    manifest = tmp_path / "tools.json"
    manifest.write_text(json.dumps({"tools": [{"type": "web_search", "name": "web"}]}))
    assert toolcrib("toolbox", "create", name, "--from-file", manifest).code == 0

    made = toolcrib("skill", "create", name, "--file", source, "-o", "json").json
    assert (made["skill"], made["version"], made["files"]) == (name, "1", 2)
    added = toolcrib("toolbox", "skill", "add", name, name, "-o", "json").json
    assert added == {"toolbox": name, "version": "2", "skills": [{"type": "skill_reference", "name": name}]}
    assert toolcrib("toolbox", "show", name, "-o", "json").json["toolbox"]["default_version"] == "1"
    assert toolcrib("toolbox", "publish", name, "2").code == 0
    listed = toolcrib("toolbox", "skill", "list", name, "-o", "json").json
    assert listed["skills"] == [{"name": name, "version": None, "means": "1"}]
    assert "First." in read(client, name, f"skill://{name}/SKILL.md")["text"]

    (source / "SKILL.md").write_bytes(md(name, "Second."))
    assert toolcrib("skill", "update", name, "--file", source).code == 0
    assert "Second." in read(client, name, f"skill://{name}/SKILL.md")["text"]

    removed = toolcrib("toolbox", "skill", "remove", name, name, "--force", "-o", "json").json
    assert (removed["version"], removed["skills"]) == ("3", [])
    assert len(rpc(client, name, "resources/list")["result"]["resources"]) == 2
    assert toolcrib("toolbox", "publish", name, "3").code == 0
    assert rpc(client, name, "resources/list")["result"]["resources"] == []


def test_skills_are_pinned_repinned_and_added_from_a_file(
    toolcrib: Shell, client: httpx2.Client, name: str, tmp_path: Path
) -> None:
    for each in (f"{name}-a", f"{name}-b"):
        create(client, each)
        create(client, each)
    manifest = tmp_path / "box.yaml"
    manifest.write_text(f"skills:\n  - name: {name}-a\n")
    assert toolcrib("toolbox", "create", name, "--from-file", manifest).code == 0

    more = tmp_path / "more.yaml"
    more.write_text(f'skills:\n  - name: {name}-a\n    version: "1"\n  - name: {name}-b\n')
    assert toolcrib("toolbox", "skill", "add", name, "--from-file", more).code == 0
    rows = toolcrib("toolbox", "skill", "list", name, "-o", "json").json["skills"]
    assert rows == [
        {"name": f"{name}-a", "version": "1", "means": "1"},
        {"name": f"{name}-b", "version": None, "means": "2"},
    ]
    assert toolcrib("toolbox", "skill", "add", name, f"{name}-b@1", f"{name}-a").code == 0
    versions = toolcrib("toolbox", "versions", "list", name, "-o", "json").json
    assert (len(versions["versions"]), versions["default_version"]) == (3, "1")
    shown = toolcrib("toolbox", "skill", "list", name).out
    assert f"{name}-b  1" in shown

    assert toolcrib("toolbox", "skill", "add", name, "no-such-skill").code == 1
    assert toolcrib("toolbox", "skill", "add", name, "Bad_Name").code == 2
    assert toolcrib("toolbox", "skill", "add", name).code == 2
    assert toolcrib("toolbox", "skill", "remove", name, "not-attached", "--force").code == 3
    assert toolcrib("toolbox", "skill", "remove", name, f"{name}-a").code == 2  # nobody to ask
    both = toolcrib("toolbox", "skill", "remove", name, f"{name}-a", f"{name}-b", "--force")
    assert both.code == 1  # nothing would be left
    assert "at least one tool or one skill" in both.err


def test_a_skill_goes_up_as_folder_zip_or_file_and_comes_down_the_same(
    toolcrib: Shell, name: str, tmp_path: Path
) -> None:
    source = folder(tmp_path / "in", name, scripts__run_dot_py=b"print()\r\n", _dot_hidden=b"\0")
    first = toolcrib("skill", "create", name, "--file", source, "-o", "json").json
    down = toolcrib("skill", "download", name, "--output-dir", tmp_path / "out", "-o", "json").json
    assert down["path"] == str(tmp_path / "out" / name)

    def tree(root: Path) -> dict[str, bytes]:
        return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    assert tree(tmp_path / "out" / name) == tree(source)
    assert toolcrib("skill", "download", name, "--output-dir", tmp_path / "out").code == 2
    assert toolcrib("skill", "download", name, "--output-dir", tmp_path / "out", "--force").code == 0
    assert toolcrib("skill", "download", name, "--raw", "--output-dir", tmp_path / "out").code == 0
    packed = tmp_path / "out" / f"{name}.zip"
    assert zipfile.ZipFile(packed).namelist() == sorted(tree(source))

    refused = toolcrib("skill", "create", name, "--file", packed)
    assert (refused.code, "skill update" in refused.err) == (1, True)
    again = toolcrib("skill", "create", name, "--file", packed, "--force", "-o", "json").json
    assert (again["version"], again["digest"]) == ("2", first["digest"])
    kept = toolcrib("skill", "update", name, "--file", source / "SKILL.md", "--keep-default")
    assert (kept.code, "version 2 stays the default" in kept.err) == (0, True)
    moved = toolcrib("skill", "update", name, "--set-default-version", "3", "-o", "json").json
    assert moved["default_version"] == "3"
    shown = toolcrib("skill", "show", name, "-o", "json").json
    assert (shown["version"]["version"], shown["versions"]) == ("3", ["3", "2", "1"])
    assert "SKILL.md" in toolcrib("skill", "show", name, "--version", "1").out
    assert name in toolcrib("skill", "list").out


def test_a_skill_is_made_of_two_texts_too(toolcrib: Shell, name: str) -> None:
    made = toolcrib("skill", "create", name, "--description", "When.", "--instructions", "How.", "-o", "json").json
    assert made["files"] == 1
    assert toolcrib("skill", "create", name, "--description", "When.").code == 2
    assert toolcrib("skill", "show", "no-such-skill").code == 3


def test_a_skill_in_use_is_deleted_only_when_that_is_said(toolcrib: Shell, client: httpx2.Client, name: str) -> None:
    create(client, name)
    client.post(
        f"/toolboxes/{name}/versions", json={"tools": [], "skills": [{"type": "skill_reference", "name": name}]}
    )
    assert toolcrib("skill", "delete", name).code == 2  # nobody to ask
    assert "is used by the default version" in toolcrib("skill", "delete", name, "--force").err
    assert toolcrib("skill", "delete", name, "--force", "--in-use").code == 0
    assert toolcrib("toolbox", "skill", "list", name, "-o", "json").json["skills"][0]["means"] == "missing"


def test_skills_are_brought_in_from_where_agent_tools_keep_them(
    toolcrib: Shell, client: httpx2.Client, name: str, tmp_path: Path
) -> None:
    names = [f"{name}-{n}" for n in range(5)]
    places = ("", "skills", ".agents/skills", ".claude/skills", ".github/skills")
    for each, place in zip(names, places, strict=True):
        folder(tmp_path / place, each)
    (tmp_path / ".claude/skills" / names[2]).symlink_to(tmp_path / ".agents/skills" / names[2])
    broken = tmp_path / ".claude/skills" / "broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text("no head")
    (tmp_path / "not-a-skill").mkdir()

    done = toolcrib("skill", "import", tmp_path, "-o", "json")
    assert done.code == 1
    assert "broken" in done.err
    outcomes = {row["name"]: row["outcome"] for row in json.loads(done.out)["skills"]}
    assert outcomes == {**dict.fromkeys(names, "created"), "broken": "refused"}
    (broken / "SKILL.md").unlink()
    (tmp_path / "skills" / names[1] / "more.md").write_text("more")
    again = toolcrib("skill", "import", tmp_path, "-o", "json").json["skills"]
    assert {row["name"]: row["outcome"] for row in again} == {
        **dict.fromkeys(names, "unchanged"),
        names[1]: "updated",
    }
    assert client.get(f"/skills/{names[1]}").json()["default_version"] == "2"
    assert toolcrib("skill", "import", tmp_path / "not-a-skill").code == 2


def test_a_link_inside_a_skill_is_not_followed(
    toolcrib: Shell, client: httpx2.Client, name: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    source = folder(tmp_path, name)
    (source / "link.txt").symlink_to(secret)
    done = toolcrib("skill", "create", name, "--file", source)
    assert (done.code, "link.txt" in done.err) == (1, True)
    (source / "link.txt").unlink()
    (source / "folder").symlink_to(tmp_path)
    assert "folder" in toolcrib("skill", "create", name, "--file", source).err
    assert client.get(f"/skills/{name}").status_code == 404
