"""`toolcrib key`: issue, list and revoke API keys of a project. Knows no role's meaning; the server does."""

from __future__ import annotations

from typing import cast, get_args

import click

from toolcrib import wire
from toolcrib.cli import failures, printing
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, confirm, force, remote


@click.group(cls=NounGroup)
def key() -> None:
    """Issue and revoke API keys."""


@key.command()
@click.option("--role", type=click.Choice(get_args(wire.RoleName)), required=True, help="What the key may do.")
@click.option("--label", default="", help="A note to recognise the key by.")
@click.option("--act-for-users", is_flag=True, help="The key may name its end user in X-Toolcrib-User.")
@remote
def create(remote: Remote, role: str, label: str, act_for_users: bool) -> None:
    """Issue an API key. Its secret is printed once, now."""
    with remote.open() as client:
        issued = client.create_key(cast("wire.RoleName", role), label=label, act_for_users=act_for_users)
    if not remote.answers(issued):
        click.echo(issued.key)
        failures.note(f"key `{issued.id}` ({issued.role}); the line above is shown only once")


@key.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the project's keys, without their secrets."""
    with remote.open() as client:
        keys = list(client.keys())
    if not remote.answers({"keys": keys}):
        printing.table(
            ("id", "role", "label", "act for users", "created", "revoked"),
            (
                (
                    k.id,
                    k.role,
                    k.label,
                    "yes" if k.act_for_users else "no",
                    *map(printing.when, (k.created_at, k.revoked_at)),
                )
                for k in keys
            ),
        )


@key.command()
@click.argument("id")
@force
@remote
def revoke(remote: Remote, id: str, force: bool) -> None:
    """Revoke a key; requests that use it are refused from now on."""
    confirm(f"Revoke key `{id}`?", force=force)
    with remote.open() as client:
        client.revoke_key(id)
    if not remote.answers({"id": id, "outcome": "revoked"}):
        click.echo(f"revoked key `{id}`")
