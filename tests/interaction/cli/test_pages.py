"""What the README and the tutorial tell people to type works as written, from the first line to the last."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from command_line import Server, Shell

ROOT = Path(__file__).parents[3]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def command_lines(page: Path) -> Iterator[list[str]]:
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("toolcrib "):
                yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_every_command_of_the_page_works_as_written(
    name: str, workshop: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(ROOT / name, "yaml"):
        Path(block.partition("\n")[0].removeprefix("# ")).write_text(block)
    for words in command_lines(ROOT / name):
        done = workshop.run(*words)
        assert done.code == 0, (words, done.err)


def test_the_readme_s_curl_call_finds_a_tool(demo: Server) -> None:
    block = next(block for block in blocks(ROOT / "README.md", "sh") if "curl" in block)
    token = (demo.data / "admin.token").read_text().strip()
    words = shlex.split(block.replace("\\\n", " ").replace("$TOKEN", token).partition("\n")[2])
    headers = dict(words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H")
    url = next(word for word in words if word.startswith("http")).replace("http://127.0.0.1:8700", demo.address)
    answer = httpx2.post(url, headers=headers, content=words[words.index("-d") + 1], trust_env=False)
    assert answer.is_success, answer.text
    found = [tool["name"] for tool in answer.json()["result"]["structuredContent"]["tools"]]
    assert "units.convert_length" in found


def test_the_tutorial_s_program_lists_the_tools(demo: Server, workshop: Shell, tmp_path: Path) -> None:
    manifest = tmp_path / "one.yaml"
    manifest.write_text("tools: [{type: mcp, server_label: units, server_url: 'stdio://demo-units'}]")
    assert workshop.run("toolbox", "create", "program", "--from-file", str(manifest)).code == 0
    program = next(iter(blocks(ROOT / "docs" / "tutorial.md", "python")))
    environment = {
        **workshop.environment,
        "TOOLCRIB_TOKEN": (demo.data / "admin.token").read_text().strip(),
        "TOOLBOX_ENDPOINT": f"{demo.endpoint}/toolboxes/program/mcp?api-version=v1",
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert "units.convert_length" in done.stdout, done.stderr
