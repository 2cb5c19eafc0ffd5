"""`toolcrib connection`: declare how upstreams know this server. Kinds: none, api-key and custom-keys.

A secret comes from a hidden prompt, from stdin or from a named environment variable; never from the command line,
where other processes and the shell's history could read it.
"""

from __future__ import annotations

import click

from toolcrib import errors, wire
from toolcrib.cli import printing
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, confirm, force, pairs, remote
from toolcrib.cli.secrets import AUTH_TYPES, SecretSource, secret_options

_metadata = click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata; repeatable.")


@click.group(cls=NounGroup)
def connection() -> None:
    """Say how upstreams know this server."""


@connection.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(list(AUTH_TYPES)), required=True, help="How the upstream knows us.")
@click.option("--target", required=True, metavar="URL", help="The upstream's address.")
@click.option("--category", default="RemoteTool", show_default=True, help="What stands at the other end.")
@_metadata
@secret_options
@remote
def add(
    remote: Remote, name: str, kind: str, target: str, category: str, metadata: tuple[str, ...], secrets: SecretSource
) -> None:
    """Add a connection, or replace the one of that name."""
    properties = wire.ConnectionProperties(
        authType=AUTH_TYPES[kind],
        category=category,
        target=target,
        metadata=pairs(metadata, "--metadata"),
        credentials=secrets.read(kind),
    )
    with remote.open() as client:
        added = client.put_connection(name, properties)
    if not remote.answers(added):
        click.echo(f"added connection `{name}` ({kind}) to {target}")


@connection.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the connections of the project, without their secrets."""
    with remote.open() as client:
        found = client.connections()
    if not remote.answers({"connections": found}):
        rows = ((c.name, c.type, c.credentials.get("type", "-"), c.target) for c in found)
        printing.table(("name", "category", "auth", "target"), rows)


@connection.command()
@click.argument("name")
@remote
def show(remote: Remote, name: str) -> None:
    """Show a connection. Secrets can be written, never read."""
    with remote.open() as client:
        found = client.connection(name)
    if not remote.answers(found):
        click.echo(f"connection  {name}\ncategory    {found.type}\ntarget      {found.target}")
        click.echo(f"auth        {found.credentials.get('type', '-')}\nid          {found.id}")
        for key, value in found.metadata.items():
            printing.text(f"metadata    {key}={value}")


@connection.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(list(AUTH_TYPES)), help="Change the kind.")
@click.option("--target", metavar="URL", help="Change the upstream's address.")
@_metadata
@secret_options
@remote
def update(
    remote: Remote, name: str, kind: str | None, target: str | None, metadata: tuple[str, ...], secrets: SecretSource
) -> None:
    """Change a connection. What you do not name stays, except its secrets.

    Secrets cannot be read back, so a connection that has some needs them again.
    """
    with remote.open() as client:
        now = client.connection(name)
        spoken = kind or next(word for word, wired in AUTH_TYPES.items() if wired == now.credentials["type"])
        properties = wire.ConnectionProperties(
            authType=AUTH_TYPES[spoken],
            category=now.type,
            target=target or now.target,
            metadata={**now.metadata, **pairs(metadata, "--metadata")},
            credentials=secrets.read(spoken),
        )
        changed = client.put_connection(name, properties)
    if not remote.answers(changed):
        click.echo(f"changed connection `{name}`")


@connection.command()
@click.argument("name")
@force
@remote
def remove(remote: Remote, name: str, force: bool) -> None:
    """Remove a connection; entries that name it fail from now on."""
    confirm(f"Remove connection `{name}`?", force=force)
    with remote.open() as client:
        client.delete_connection(name)
    if not remote.answers({"name": name, "outcome": "removed"}):
        click.echo(f"removed connection `{name}`")


@connection.command()
@click.argument("name")
@remote
def test(remote: Remote, name: str) -> None:
    """Ask the upstream behind a connection whether it answers to us."""
    with remote.open() as client:
        found = client.test_connection(name)
    shown = remote.answers(found)
    if found.status != "ok":
        reason = printing.clean(found.reason) or found.status
        raise errors.SourceError(f"connection `{name}`: {reason}", source=name, hint=found.remedy or None)
    if not shown:
        click.echo(f"connection `{name}` works; its upstream offers {found.tools} tools")
