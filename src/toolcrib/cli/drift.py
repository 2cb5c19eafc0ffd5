"""`toolbox sources` and `toolbox drift`: how the sources behind a toolbox are doing, and what they changed meanwhile.

Prints what the server says; grades and policies are decided there.
"""

from __future__ import annotations

import click

from toolcrib.cli import failures, printing
from toolcrib.cli.remote import Remote, ToolboxName, remote

_version = click.option("--version", metavar="VERSION", help="Look at this version instead of the default one.")


@click.command()
@click.argument("name", type=ToolboxName())
@_version
@click.option("--refresh", is_flag=True, help="Ask every source again first.")
@remote
def sources(remote: Remote, name: str, version: str | None, refresh: bool) -> None:
    """Show the state of each source of a toolbox, and what to do about it."""
    with remote.open() as client:
        answer = client.refresh_sources(name, version) if refresh else client.sources(name, version)
    for warning in answer.warnings:
        failures.warn(warning)
    if not remote.answers(answer):
        rows = ((s.label, s.type, s.status, s.tools, printing.when(s.since), s.reason) for s in answer.sources)
        printing.table(("source", "type", "state", "tools", "since", "reason"), rows)
        for source in answer.sources:
            if source.remedy:
                failures.note(f"{source.label}: {source.remedy}")


@click.command()
@click.argument("name", type=ToolboxName())
@click.option("--accept", metavar="TOOL", help="Serve this tool's changed definition from now on.")
@_version
@remote
def drift(remote: Remote, name: str, accept: str | None, version: str | None) -> None:
    """Show which tools their sources changed since the version was created."""
    with remote.open() as client:
        answer = client.accept_drift(name, accept, version) if accept else client.drift(name, version)
    if remote.answers(answer):
        return
    if accept:
        click.echo(f"accepted the current definition of `{accept}`")
    elif not answer.tools:
        click.echo(f"every tool of version {answer.version} is as it was created with")
    for tool in answer.tools:
        printing.text(f"{tool.tool}  {tool.grade}: {tool.outcome}")
        for change in tool.changes:
            printing.text(f"    {change.grade}  {change.path}  {change.sentence}")
