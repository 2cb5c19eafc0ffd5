"""What a failure looks like on a terminal: `error:` and `hint:` on stderr, and one exit code per kind.

Scripts may rely on the codes. Knows our error tree and click's, and nothing of any single command.
"""

from __future__ import annotations

import os
import sys
import traceback
from enum import IntEnum

import click

from toolcrib import errors


class ExitCode(IntEnum):
    """The exit codes of every command, and what each says."""

    OK = 0, "done"
    FAILED = 1, "the server refused the request, or it failed"
    USAGE = 2, "the command line, a file or a setting is wrong; nothing was sent"
    NOT_FOUND = 3, "the named thing does not exist"
    AUTH = 4, "no valid credential, or one without the right"
    UNREACHABLE = 5, "no server answered at the endpoint"
    INTERRUPTED = 130, "stopped by the keyboard"

    sentence: str

    def __new__(cls, value: int, sentence: str) -> ExitCode:
        member = int.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member


EPILOG = "Exit codes: " + " · ".join(f"{code.value} {code.sentence}" for code in ExitCode) + "."


def report(error: BaseException) -> int:
    """Say what went wrong and answer the exit code."""
    if isinstance(error, click.exceptions.Abort):
        _say("error", "interrupted")
        return ExitCode.INTERRUPTED
    if isinstance(error, click.ClickException):
        return _report_usage(error)
    if isinstance(error, errors.ToolcribError):
        _say("error", _sentence(error))
        _say("hint", error.hint or _usual_hint(error))
        return exit_code(type(error))
    _say("error", f"unexpected {type(error).__name__}: {error}")
    _say("hint", "this is a bug in toolcrib; run again with TOOLCRIB_DEBUG=1 and report what it prints")
    if os.environ.get("TOOLCRIB_DEBUG"):
        traceback.print_exception(error)
    return ExitCode.FAILED


def warn(message: str) -> None:
    """A warning on stderr; the command goes on."""
    _say("warning", message)


def note(message: str) -> None:
    """A remark for a person, on stderr, so that stdout stays data."""
    _say("note", message)


def _report_usage(error: click.ClickException) -> int:
    _say("error", error.format_message())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        _say("hint", f"see `{error.ctx.command_path} --help`")
    return ExitCode.USAGE


def exit_code(kind: type[errors.ToolcribError]) -> ExitCode:
    """The exit code of a kind of error."""
    from toolcrib.client.rest import NoServer  # only a failed remote verb pays for it, and has already

    if issubclass(kind, errors.NotFound):
        return ExitCode.NOT_FOUND
    if issubclass(kind, errors.AccessError):
        return ExitCode.AUTH
    if issubclass(kind, NoServer):
        return ExitCode.UNREACHABLE
    return ExitCode.USAGE if issubclass(kind, errors.BadSettings) else ExitCode.FAILED


def _sentence(error: errors.ToolcribError) -> str:
    """The message, with the field at fault where it does not say it itself."""
    if isinstance(error, errors.InvalidPayload) and error.param and error.param not in error.message:
        return f"{error.message} (at `{error.param}`)"
    return error.message


def _usual_hint(error: errors.ToolcribError) -> str | None:
    if isinstance(error, errors.Unauthenticated):
        return "set TOOLCRIB_TOKEN to an API key of this project, or to the admin token"
    if isinstance(error, errors.PreconditionFailed):
        return "somebody else changed it meanwhile; look again, then repeat"
    return None


def _say(word: str, message: str | None) -> None:
    if message is None:
        return
    plain = "NO_COLOR" in os.environ or not sys.stderr.isatty()
    colour = {"error": "red", "warning": "yellow"}.get(word, "cyan")
    click.echo(f"{word if plain else click.style(word, fg=colour, bold=True)}: {message}", err=True)
