"""`toolbox sources` and `toolbox drift`: how the sources behind a toolbox are doing, and what they changed meanwhile.

Prints what the server says; grades and policies are decided there.
"""

from __future__ import annotations

from typing import cast

import click

from toolcrib import wire
from toolcrib.cli import failures, printing
from toolcrib.cli.remote import Remote, ToolboxName, remote


@click.command()
@click.argument("name", type=ToolboxName())
@remote
def sources(remote: Remote, name: str) -> None:
    """Show the state of each source of a toolbox, and what to do about it."""
    with remote.open() as client:
        states = client.sources(name)
    if not remote.answers({"toolbox": name, "sources": states}):
        rows = ((s.label, s.type, s.status.value, s.tools, printing.when(s.since), s.reason) for s in states)
        printing.table(("source", "type", "state", "tools", "since", "reason"), rows)
        for state in states:
            if state.remedy:
                failures.note(f"{state.label}: {state.remedy}")


@click.command()
@click.argument("name", type=ToolboxName())
@click.option("--accept", metavar="TOOL", help="Serve this tool's changed definition from now on.")
@remote
def drift(remote: Remote, name: str, accept: str | None) -> None:
    """Show which tools their sources changed since the version was created."""
    with remote.open() as client:
        answer = client.accept_drift(name, accept) if accept else client.drift(name)
    if remote.answers(answer):
        return
    if accept:
        click.echo(f"accepted the current definition of `{accept}`")
        return
    changes = cast("list[wire.JsonObject]", answer.get("drift", []))
    printing.table(
        ("tool", "grade", "state", "change"),
        ((c.get("tool", ""), c.get("grade", ""), c.get("state", ""), c.get("reason", "")) for c in changes),
    )
