"""The file behind `toolbox create --from-file`: read strictly, and its `connections:` turned into entries.

The format is azd's toolbox manifest, JSON or YAML. Entries under `tools:` pass through as written; what they mean is
for the server to judge.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from toolcrib import wire

JsonObject = wire.JsonObject


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the manifest; a field nobody knows is refused."""


class ConnectionUse(_Strict, frozen=True):
    """A connection that becomes an entry; `index` and `instance_name` where its category needs one."""

    name: str
    index: str | None = None
    instance_name: str | None = None


class SkillUse(_Strict, frozen=True):
    name: str
    version: str | int | None = None


class RaiConfig(_Strict, frozen=True):
    rai_policy_name: str | None = None
    name: str | None = None


class Policies(_Strict, frozen=True):
    rai_config: RaiConfig


class Manifest(_Strict, frozen=True):
    description: str | None = None
    connections: list[ConnectionUse] = []
    skills: list[SkillUse] | None = None
    tools: list[JsonObject] | None = None
    policies: Policies | None = None


def read(path: Path) -> Manifest:
    """Read a manifest, or say which field of which file is wrong."""
    decode = {".json": msgspec.json.decode, ".yaml": msgspec.yaml.decode, ".yml": msgspec.yaml.decode}.get(path.suffix)
    if decode is None:
        raise click.UsageError(f"`{path}` is neither .json, .yaml nor .yml")
    try:
        return decode(path.read_bytes(), type=Manifest)
    except (msgspec.DecodeError, OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read `{path}`: {error}") from error


def content(
    manifest: Manifest, connection: Callable[[str], wire.Connection], metadata: dict[str, str] | None = None
) -> wire.CreateVersion:
    """The version a manifest describes; `connection` fetches one by name."""
    expanded = [expand(use, connection(use.name)) for use in manifest.connections]
    return wire.CreateVersion(
        tools=[*(manifest.tools or []), *expanded],
        description=manifest.description,
        metadata=metadata or None,
        skills=None if manifest.skills is None else [_skill(use) for use in manifest.skills],
        policies=None if manifest.policies is None else _policies(manifest.policies),
    )


def expand(use: ConnectionUse, connection: wire.Connection) -> JsonObject:
    """The entry that serves a connection, by the connection's category."""
    match connection.type, use:
        case "RemoteTool" | "RemoteTool_Preview", _:
            entry: JsonObject = {"type": "mcp", "server_label": use.name, "server_url": connection.target}
        case "RemoteA2A", _:
            entry = {"type": "a2a_preview", "base_url": connection.target}
        case "CognitiveSearch", ConnectionUse(index=str(index)):
            indexes = [{"project_connection_id": connection.id, "index_name": index}]
            return {"type": "azure_ai_search", "name": use.name, "azure_ai_search": {"indexes": indexes}}
        case "GroundingWithCustomSearch", ConnectionUse(instance_name=str(instance)):
            custom = {"project_connection_id": connection.id, "instance_name": instance}
            return {"type": "web_search", "name": use.name, "custom_search_configuration": custom}
        case category, _:
            raise click.UsageError(f"connection `{use.name}` cannot become an entry: {_lacking(category)}")
    return {**entry, "name": use.name, "project_connection_id": connection.id}


def _lacking(category: str) -> str:
    needed = {"CognitiveSearch": "index", "GroundingWithCustomSearch": "instance_name"}.get(category)
    return f"a {category} connection needs `{needed}`" if needed else f"no entry type serves category {category}"


def _skill(use: SkillUse) -> wire.SkillReference:
    return wire.SkillReference(name=use.name, version=msgspec.UNSET if use.version is None else str(use.version))


def _policies(policies: Policies) -> JsonObject:
    name = policies.rai_config.rai_policy_name or policies.rai_config.name
    if not name:
        raise click.UsageError("the manifest's policies.rai_config needs `rai_policy_name`")
    return {"rai_config": {"rai_policy_name": name}}
