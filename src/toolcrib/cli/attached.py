"""`toolcrib toolbox skill`: which skills a toolbox refers to.

Each change makes one new version, branched from the latest, and leaves the default where it is. Knows references only;
the skills themselves are `toolcrib skill`'s business.
"""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from toolcrib import errors, wire
from toolcrib.cli import failures, manifest, printing
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, ToolboxName, confirm, force, remote
from toolcrib.client.rest import Client


@click.group(cls=NounGroup)
def skill() -> None:
    """Attach skills to a toolbox, list and detach them."""


@skill.command()
@click.argument("toolbox", type=ToolboxName())
@click.argument("skills", nargs=-1, metavar="[SKILL[@VERSION]]...")
@click.option(
    "--from-file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON or YAML with a list `skills`, each with `name` and perhaps `version`.",
)
@remote
def add(remote: Remote, toolbox: str, skills: tuple[str, ...], file: Path | None) -> None:
    """Attach skills; one that is already there takes the version you give.

    Without @VERSION the toolbox follows the skill's default; with it, it stays on that version.
    """
    added = [*map(_reference, skills), *(_from_file(file) if file else [])]
    if not added:
        raise click.UsageError("name a skill, or give --from-file")
    with remote.open() as client:
        draft = client.draft(toolbox)
        replaced = {each.name: each for each in added}
        kept = [replaced.pop(each.name, each) for each in draft.skills or []]
        _create(remote, client, toolbox, draft, [*kept, *replaced.values()])


@skill.command("list")
@click.argument("toolbox", type=ToolboxName())
@click.option("--version", metavar="VERSION", help="Of this version instead of the latest.")
@remote
def list_(remote: Remote, toolbox: str, version: str | None) -> None:
    """List the skills a toolbox refers to, and the version each means now."""
    with remote.open() as client:
        box = client.toolbox(toolbox)
        shown = client.version(toolbox, version) if version else box.versions.latest
        rows = [_row(client, each) for each in shown.skills]
    if not remote.answers({"toolbox": toolbox, "version": shown.version, "skills": rows}):
        printing.table(("skill", "version", "means"), ((r["name"], r["version"] or "-", r["means"]) for r in rows))


@skill.command()
@click.argument("toolbox", type=ToolboxName())
@click.argument("skills", nargs=-1, required=True, metavar="SKILL...")
@force
@remote
def remove(remote: Remote, toolbox: str, skills: tuple[str, ...], force: bool) -> None:
    """Detach skills, all in one new version."""
    confirm(f"Detach {', '.join(skills)} from toolbox `{toolbox}`?", force=force)
    with remote.open() as client:
        draft = client.draft(toolbox)
        attached = [each.name for each in draft.skills or []]
        for name in skills:
            if name not in attached:
                raise errors.NotFound(
                    f"toolbox `{toolbox}` has no skill `{name}`", hint=f"it has: {', '.join(attached) or 'none'}"
                )
        _create(remote, client, toolbox, draft, [each for each in draft.skills or [] if each.name not in skills])


def _create(
    remote: Remote, client: Client, toolbox: str, draft: wire.CreateVersion, skills: list[wire.SkillReference]
) -> None:
    made = client.create_version(toolbox, msgspec.structs.replace(draft, skills=skills))
    if remote.answers({"toolbox": toolbox, "version": made.version, "skills": made.skills}):
        return
    click.echo(f"created version {made.version} of toolbox `{toolbox}` with {len(made.skills)} skills")
    default = client.toolbox(toolbox).default_version
    failures.note(
        f"version {default} stays the default; `toolcrib toolbox publish {toolbox} {made.version}` changes that"
    )


def _reference(text: str) -> wire.SkillReference:
    name, at, version = text.partition("@")
    return _checked(name, version if at else None)


def _from_file(path: Path) -> list[wire.SkillReference]:
    uses = manifest.read(path).skills or []
    return [_checked(use.name, None if use.version is None else str(use.version)) for use in uses]


def _checked(name: str, version: str | None) -> wire.SkillReference:
    reference = {"type": "skill_reference", "name": name} | ({} if version is None else {"version": version})
    try:
        return msgspec.convert(reference, wire.SkillReference)
    except msgspec.ValidationError:
        written = name if version is None else f"{name}@{version}"
        raise click.UsageError(f"`{written}` is not a skill: it is written NAME or NAME@VERSION") from None


def _row(client: Client, reference: wire.JsonObject) -> dict[str, str | None]:
    """A reference and what it means: the version it is pinned to, or the skill's default; unless that is gone."""
    name, pinned = reference["name"], reference.get("version")
    try:
        means = client.skill_version(name, pinned).version if pinned else client.skill(name).default_version
    except errors.NotFound:
        means = "missing"
    return {"name": name, "version": pinned, "means": means}
