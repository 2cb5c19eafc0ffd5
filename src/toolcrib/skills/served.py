"""The skills of one toolbox version as agents meet them: URIs, lists and the index, made once and then only looked up.

Every URI that can be read stands in one dictionary, so a URI trick finds nothing. JSON texts are encoded here, once per
content; which method carries them is the gateway's business. Knows no file's bytes but the index's.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import msgspec

from toolcrib.domain import JsonObject, SkillFile, SkillManifest, SkillVersion
from toolcrib.skills.bundle import SKILL_MD

SCHEME = "skill://"
INDEX = f"{SCHEME}index.json"
_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_VERSION_META = "io.toolcrib/version"
_SAFE = "/-._~!$&'()*+,;=@"
_TYPES = mimetypes.MimeTypes()  # the built-in table alone: the same answer on every machine
_MORE_TYPES = {
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
}
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Place:
    """What a URI leads to: one file of a skill's version, or (without a path) its archive."""

    skill: SkillVersion
    uri: str
    path: str | None


@dataclass(frozen=True, slots=True)
class SkillDocument:
    """A skill as search sees it."""

    name: str
    description: str
    uri: str


@dataclass(frozen=True, slots=True)
class Served:
    """Never changes; a changed skill makes another one. `digest` names its content."""

    digest: str = ""
    resources: bytes = b""  # JSON texts, joined by commas
    entries: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  # of `skills/list`, by URI
    index: bytes = b""  # what a read of it gives
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])
    uris: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])  # of each skill, by name
    documents: tuple[SkillDocument, ...] = ()
    keywords: Mapping[str, str] = field(default_factory=dict[str, str])  # name of a tool as skills spell it → text
    missing: tuple[str, ...] = ()


NOTHING = Served()


def serve(skills: Iterable[SkillVersion], missing: Iterable[str] = ()) -> Served:
    skills = tuple(skills)
    entries = {uri_of(s.skill): _entry(s) for s in skills}
    digests = [f"{s.id}\0{s.manifest.digest}\0{s.manifest.archive_digest}" for s in skills]
    found = {s.skill: list(_places(s)) for s in skills}
    return Served(
        digest=hashlib.sha256("\1".join(digests).encode()).hexdigest(),
        resources=b",".join(_resources(skills)),
        entries=entries,
        index=contents(INDEX, _encode(_index(skills))),
        places={place.uri if spelt is None else spelt: place for each in found.values() for spelt, place in each},
        uris={name: tuple(place.uri for spelt, place in each if spelt is None) for name, each in found.items()},
        documents=tuple(SkillDocument(s.skill, s.manifest.description, uri_of(s.skill)) for s in skills),
        keywords=_keywords(skills),
        missing=tuple(missing),
    )


def uri_of(skill: str, path: str = SKILL_MD) -> str:
    return f"{SCHEME}{skill}/{quote(path, safe=_SAFE)}"


def archive_uri(skill: str) -> str:
    return f"{SCHEME}{skill}.zip"


def contents(uri: str, data: bytes, mime_type: str | None = None) -> bytes:
    """The JSON text of what a read gives: text where the bytes are text, else base64."""
    text = _text(data)
    kind = mime_type or type_of(uri) or ("text/plain" if text is not None else "application/octet-stream")
    body: JsonObject = {"uri": uri, "mimeType": kind}
    body |= {"blob": data} if text is None else {"text": text}
    return b"[" + _encode(body) + b"]"  # bytes are encoded as base64


def type_of(path: str) -> str | None:
    ending = "." + path.rpartition(".")[2].lower()
    return _MORE_TYPES.get(ending) or _TYPES.guess_type(f"x{ending}")[0]


def _text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _resources(skills: tuple[SkillVersion, ...]) -> Iterable[bytes]:
    if skills:
        described = "Every skill of this toolbox: its name, when to use it, and where to read it."
        yield _encode({"uri": INDEX, "name": "index.json", "description": described, "mimeType": "application/json"})
    for skill in skills:
        yield _encode(
            {
                "uri": uri_of(skill.skill),
                "name": skill.skill,
                "description": skill.manifest.description,
                "mimeType": "text/markdown",
                "size": _skill_md(skill.manifest).size,
                "_meta": {_VERSION_META: str(skill.number)},
            }
        )


def _index(skills: tuple[SkillVersion, ...]) -> JsonObject:
    return {"$schema": _SCHEMA, "skills": [_indexed(skill) for skill in skills]}


def _indexed(skill: SkillVersion) -> JsonObject:
    """One entry, of a type that every client follows to SKILL.md and from there to the other files.

    The archive of a skill with several files stands beside it, not as the entry: Agent Framework passes over archives
    of more than 20 files or 1 MB without a word.
    """
    manifest = skill.manifest
    entry: JsonObject = {
        "name": skill.skill,
        "type": "skill-md",
        "description": manifest.description,
        "url": uri_of(skill.skill),
        "digest": _skill_md(manifest).digest,
        "version": str(skill.number),
    }
    if len(manifest.files) > 1:
        url, digest = archive_uri(skill.skill), manifest.archive_digest
        entry["archive"] = {"url": url, "digest": digest, "mediaType": "application/zip", "size": manifest.archive_size}
    return entry


def _entry(skill: SkillVersion) -> bytes:
    resources = [{"uri": uri_of(skill.skill, f.path), "digest": f.digest, "size": f.size} for f in skill.manifest.files]
    return _encode(
        {
            "uri": uri_of(skill.skill),
            "frontmatter": skill.manifest.frontmatter,
            "resources": resources,
            "_meta": {_VERSION_META: str(skill.number)},
        }
    )


def _places(skill: SkillVersion) -> Iterable[tuple[str | None, Place]]:
    """Each file by its URI; a path that needs escapes is also found as it is, for clients that add none."""
    for file in skill.manifest.files:
        place = Place(skill, uri_of(skill.skill, file.path), file.path)
        yield None, place
        plain = f"{SCHEME}{skill.skill}/{file.path}"
        if plain != place.uri and "%" not in file.path:
            yield plain, place
    yield None, Place(skill, archive_uri(skill.skill), None)


def _keywords(skills: tuple[SkillVersion, ...]) -> dict[str, str]:
    """What skills say of the tools they name: a person's words for what a tool is good for."""
    found: dict[str, list[str]] = {}
    for skill in skills:
        for tool in skill.manifest.allowed_tools:
            name = tool.partition("(")[0]
            found.setdefault(name, []).append(f"{skill.skill.replace('-', ' ')}: {skill.manifest.description}")
    return {name: " ".join(texts) for name, texts in found.items()}


def _skill_md(manifest: SkillManifest) -> SkillFile:
    return next(file for file in manifest.files if file.path == SKILL_MD)
