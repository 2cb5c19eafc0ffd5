"""A skill's content: its files, checked as a whole, and the digest that names it.

Paths are relative, portable and free of collisions on any file system a host may unpack them to. The digest covers
paths and bytes and nothing else, so packing, dates and order make no difference. Knows nothing of ZIP or of versions.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolcrib import wire
from toolcrib.errors import InvalidPayload, TooLarge
from toolcrib.skills import frontmatter
from toolcrib.skills.frontmatter import Frontmatter

SKILL_MD = "SKILL.md"
_LONGEST_PATH = 240
_DEEPEST_PATH = 16
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f-\x9f\\:*?"<>|\u2028\u2029\ud800-\udfff]')
_LEFT_BEHIND = re.compile(r"(^|/)(__MACOSX/|\._[^/]*$|\.DS_Store$|Thumbs\.db$)")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one skill may hold."""

    archive_bytes: int = 25 * 2**20
    files: int = 512
    expanded_bytes: int = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files of one skill, by path, in order of path."""

    head: Frontmatter
    files: Mapping[str, bytes] = field(repr=False)
    digest: str


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def bundle(name: str, files: Iterable[tuple[str, bytes]], limits: Limits) -> Bundle:
    """The skill `name` made of these files, or a refusal that names the file."""
    kept = [(path, data) for path, data in files if not _LEFT_BEHIND.search(path)]
    _check_amount(kept, limits)
    checked = _checked(_without_top_folder(kept))
    head = frontmatter.read(_skill_md(checked))
    if head.name != name:
        raise InvalidPayload(
            f"SKILL.md says that its name is {head.name!r}, and this is the skill {name!r}.",
            param="name",
            hint=f"use `toolcrib skill create {head.name}`, or change `name` in SKILL.md",
        )
    return Bundle(head, checked, _digest(checked))


def inline(name: str, content: wire.SkillInlineContent) -> Bundle:
    """The skill `name` made of fields instead of files: the SKILL.md they would be written in."""
    fields: dict[str, object] = {"name": name, "description": content.description}
    if content.license is not None:
        fields["license"] = content.license
    if content.compatibility is not None:
        fields["compatibility"] = content.compatibility
    if content.metadata:
        fields["metadata"] = dict(content.metadata)
    if content.allowed_tools:
        fields["allowed-tools"] = frontmatter.joined_tools(content.allowed_tools)
    frontmatter.check(fields)
    try:
        data = frontmatter.write(fields, content.instructions)
    except UnicodeEncodeError:
        raise InvalidPayload("inline_content holds half a character.", param="inline_content") from None
    return bundle(name, [(SKILL_MD, data)], Limits())


def check_path(path: str) -> None:
    """Refuse a path that could leave the skill's folder, or that some file system could not hold."""
    segments = path.split("/")
    if path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path):
        raise _bad_path(path, "is absolute")
    if ".." in segments:
        raise _bad_path(path, "leads out of the skill's folder")
    if _FORBIDDEN.search(path):
        raise _bad_path(path, "has a character that not every file system can hold")
    if any(part in ("", ".") or part != part.strip(" ") or part.endswith(".") for part in segments):
        raise _bad_path(path, "has a part that is empty, a dot, or begins or ends with a blank or a dot")
    if len(path.encode()) > _LONGEST_PATH or len(segments) > _DEEPEST_PATH:
        raise _bad_path(path, f"is longer than {_LONGEST_PATH} bytes or deeper than {_DEEPEST_PATH} folders")


def shown(path: str) -> str:
    """A name somebody sent, fit for a message."""
    return ascii(path if len(path) <= 120 else path[:119] + "…")


def _check_amount(files: list[tuple[str, bytes]], limits: Limits) -> None:
    if len(files) > limits.files:
        raise TooLarge(
            f"The skill has {len(files)} files; the limit is {limits.files}. The first too many is"
            f" {shown(files[limits.files][0])}.",
            param="files",
            hint="leave out what agents do not need, or let the operator raise max_skill_files",
            info={"entry": files[limits.files][0][:200]},
        )
    total = 0
    for path, data in files:
        total += len(data)
        if total > limits.expanded_bytes:
            raise TooLarge(
                f"With {shown(path)} the skill is larger than {limits.expanded_bytes} bytes.",
                param="files",
                hint="leave out what agents do not need, or let the operator raise max_skill_bytes",
                info={"entry": path[:200]},
            )


def _without_top_folder(files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Files as they lie inside the skill's folder, also where the folder itself was packed."""
    tops = {path.partition("/")[0] for path, _ in files}
    if len(tops) != 1 or not all("/" in path for path, _ in files):
        return files
    top = tops.pop()
    return [(path[len(top) + 1 :], data) for path, data in files] if top not in (".", "..", "") else files


def _checked(files: list[tuple[str, bytes]]) -> dict[str, bytes]:
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path, _ in files:
        check_path(path)
        key = _folded(path)
        if key in seen:
            same = "is there twice" if seen[key] == path else f"differs from {shown(seen[key])} only in spelling"
            raise _bad_path(path, same)
        seen[key] = path
        for end in (i for i, c in enumerate(key) if c == "/"):
            folders.setdefault(key[:end], path)
    for key, path in seen.items():
        if key in folders:
            raise _bad_path(path, f"is a file, and {shown(folders[key])} lies inside it")
    return dict(sorted(files))


def _folded(path: str) -> str:
    """Equal for paths that some file system takes for the same one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _skill_md(files: Mapping[str, bytes]) -> bytes:
    if SKILL_MD in files:
        return files[SKILL_MD]
    near = next((path for path in files if path.rpartition("/")[2].lower() == SKILL_MD.lower()), None)
    raise InvalidPayload(
        "The skill has no SKILL.md at its top.",
        param="files",
        hint=f"{shown(near)} should be called SKILL.md and lie at the top" if near else "every skill needs one",
    )


def _digest(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path, data in files.items():
        whole.update(f"{path}\0{len(data)}\0".encode() + hashlib.sha256(data).digest())
    return "sha256:" + whole.hexdigest()


def _bad_path(path: str, why: str) -> InvalidPayload:
    return InvalidPayload(
        f"The file {shown(path)} is refused: its name {why}.", param="files", info={"entry": path[:200]}
    )
