"""What every remote verb shares: the endpoint, the token, the output form and the question before something is lost.

The token comes from TOOLCRIB_TOKEN or, for a server on this machine, from the admin token file in its data directory;
never from the command line. Knows nothing of any single verb.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from toolcrib import errors
from toolcrib.cli import printing
from toolcrib.client.rest import DEFAULT_ENDPOINT, Client, is_loopback

if TYPE_CHECKING:
    from toolcrib.settings import Settings

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Remote:
    """One server and project, and how answers are printed."""

    endpoint: str
    output: str

    def open(self, timeout_s: float = 60.0) -> Client:
        return Client(self.endpoint, find_token(self.endpoint), timeout_s=timeout_s)

    def answers(self, value: object) -> bool:
        """Print `value` when JSON was asked for; else the command prints it its own way."""
        if self.output == "json":
            printing.json(value)
        return self.output == "json"


def remote(command: Callable[Concatenate[Remote, P], None]) -> Callable[..., None]:
    """Give a command `--project-endpoint` and `--output`, and a Remote as its first argument."""

    @click.option(
        "--project-endpoint",
        "endpoint",
        envvar="TOOLCRIB_ENDPOINT",
        default=DEFAULT_ENDPOINT,
        show_default=True,
        show_envvar=True,
        metavar="URL",
        help="The full project endpoint.",
    )
    @click.option(
        "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output form."
    )
    @functools.wraps(command)
    def run(*args: Any, endpoint: str, output: str, **rest: Any) -> None:
        command(Remote(endpoint, output), *args, **rest)

    return run


def find_token(endpoint: str, here: Settings | None = None) -> str | None:
    """TOOLCRIB_TOKEN, else the admin token of the server on this machine (`here`, its settings), else nothing."""
    if token := os.environ.get("TOOLCRIB_TOKEN"):
        return token
    return _admin_token(here) if is_loopback(endpoint) else None


def _admin_token(here: Settings | None) -> str | None:
    from toolcrib import settings  # only where no token was given

    here = here or settings.load()
    try:
        return here.admin_token or (here.data_dir / "admin.token").read_text().strip() or None
    except OSError:
        return None


def confirm(question: str, *, force: bool) -> None:
    """Ask before something is lost; without a terminal only `--force` answers."""
    if force:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: pass --force to go ahead.")
    if not click.confirm(question):
        raise click.Abort


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """`NAME=VALUE` options as a mapping."""
    found: dict[str, str] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"`{value}` is not NAME=VALUE", param_hint=option)
        found[name] = rest
    return found


force = click.option("--force", "-f", is_flag=True, help="Do not ask first.")


class ToolboxName(StringParamType):
    """A toolbox by name, completed by the shell from the server's list."""

    name = "toolbox"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        endpoint = ctx.params.get("endpoint") or os.environ.get("TOOLCRIB_ENDPOINT") or DEFAULT_ENDPOINT
        try:
            with Remote(endpoint, "table").open(timeout_s=1.0) as client:
                return [CompletionItem(box.name) for box in client.toolboxes() if box.name.startswith(incomplete)]
        except errors.ToolcribError:
            return []
