"""The difference between two versions: by entry, field and skill, not by line of text.

Entries are matched by their identity, so reordering is no change. A sealed value only ever says that it changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from toolcrib import wire
from toolcrib.connections.sealing import PREFIX
from toolcrib.domain import Content, JsonObject, Version
from toolcrib.toolboxes.entries import identity

_SECRET_FIELDS = ("/authorization", "/headers/")


def compare(before: Version, after: Version) -> wire.Diff:
    return wire.Diff(
        name=after.toolbox,
        from_version=str(before.number),
        to_version=str(after.number),
        entries=list(_entry_changes(before.content, after.content)),
        skills=list(_skill_changes(before.content, after.content)),
        fields=list(_value_changes(_own_fields(before.content), _own_fields(after.content), "")),
    )


def _own_fields(content: Content) -> JsonObject:
    fields = {"description": content.description, "metadata": content.metadata, "policies": content.policies}
    return {name: value for name, value in fields.items() if value not in (None, {})}


def _entry_changes(before: Content, after: Content) -> Iterator[wire.EntryChange]:
    old = {identity(e): e for e in before.tools}
    new = {identity(e): e for e in after.tools}
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield wire.EntryChange(name, old[name]["type"], "removed")
        elif name not in old:
            yield wire.EntryChange(name, new[name]["type"], "added")
        elif fields := list(_value_changes(old[name], new[name], "")):
            yield wire.EntryChange(name, new[name]["type"], "changed", fields)


def _skill_changes(before: Content, after: Content) -> Iterator[wire.SkillChange]:
    old = {s["name"]: s.get("version", "default") for s in before.skills}
    new = {s["name"]: s.get("version", "default") for s in after.skills}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            change = "added" if name not in old else "removed" if name not in new else "changed"
            yield wire.SkillChange(name, change, old.get(name), new.get(name))


def _value_changes(before: Any, after: Any, path: str) -> Iterator[wire.FieldChange]:
    """Objects are compared key by key; anything else as a whole."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if before != after:
            yield _changed(path, before, after)
        return
    old, new = cast("JsonObject", before), cast("JsonObject", after)
    for key in sorted(old.keys() | new.keys()):
        here = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            yield wire.FieldChange(here, "removed", before=_shown(here, old[key]))
        elif key not in old:
            yield wire.FieldChange(here, "added", after=_shown(here, new[key]))
        else:
            yield from _value_changes(old[key], new[key], here)


def _changed(path: str, before: Any, after: Any) -> wire.FieldChange:
    if path.startswith(_SECRET_FIELDS):
        return wire.FieldChange(path, "changed")
    return wire.FieldChange(path, "changed", before=before, after=after)


def _shown(path: str, value: Any) -> Any:
    is_secret = path.startswith(_SECRET_FIELDS) or path == "/headers"
    if is_secret and isinstance(value, dict):
        return dict.fromkeys(cast("JsonObject", value), PREFIX + "…")
    return PREFIX + "…" if is_secret else value
