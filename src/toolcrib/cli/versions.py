"""The verbs that move and compare versions: `toolbox publish`, `rollback`, `versions list`, `promotions` and `diff`.

Nothing here creates or deletes a version.
"""

from __future__ import annotations

import click
import msgspec

from toolcrib import wire
from toolcrib.cli import printing
from toolcrib.cli.groups import NounGroup
from toolcrib.cli.remote import Remote, ToolboxName, remote

_SIGN = {"added": "+", "removed": "-", "changed": "~"}


@click.command()
@click.argument("name", type=ToolboxName())
@click.argument("version")
@remote
def publish(remote: Remote, name: str, version: str) -> None:
    """Make VERSION the default of toolbox NAME: agents get it from their next request."""
    with remote.open() as client:
        _report_default(remote, client.publish(name, version))


@click.command()
@click.argument("name", type=ToolboxName())
@remote
def rollback(remote: Remote, name: str) -> None:
    """Make the version before the last promotion the default again.

    Refused when somebody promotes at the same moment. A rollback is a promotion too: a second one undoes the first.
    """
    with remote.open() as client:
        _report_default(remote, client.rollback(name))


@click.group(cls=NounGroup)
def versions() -> None:
    """List a toolbox's versions and the moves of its default."""


@versions.command("list")
@click.argument("name", type=ToolboxName())
@remote
def list_(remote: Remote, name: str) -> None:
    """List the versions of a toolbox."""
    with remote.open() as client:
        default = client.toolbox(name).default_version
        rows = [_row(version, default) for version in client.versions(name)]
    if not remote.answers({"toolbox": name, "default_version": default, "versions": rows}):
        printing.table(
            ("version", "default", "created", "entries", "skills", "description"),
            (
                (
                    row["version"],
                    "*" if row["is_default"] else "",
                    printing.when(row["created_at"]),
                    row["tools_count"],
                    row["skills_count"],
                    printing.shorten(row["description"]),
                )
                for row in rows
            ),
        )


@versions.command()
@click.argument("name", type=ToolboxName())
@remote
def promotions(remote: Remote, name: str) -> None:
    """List every move of the default version, newest first."""
    with remote.open() as client:
        moves = list(client.promotions(name))
    if not remote.answers({"toolbox": name, "promotions": moves}):
        printing.table(
            ("when", "by", "from", "to"),
            ((printing.when(m.at), m.by, m.from_version or "-", m.to_version) for m in moves),
        )


@click.command()
@click.argument("name", type=ToolboxName())
@click.argument("from_version", metavar="FROM")
@click.argument("to_version", metavar="TO")
@remote
def diff(remote: Remote, name: str, from_version: str, to_version: str) -> None:
    """Say what differs between two versions: by entry, field, skill and tool."""
    with remote.open() as client:
        found = client.diff(name, from_version, to_version)
    if not remote.answers(found):
        lines = _diff_lines(found)
        printing.text("\n".join(lines) if lines else f"versions {from_version} and {to_version} say the same")


def _report_default(remote: Remote, box: wire.Toolbox) -> None:
    if not remote.answers(box):
        click.echo(f"version {box.default_version} is the default of toolbox `{box.name}`")


def _row(version: wire.ToolboxVersion, default: str) -> wire.JsonObject:
    return {
        "id": version.id,
        "name": version.name,
        "version": version.version,
        "description": version.description or "",
        "created_at": version.created_at,
        "tools_count": len(version.tools),
        "skills_count": len(version.skills),
        "is_default": version.version == default,
    }


def _diff_lines(diff: wire.Diff) -> list[str]:
    lines = [_field_line(field) for field in diff.fields]
    for entry in diff.entries:
        lines.append(f"{_SIGN[entry.change]} entry {entry.entry} ({entry.type})")
        lines.extend("    " + _field_line(field) for field in entry.fields)
    for skill in diff.skills:
        moved = f": {skill.before or 'default'} → {skill.after or 'default'}" if skill.change == "changed" else ""
        lines.append(f"{_SIGN[skill.change]} skill {skill.skill}{moved}")
    lines.extend(f"{_SIGN[tool.change]} tool {tool.tool}" for tool in diff.tools)
    return lines


def _field_line(field: wire.FieldChange) -> str:
    sides = [msgspec.json.encode(v).decode() for v in (field.before, field.after) if v is not msgspec.UNSET]
    said = " → ".join(sides) if sides else field.change
    return f"{_SIGN[field.change]} {field.path}: {said}"
