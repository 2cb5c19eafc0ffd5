"""`toolcrib autopin`: what is known of a principal's habits in a toolbox, and how to make the server forget it."""

from __future__ import annotations

import click

from toolcrib.cli import printing
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, ToolboxName, remote

_principal = click.option("--principal", metavar="ID", help="Another principal (admins only): a key id, or KEY/USER.")


@click.group(cls=NounGroup)
def autopin() -> None:
    """See and erase what auto-pinning knows."""


@autopin.command()
@click.argument("toolbox", type=ToolboxName())
@_principal
@remote
def show(remote: Remote, toolbox: str, principal: str | None) -> None:
    """Show which tools a principal uses in TOOLBOX, and which are pinned because of it."""
    with remote.open() as client:
        answer = client.autopins(toolbox, principal)
    if not remote.answers(answer):
        rows = ((t.tool, t.calls, t.score, "yes" if t.pinned else "") for t in answer.tools)
        printing.table(("tool", "calls", "score", "pinned"), rows)


@autopin.command()
@click.argument("toolbox", type=ToolboxName())
@_principal
@remote
def erase(remote: Remote, toolbox: str, principal: str | None) -> None:
    """Forget what is known of a principal in TOOLBOX; its pins go at once."""
    with remote.open() as client:
        answer = client.erase_autopins(toolbox, principal)
    if not remote.answers(answer):
        click.echo(f"forgot {answer.tools} tools of {answer.principal} in {answer.name}")
