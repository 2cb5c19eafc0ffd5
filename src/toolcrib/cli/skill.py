"""`toolcrib skill`: create, update, show, list, download, delete and import skills.

A skill is a folder with a SKILL.md. `update` moves the default with the new version, so toolboxes that follow it serve
it at once; `create --force` on an existing skill does the same.
"""

from __future__ import annotations

from pathlib import Path

import click

from toolcrib import errors, wire
from toolcrib.cli import failures, printing, skill_files
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, confirm, force, remote
from toolcrib.client.rest import Client

_file = click.option(
    "--file",
    "file",
    type=click.Path(exists=True, path_type=Path),
    help="The skill: a folder with a SKILL.md, a ZIP of one, or a SKILL.md alone.",
)
_description = click.option("--description", help="What the skill is for and when to use it, instead of --file.")
_instructions = click.option("--instructions", help="The text of its SKILL.md, instead of --file.")


@click.group(cls=NounGroup)
def skill() -> None:
    """Keep the skills that toolboxes serve beside their tools."""


@skill.command()
@click.argument("name")
@_file
@_description
@_instructions
@click.option("--force", "-f", is_flag=True, help="Where the skill exists, add a version and make it the default.")
@remote
def create(
    remote: Remote, name: str, file: Path | None, description: str | None, instructions: str | None, force: bool
) -> None:
    """Create a skill."""
    content = _content(file, description, instructions)
    with remote.open() as client:
        if not force and _exists(client, name):
            raise errors.Conflict(
                f"skill `{name}` exists", hint=f"`toolcrib skill update {name}` adds a version, and so does --force"
            )
        _report(remote, client, _send(client, name, content, default=True))


@skill.command()
@click.argument("name")
@_file
@_description
@_instructions
@click.option("--set-default-version", "default_version", metavar="VERSION", help="Only make VERSION the default.")
@click.option("--keep-default", is_flag=True, help="Leave the default where it is.")
@remote
def update(
    remote: Remote,
    name: str,
    file: Path | None,
    description: str | None,
    instructions: str | None,
    default_version: str | None,
    keep_default: bool,
) -> None:
    """Add a version and make it the default: toolboxes that follow the skill serve it at once."""
    if default_version is not None:
        if file or description or instructions or keep_default:
            raise click.UsageError("--set-default-version takes no other option beside it")
        with remote.open() as client:
            moved = client.set_default_skill(name, default_version)
        if not remote.answers(moved):
            click.echo(f"version {moved.default_version} is the default of skill `{name}`")
        return
    content = _content(file, description, instructions)
    with remote.open() as client:
        client.skill(name)
        _report(remote, client, _send(client, name, content, default=not keep_default))


@skill.command()
@click.argument("name")
@click.option("--version", metavar="VERSION", help="Show this version instead of the default one.")
@remote
def show(remote: Remote, name: str, version: str | None) -> None:
    """Show a skill, one of its versions and that version's files."""
    with remote.open() as client:
        found = client.skill(name)
        shown = client.skill_version(name, version or found.default_version)
        numbers = [each.version for each in client.skill_versions(name)]
    if remote.answers({"skill": found, "version": shown, "versions": numbers}):
        return
    click.echo(f"skill        {found.name}\nversion      {shown.version} of {', '.join(numbers)}")
    click.echo(f"default      {found.default_version}\ncreated      {printing.when(shown.created_at)}")
    click.echo(f"digest       {shown.digest}")
    printing.text(f"description  {shown.description}\n")
    printing.table(("file", "bytes", "digest"), ((f.path, f.size, f.digest) for f in shown.files))


@skill.command("list")
@remote
def list_(remote: Remote) -> None:
    """List the skills of the project."""
    with remote.open() as client:
        found = list(client.skills())
    if not remote.answers({"skills": found}):
        printing.table(
            ("name", "default", "latest", "description"),
            ((s.name, s.default_version, s.latest_version, printing.shorten(s.description)) for s in found),
        )


