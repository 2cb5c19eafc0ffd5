"""What a tool says about itself, field by field: the one place that reads an MCP tool definition.

A document is text with a content hash; how a field weighs, and what a vector is, belongs to `lexical` and `dense`.
Schemas come from strangers, so reading is bounded in depth and number and never fails on an odd shape.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from toolcrib.search.words import parts

ToolDefinition = Mapping[str, Any]

FIELDS = ("name", "server", "keywords", "examples", "description", "parameters", "parameter_text")

_MAX_PARAMETERS = 128
_MAX_DEPTH = 4
_PREFIX = re.compile(r"___|__|[./:]")


@dataclass(frozen=True, slots=True)
class Document:
    """One tool as searchable text."""

    name: str
    server: str
    description: str
    keywords: str
    examples: str
    parameters: tuple[tuple[str, str], ...]

    @property
    def bare_name(self) -> str:
        """The name without the label in front of it; the whole name where there is none."""
        return _PREFIX.split(self.name)[-1] or self.name

    @property
    def label(self) -> str:
        """Whose tool it is: the stated server and whatever stands before the bare name."""
        prefix = self.name.removesuffix(self.bare_name)
        return f"{self.server} {prefix}".strip() if self.server not in prefix else prefix

    def texts(self) -> Iterator[tuple[str, str]]:
        """(field, text) pairs in the order of `FIELDS`."""
        yield "name", self.bare_name
        yield "server", self.label
        yield "keywords", self.keywords
        yield "examples", self.examples
        yield "description", self.description
        yield "parameters", " ".join(name for name, _ in self.parameters)
        yield "parameter_text", " ".join(text for _, text in self.parameters)

    def passage(self) -> str:
        """The tool as one short text, the form in which encoders read it; changing it means training again."""
        head = f"{' '.join(parts(self.label))}: {' '.join(parts(self.bare_name))}."
        inputs = "; ".join(f"{' '.join(parts(name))} {text[:60]}".strip() for name, text in self.parameters[:12])
        said = (head, self.keywords[:200], self.description[:600], self.examples[:200], inputs and f"Inputs: {inputs}")
        return " ".join(text for text in said if text).removeprefix(": ")

    def content_hash(self) -> str:
        """SHA-256 of everything that search reads of this tool."""
        content = [self.name, self.server, self.description, self.keywords, self.examples, self.parameters]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


def read_document(tool: ToolDefinition) -> Document:
    """The document of one MCP-style tool definition."""
    name = _text(tool.get("name"))
    if not name:
        raise ValueError("a tool to be indexed has no name; give each tool a non-empty 'name'")
    schema = tool.get("inputSchema") or tool.get("input_schema")
    return Document(
        name=name,
        server=_text(tool.get("server")),
        description=_text(tool.get("description")),
        keywords=_text(tool.get("keywords")),
        examples=_text(tool.get("examples")),
        parameters=tuple(_parameters(schema)),
    )


def _parameters(schema: object) -> Iterator[tuple[str, str]]:
    found = _properties(schema, 0)
    for _, pair in zip(range(_MAX_PARAMETERS), found, strict=False):
        yield pair


def _properties(schema: object, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _MAX_DEPTH or not isinstance(schema, Mapping):
        return
    node = cast(Mapping[str, object], schema)
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        for name, child in cast(Mapping[object, object], properties).items():
            yield str(name), _about(child)
            yield from _properties(child, depth + 1)
    yield from _properties(node.get("items"), depth + 1)


def _about(parameter: object) -> str:
    """A parameter's description and its choices."""
    if not isinstance(parameter, Mapping):
        return ""
    node = cast(Mapping[str, object], parameter)
    choices = node.get("enum")
    named = [str(c) for c in cast(list[object], choices)[:32]] if isinstance(choices, list) else []
    return " ".join([_text(node.get("description")), *named]).strip()


def _text(value: object) -> str:
    """A string as it is, a list of strings as lines, anything else as nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        return "\n".join(item for item in cast(Iterable[object], value) if isinstance(item, str))
    return ""
