"""`toolcrib toolbox`: create, change, show, list and delete toolboxes; `versions` holds what moves and compares them.

A change branches from the latest version unless told otherwise, and never moves the default.
"""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from toolcrib import errors, wire
from toolcrib.cli import attached, drift, failures, manifest, printing, versions
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, ToolboxName, confirm, force, pairs, remote
from toolcrib.client.rest import Client

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_metadata = click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of the version; repeatable.")


@click.group(cls=NounGroup)
def toolbox() -> None:
    """Create, publish, compare and delete toolboxes."""


@toolbox.command()
@click.argument("name")
@click.option("--from-file", "file", type=_FILE, required=True, help="Manifest: .json, .yaml or .yml.")
@_metadata
@remote
def create(remote: Remote, name: str, file: Path, metadata: tuple[str, ...]) -> None:
    """Create a version from a manifest; the first one creates the toolbox.

    The manifest is the whole content of the version. Where the toolbox exists, this adds a version beside the others
    and leaves the default where it is; `toolbox publish` moves it.
    """
    described = manifest.read(file)
    with remote.open() as client:
        content = manifest.content(described, client.connection, pairs(metadata, "--metadata"))
        _report_created(remote, client, client.create_version(name, content))


@toolbox.command()
@click.argument("name", type=ToolboxName())
@click.option(
    "--from-file", "file", type=_FILE, help="Manifest whose entries are added, or replace those of that name."
)
@click.option("--remove", multiple=True, metavar="ENTRY", help="Leave this entry out; repeatable.")
@click.option("--description", help="The version's description.")
@_metadata
@click.option("--from-version", metavar="VERSION", help="Branch from this version instead of the latest.")
@remote
def update(
    remote: Remote,
    name: str,
    file: Path | None,
    remove: tuple[str, ...],
    description: str | None,
    metadata: tuple[str, ...],
    from_version: str | None,
) -> None:
    """Create a version that differs from the latest only in what you say.

    Sealed values of the entries that stay are kept. The default version does not move.
    """
    if file is None and not remove and description is None and not metadata:
        raise click.UsageError("nothing to change: give --from-file, --remove, --description or --metadata")
    changes = manifest.read(file) if file else manifest.Manifest()
    with remote.open() as client:
        added = manifest.content(changes, client.connection, pairs(metadata, "--metadata"))
        draft = _merge(_without(client.draft(name, from_version), remove), added)
        if description is not None:
            draft = msgspec.structs.replace(draft, description=description)
        _report_created(remote, client, client.create_version(name, draft))


@toolbox.command()
@click.argument("name", type=ToolboxName())
@click.option("--version", metavar="VERSION", help="Show this version instead of the default one.")
@remote
def show(remote: Remote, name: str, version: str | None) -> None:
    """Show a toolbox, one of its versions, and the endpoint agents use.

    The last line, TOOLBOX_ENDPOINT=…, is what an agent's environment needs.
    """
    with remote.open() as client:
        box = client.toolbox(name)
        shown = client.version(name, version or box.default_version)
        agents = client.mcp_url(name, version)
        warnings = client.sources(name, shown.version).warnings
        answer = {"toolbox": box, "version": shown, "endpoint": client.mcp_url(name, shown.version)}
    for warning in warnings:
        failures.warn(warning)
    if not remote.answers(answer):
        _print_version(box, shown)
        click.echo(f"\nTOOLBOX_ENDPOINT={agents}")


