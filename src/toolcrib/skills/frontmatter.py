"""The head of a SKILL.md: YAML between two `---` lines, read strictly and judged by the Agent Skills format.

YAML is read as its 1.2 core schema does (dates and `yes` are text), without aliases, repeated fields or anything that
is not JSON, so that what we announce equals what any host reads. Fields nobody specified are kept. Knows no file but
SKILL.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from toolcrib.errors import InvalidPayload

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500
_LONGEST_HEAD = 16 * 1024  # PyYAML reads some 100 kB in a second, and nobody writes as much
_DEEPEST = 16
_MOST_BRACKETS = 500
_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TOOL = re.compile(r"(?:\([^)]*\)|[^\s,(])+")
_UNUSUAL = re.compile(r"[^\n -~\xa0-\u2027\u202a-\ufefe\uff00-\U0010ffff]")  # line ends of other worlds, controls
_RESERVED_METADATA = "io.modelcontextprotocol/"
NAME_RULE = "1 to 64 lowercase letters, digits and single hyphens, not at either end"


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """What a SKILL.md says of itself. `fields` is all of it, as JSON values."""

    name: str
    description: str
    allowed_tools: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])


def is_name(text: str) -> bool:
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None


def read(data: bytes) -> Frontmatter:
    """The front matter of a SKILL.md, or a refusal that names the field and says what to write."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidPayload("SKILL.md is not UTF-8 text.", param="SKILL.md") from None
    found = _HEAD.match(text[: _LONGEST_HEAD + 64])
    if found is None:
        raise InvalidPayload(
            "SKILL.md does not begin with front matter.",
            param="SKILL.md",
            hint="begin it with a line `---`, then `name: …` and `description: …`, then a line `---`",
        )
    fields = _load(found[1])
    return check(fields)


def check(fields: Mapping[str, Any]) -> Frontmatter:
    """Judge the fields by the Agent Skills format."""
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not is_name(name):
        raise _wrong("name", f"must be {NAME_RULE}")
    if not isinstance(description, str) or not description.strip() or len(description) > LONGEST_DESCRIPTION:
        raise _wrong("description", f"must be text of 1 to {LONGEST_DESCRIPTION} characters")
    if "\0" in description:  # a PostgreSQL text cannot hold one, and no reader needs it
        raise _wrong("description", "must not hold a NUL")
    if not isinstance(fields.get("license", ""), str):
        raise _wrong("license", "must be text")
    compatibility = fields.get("compatibility", "any")
    if not isinstance(compatibility, str) or not 1 <= len(compatibility) <= LONGEST_COMPATIBILITY:
        raise _wrong("compatibility", f"must be text of 1 to {LONGEST_COMPATIBILITY} characters")
    _check_metadata(fields.get("metadata", {}))
    tools = fields.get("allowed-tools", fields.get("allowed_tools", ""))
    return Frontmatter(name, description, _tools(tools), dict(fields))


def write(fields: Mapping[str, Any], instructions: str) -> bytes:
    """A SKILL.md with these fields and this body."""
    head = yaml.dump(dict(fields), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return f"---\n{head}---\n\n{instructions}".encode()


def joined_tools(tools: list[str]) -> str:
    """Names of tools as the format wants them: one text, separated by blanks."""
    for tool in tools:
        if split_tools(tool) != (tool,):
            raise _wrong("allowed_tools", f"cannot hold {tool[:100]!r}: a tool's name has no blanks and no commas")
    return " ".join(tools)


def split_tools(text: str) -> tuple[str, ...]:
    """The names in an `allowed-tools` text; `Bash(git add:*)` is one."""
    return tuple(_TOOL.findall(text))


def _check_metadata(metadata: object) -> None:
    if not isinstance(metadata, dict):
        raise _wrong("metadata", "must be a map from names to text")
    for key, value in cast("dict[str, Any]", metadata).items():
        if not isinstance(value, str | int | float):
            raise _wrong(f"metadata.{key}", "must be text")
        if key.startswith(_RESERVED_METADATA):
            raise _wrong(f"metadata.{key}", f"is reserved: names under {_RESERVED_METADATA} belong to MCP")


def _tools(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return split_tools(value)
    if isinstance(value, list) and all(isinstance(tool, str) for tool in cast("list[object]", value)):
        return tuple(cast("list[str]", value))
    raise _wrong("allowed-tools", "must be names of tools, separated by blanks")


def _wrong(name: str, rule: str) -> InvalidPayload:
    return InvalidPayload(f"The front matter of SKILL.md: {name} {rule}.", param=name)


# --- YAML ------------------------------------------------------------------------------------------------------------


class _Refused(yaml.YAMLError):
    """Something YAML allows and a skill does not need."""


class _Loader(yaml.SafeLoader):
    """YAML's core schema without aliases: no field can be larger than what was written."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - a class's own, by PyYAML's design

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # pyright: ignore[reportUnknownMemberType] - PyYAML is half typed
            raise _Refused("aliases (`*name`) are not accepted")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise _Refused(f"the field {str(key.value)[:100]!r} is there twice")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Plain YAML; text that a reader of YAML 1.1 or 1.2 could take for something else is quoted."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _UNUSUAL.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)  # pyright: ignore[reportUnknownMemberType] - PyYAML is half typed


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _resolver = re.compile(rf"^(?:{_pattern})$")
    for _side in (_Loader, _Dumper):
        _side.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _resolver, list(_first))  # pyright: ignore[reportUnknownMemberType] - PyYAML is half typed


_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))  # PyYAML reads 010 as eight
_Dumper.add_representer(str, _Dumper.represent_str)


def _load(head: str) -> dict[str, Any]:
    if head.count("[") + head.count("{") > _MOST_BRACKETS:  # PyYAML takes their square in time when they nest
        raise InvalidPayload("The front matter of SKILL.md has too many brackets.", param="SKILL.md")
    try:
        loaded: Any = yaml.load(head, Loader=_Loader)  # noqa: S506 - a SafeLoader with less
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        problem = getattr(error, "problem", None) or str(error)
        raise InvalidPayload(
            f"The front matter of SKILL.md is not YAML that can be read: {problem}.", param="SKILL.md"
        ) from None
    if not isinstance(loaded, dict):
        raise InvalidPayload("The front matter of SKILL.md must be fields, each `name: value`.", param="SKILL.md")
    _check_json(cast("object", loaded), 0)
    return cast("dict[str, Any]", loaded)


def _check_json(value: object, depth: int) -> None:
    if depth > _DEEPEST:
        raise InvalidPayload("The front matter of SKILL.md nests too deeply.", param="SKILL.md")
    if isinstance(value, dict):
        for key, child in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise _wrong(str(key)[:100], "is no name; write it in quotes")
            _check_json(child, depth + 1)
    elif isinstance(value, list):
        for child in cast("list[object]", value):
            _check_json(child, depth + 1)
    elif not isinstance(value, str | int | float | None) or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidPayload("The front matter of SKILL.md holds a value that JSON has no word for.", param="SKILL.md")
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise InvalidPayload("The front matter of SKILL.md holds a number of more than 64 bits.", param="SKILL.md")
    elif isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise InvalidPayload("The front matter of SKILL.md holds half a character.", param="SKILL.md")
