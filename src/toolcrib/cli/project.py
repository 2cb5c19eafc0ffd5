"""`toolcrib project`: create, list and delete projects (tenants).

Takes the operator's credential; a project's own keys are `toolcrib key`'s business.
"""

from __future__ import annotations

import click

from toolcrib.cli import printing
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, confirm, force, remote


@click.group(cls=NounGroup)
def project() -> None:
    """Create, list and delete projects."""


@project.command()
@click.argument("name")
@remote
def create(remote: Remote, name: str) -> None:
    """Create a project."""
    with remote.open() as client:
        created = client.create_project(name)
        endpoint = f"{client.root}/api/projects/{created.name}"
    if not remote.answers(created):
        click.echo(f"created project `{created.name}`\nTOOLCRIB_ENDPOINT={endpoint}")


@project.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the projects of the server."""
    with remote.open() as client:
        projects = list(client.projects())
    if not remote.answers({"projects": projects}):
        printing.table(("name", "created"), ((p.name, printing.when(p.created_at)) for p in projects))


@project.command()
@click.argument("name")
@force
@remote
def delete(remote: Remote, name: str, force: bool) -> None:
    """Delete a project with all its toolboxes, connections and keys."""
    confirm(f"Delete project `{name}` with everything in it?", force=force)
    with remote.open() as client:
        client.delete_project(name)
    if not remote.answers({"name": name, "outcome": "deleted"}):
        click.echo(f"deleted project `{name}`")