@toolbox.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the toolboxes of the project."""
    with remote.open() as client:
        boxes = list(client.toolboxes())
    rows = [{"id": box.id, "name": box.name, "default_version": box.default_version} for box in boxes]
    if not remote.answers({"toolboxes": rows}):
        printing.table(
            ("name", "default", "latest", "updated"),
            ((b.name, b.default_version, b.versions.latest.version, printing.when(b.updated_at)) for b in boxes),
        )


@toolbox.command()
@click.argument("name", type=ToolboxName())
@click.option("--version", metavar="VERSION", help="Delete only this version; the last one takes the toolbox with it.")
@force
@remote
def delete(remote: Remote, name: str, version: str | None, force: bool) -> None:
    """Delete a toolbox, or one version of it. Numbers are never used again."""
    what = f"version {version} of toolbox `{name}`" if version else f"toolbox `{name}` with all its versions"
    confirm(f"Delete {what}?", force=force)
    with remote.open() as client:
        outcome = _delete(client, name, version)
    if not remote.answers({"name": name, "version": version, "outcome": outcome}):
        click.echo(f"{what}: {outcome.replace('_', ' ')}")


def _delete(client: Client, name: str, version: str | None) -> str:
    try:
        if version is None:
            client.delete_toolbox(name)
            return "deleted"
        client.delete_version(name, version)
    except errors.NotFound:
        return "already_deleted"
    try:
        client.toolbox(name)
    except errors.NotFound:
        return "toolbox_cascaded"
    return "version_deleted"


def _report_created(remote: Remote, client: Client, created: wire.ToolboxVersion) -> None:
    for warning in created.warnings or []:
        failures.warn(warning)
    endpoint = client.mcp_url(created.name, created.version)
    if remote.answers({"toolbox": created.name, "version": created.version, "endpoint": endpoint}):
        return
    click.echo(f"created version {created.version} of toolbox `{created.name}`\n{endpoint}")
    default = client.toolbox(created.name).default_version
    if default != created.version:
        publish = f"toolcrib toolbox publish {created.name} {created.version}"
        failures.note(f"version {default} stays the default; `{publish}` changes that")


def _print_version(box: wire.Toolbox, version: wire.ToolboxVersion) -> None:
    default = " (default)" if version.version == box.default_version else f" (default: {box.default_version})"
    click.echo(f"toolbox      {box.name}")
    click.echo(f"version      {version.version}{default}, latest: {box.versions.latest.version}")
    click.echo(f"created      {printing.when(version.created_at)}")
    click.echo(f"digest       {version.digest}")
    if version.description:
        printing.text(f"description  {version.description}")
    for skill in version.skills:
        click.echo(f"skill        {skill['name']} {skill.get('version', '(follows its default)')}")
    click.echo()
    printing.table(("entry", "type", "where"), ((identity(e), e["type"], _where(e)) for e in version.tools))


def identity(entry: wire.JsonObject) -> str:
    """What an entry is called within its version."""
    named = entry.get("name") or entry.get("server_label") or entry.get("openapi", {}).get("name")
    return str(named or entry["type"])


def _where(entry: wire.JsonObject) -> str:
    return str(entry.get("server_url") or entry.get("base_url") or entry.get("project_connection_id") or "-")


def _without(draft: wire.CreateVersion, names: tuple[str, ...]) -> wire.CreateVersion:
    known = [identity(entry) for entry in draft.tools]
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no entry `{name}` to remove; entries: {', '.join(known) or 'none'}")
    kept = [entry for entry in draft.tools if identity(entry) not in names]
    return msgspec.structs.replace(draft, tools=kept)


def _merge(draft: wire.CreateVersion, changes: wire.CreateVersion) -> wire.CreateVersion:
    """The draft with the changes' entries put in place or appended, and its other fields where they were given."""
    replaced = {identity(entry): entry for entry in changes.tools}
    tools = [replaced.pop(identity(entry), entry) for entry in draft.tools]
    return wire.CreateVersion(
        tools=[*tools, *replaced.values()],
        description=changes.description or draft.description,
        metadata={**(draft.metadata or {}), **(changes.metadata or {})} or None,
        skills=draft.skills if changes.skills is None else changes.skills,
        policies=changes.policies or draft.policies,
    )


for command in (
    versions.publish,
    versions.rollback,
    versions.versions,
    versions.diff,
    drift.drift,
    drift.sources,
    attached.skill,
):
    toolbox.add_command(command)
