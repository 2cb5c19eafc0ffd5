"""Nothing is missing from the documentation: every command, option, route, setting and error has its entry."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from toolcrib import errors, settings
from toolcrib.cli.main import toolcrib
from toolcrib.web.routes import ROUTES

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, f"{path} {name}")
    else:
        yield path, command


COMMANDS = dict(commands(toolcrib, "toolcrib"))


def subclasses(kind: type[errors.ToolcribError]) -> Iterator[type[errors.ToolcribError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from subclasses(child)


def test_the_reference_is_what_the_code_says_now() -> None:
    for name, text in generator().pages().items():
        assert (REFERENCE / name).read_text("utf-8") == text, f"run scripts/reference.py: {name} lags behind"


def test_every_command_and_option_is_in_the_reference_and_says_what_it_does() -> None:
    text = (REFERENCE / "cli.md").read_text("utf-8")
    for path, command in COMMANDS.items():
        assert f"\n## {path}\n" in text
        assert command.help, path
        for param in command.params:
            if isinstance(param, click.Option):
                assert param.help, f"{path} {param.opts}"
                assert param.opts[0] in text


def test_every_route_is_in_the_reference() -> None:
    text = (REFERENCE / "rest.md").read_text("utf-8")
    for route in ROUTES:
        assert f"### `{route.method} {route.path}`" in text


def test_every_setting_is_in_the_reference() -> None:
    text = (REFERENCE / "settings.md").read_text("utf-8")
    for setting in settings.SETTINGS:
        assert f"| `{setting.name}` |" in text
        assert setting.sentence, setting.name
        assert not setting.env or f"`{setting.env}`" in text


def test_every_error_is_in_the_reference() -> None:
    text = (REFERENCE / "errors.md").read_text("utf-8")
    for kind in subclasses(errors.ToolcribError):
        assert f"| `{kind.__name__}` | `{kind.code}` |" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_pages_exist(page: Path) -> None:
    for line in command_lines(page):
        words = shlex.split(line, comments=True)
        path = next((p for n in range(len(words), 0, -1) if (p := " ".join(words[:n])) in COMMANDS), None)
        assert path is not None or words[1].startswith("-"), f"{page.name}: no such command: {line}"
        if path is not None:
            known = {"--help", *(name for param in COMMANDS[path].params for name in param.opts)}
            used = {word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)}
            assert used <= known, f"{page.name}: {line}"


def command_lines(page: Path) -> Iterator[str]:
    """The `toolcrib …` lines of a page's shell blocks, with continued lines joined."""
    for block in re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if found := re.match(r"\s*(?:[A-Z_]+=\S+\s+)*(toolcrib\s.*)", line):
                yield re.split(r"\s[|><]|\s<<", found[1])[0]
