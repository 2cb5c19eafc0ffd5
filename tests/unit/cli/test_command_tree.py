"""The command as a whole: its table tells the truth, it starts without the server, and it fails in sentences."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from toolcrib import errors
from toolcrib.cli import failures, printing
from toolcrib.cli.main import COMMANDS, run, toolcrib
from toolcrib.client.rest import NoServer

HEAVY = ("numpy", "httpx2", "httptools", "mcp", "toolcrib.app", "toolcrib.web", "toolcrib.search.engine", "yaml")
SERVER = ("numpy", "httptools", "mcp", "toolcrib.app", "toolcrib.web", "toolcrib.search.engine", "toolcrib.storage")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_sentence_in_the_table_is_the_command_s_own(name: str) -> None:
    command = toolcrib.get_command(click.Context(toolcrib), name)
    assert command is not None
    assert command.get_short_help_str(200) == COMMANDS[name][1]


def loaded_after(*arguments: str) -> set[str]:
    program = (
        "import sys; from toolcrib.cli.main import run\n"
        "try: run(sys.argv[1:])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--help",), ("toolbox", "list", "--help"), ("toolbox", "create")])
def test_help_and_a_wrong_command_line_load_neither_server_nor_http_client(arguments: tuple[str, ...]) -> None:
    assert not loaded_after(*arguments).intersection(HEAVY)


def test_a_remote_verb_does_not_load_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_TOKEN", "none")
    loaded = loaded_after("toolbox", "list", "--project-endpoint", "http://127.0.0.1:1/api/projects/default")
    assert "httpx2" in loaded
    assert not loaded.intersection(SERVER)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NotFound("x"), 3),
        (errors.Unauthenticated("x"), 4),
        (errors.Forbidden("x"), 4),
        (NoServer("x"), 5),
        (errors.Unreachable("x"), 1),
        (errors.BadRequest("x"), 1),
        (errors.BadSettings("x"), 2),
        (click.UsageError("x"), 2),
        (click.Abort(), 130),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_each_kind_of_failure_has_its_exit_code(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failures.report(error) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert "Traceback" not in printed.err


def test_a_hint_follows_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    failures.report(errors.BadRequest("no", hint="do this"))
    assert capsys.readouterr().err == "error: no\nhint: do this\n"


def test_a_wrong_command_line_is_a_sentence_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["toolbox", "create"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "hint: see `toolcrib toolbox create --help`"


def test_a_token_cannot_be_given_on_the_command_line() -> None:
    def options(command: click.Command) -> set[str]:
        names = {name for param in command.params for name in param.opts}
        if isinstance(command, click.Group):
            ctx = click.Context(command)
            for name in command.list_commands(ctx):
                child = command.get_command(ctx, name)
                assert child is not None
                names |= options(child)
        return names

    assert not options(toolcrib) & {"--token", "--key", "--secret", "--password", "--admin-token", "--seal-key"}


def test_terminal_commands_in_foreign_text_are_made_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    printing.table(("tool",), [("\x1b[2Jevil\r\x9b1m\u202e",)])
    assert capsys.readouterr().out == "TOOL\n�[2Jevil��1m�\n"