@skill.command()
@click.argument("name")
@click.option("--version", metavar="VERSION", help="Download this version instead of the default one.")
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where the skill's folder (or ZIP) goes; here unless given.",
)
@click.option("--raw", is_flag=True, help="Keep the ZIP as it is.")
@click.option("--force", "-f", is_flag=True, help="Write over what is there.")
@remote
def download(remote: Remote, name: str, version: str | None, output_dir: Path, raw: bool, force: bool) -> None:
    """Download a skill into a folder of its name."""
    target = output_dir / (f"{name}.zip" if raw else name)
    if target.exists() and not force:
        raise click.UsageError(f"`{target}` exists; --force writes over it")
    with remote.open() as client:
        data = client.download_skill(name, version)
    output_dir.mkdir(parents=True, exist_ok=True)
    if raw:
        target.write_bytes(data)
    files = [target.name] if raw else skill_files.unpack(data, target)
    if not remote.answers({"name": name, "path": str(target), "files": files}):
        click.echo(f"wrote {target}" if raw else f"wrote {len(files)} files to {target}")


@skill.command()
@click.argument("name")
@click.option("--version", metavar="VERSION", help="Delete only this version; the last one takes the skill with it.")
@click.option("--in-use", is_flag=True, help="Also while toolboxes use it.")
@force
@remote
def delete(remote: Remote, name: str, version: str | None, in_use: bool, force: bool) -> None:
    """Delete a skill, or one version of it."""
    what = f"version {version} of skill `{name}`" if version else f"skill `{name}` with all its versions"
    confirm(f"Delete {what}?", force=force)
    with remote.open() as client:
        if version is None:
            client.delete_skill(name, force=in_use)
        else:
            client.delete_skill_version(name, version, force=in_use)
    if not remote.answers({"name": name, "version": version, "outcome": "deleted"}):
        click.echo(f"{what}: deleted")


@skill.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--keep-default", is_flag=True, help="Leave the default of skills that exist where it is.")
@remote
def import_(remote: Remote, folder: Path, keep_default: bool) -> None:
    """Bring in every skill of FOLDER, as agent tools keep them.

    Looked for in FOLDER itself, in the folders inside it, and in `skills`, `.agents/skills`, `.claude/skills` and their
    like. A skill whose files are those of its default version is left alone.
    """
    found = skill_files.find(folder)
    if not found:
        raise click.UsageError(f"there is no skill in `{folder}`: no folder there has a SKILL.md")
    with remote.open() as client:
        outcomes = [_import(client, path, default=not keep_default) for path in found]
    if not remote.answers({"skills": outcomes}):
        printing.table(("skill", "version", "outcome", "from"), (tuple(o.values()) for o in outcomes))
    failed = [o for o in outcomes if o["outcome"] == "refused"]
    if failed:
        raise errors.InvalidPayload(f"{len(failed)} of {len(outcomes)} skills were refused")


def _import(client: Client, path: Path, *, default: bool) -> dict[str, str]:
    """One skill: created, updated, unchanged or refused; a refusal does not stop the others."""
    name = path.name
    try:
        upload = skill_files.read(path)
        name = upload.name
        known = _exists(client, name)
        if known and client.skill_version(name, known.default_version).digest == upload.bundle(name).digest:
            return {"name": name, "version": known.default_version, "outcome": "unchanged", "from": str(path)}
        made = client.create_skill_from_files(name, upload.files, default=default)
    except (errors.RequestError, click.UsageError) as error:
        failures.warn(f"{path}: {error.message}")
        return {"name": name, "version": "-", "outcome": "refused", "from": str(path)}
    return {"name": name, "version": made.version, "outcome": "updated" if known else "created", "from": str(path)}


def _content(
    file: Path | None, description: str | None, instructions: str | None
) -> skill_files.Upload | tuple[str, str]:
    if file is not None and not description and not instructions:
        return skill_files.read(file)
    if file is None and description and instructions:
        return description, instructions
    raise click.UsageError("give either --file, or both --description and --instructions")


def _send(
    client: Client, name: str, content: skill_files.Upload | tuple[str, str], *, default: bool
) -> wire.SkillVersion:
    if isinstance(content, tuple):
        return client.create_skill(name, wire.SkillInlineContent(*content), default=default)
    if content.archive is not None:
        return client.create_skill_from_archive(name, content.archive, default=default)
    return client.create_skill_from_files(name, content.files, default=default)


def _exists(client: Client, name: str) -> wire.Skill | None:
    try:
        return client.skill(name)
    except errors.NotFound:
        return None


def _report(remote: Remote, client: Client, made: wire.SkillVersion) -> None:
    if remote.answers({"skill": made.name, "version": made.version, "digest": made.digest, "files": len(made.files)}):
        return
    files = "1 file" if len(made.files) == 1 else f"{len(made.files)} files"
    click.echo(f"created version {made.version} of skill `{made.name}`, {files}")
    default = client.skill(made.name).default_version
    if default != made.version:
        failures.note(f"version {default} stays the default")
