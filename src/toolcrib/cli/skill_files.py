"""Skills on this machine's disk: a folder, a ZIP or one SKILL.md, up or down; and where agent tools keep them.

Nothing is followed out of a skill's folder, neither when it is read (links are refused) nor when it is written (the
server's archive is judged as strictly as the server judges ours). Knows no server.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import click

from toolcrib.errors import InvalidPayload
from toolcrib.skills import archive, frontmatter
from toolcrib.skills.bundle import SKILL_MD, Bundle, Limits, bundle, check_path

_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".DS_Store", "__MACOSX", "node_modules", ".venv"})
_LIMITS = Limits(archive_bytes=2**30, files=10_000, expanded_bytes=2**30)  # the server has its own and says so
PLACES = (
    "",
    "skills",
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
    ".config/agents/skills",
    ".config/opencode/skills",
    ".copilot/skills",
    ".cursor/skills",
    ".gemini/skills",
    ".github/skills",
    ".opencode/skills",
)


@dataclass(frozen=True, slots=True)
class Upload:
    """What is sent to the server: files, or an archive as it is."""

    files: list[tuple[str, bytes]] = field(repr=False)
    archive: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name in SKILL.md."""
        md = next((data for path, data in self.files if path.rpartition("/")[2] == SKILL_MD), None)
        if md is None:
            raise click.UsageError(f"there is no {SKILL_MD}")
        return frontmatter.read(md).name

    def bundle(self, name: str) -> Bundle:
        return bundle(name, self.files, _LIMITS)


def read(path: Path) -> Upload:
    """A folder, a ZIP or a SKILL.md."""
    if path.is_dir():
        return Upload(_folder(path))
    data = path.read_bytes()
    if archive.is_archive(data):
        return Upload(archive.read(data, _LIMITS), data)
    if path.name.lower().endswith((".zip", ".skill")):
        raise click.UsageError(f"`{path}` is not a ZIP archive")
    return Upload([(SKILL_MD, data)])


def find(folder: Path) -> list[Path]:
    """The folders of every skill that lies in `folder` or where agent tools keep skills below it."""
    found: dict[Path, Path] = {}
    for place in PLACES:
        root = folder / place
        inside = sorted(root.iterdir()) if root.is_dir() else []
        for candidate in (root, *inside):
            if (candidate / SKILL_MD).is_file():
                found.setdefault(candidate.resolve(), candidate)
    return list(found.values())


def unpack(data: bytes, folder: Path) -> list[str]:
    """Write the files of a downloaded skill below `folder`; their paths."""
    files = archive.read(data, _LIMITS)
    for path, _ in files:
        check_path(path)
    for path, content in files:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return [path for path, _ in files]


def _folder(root: Path) -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    for folder, names, leaves in os.walk(root):
        names[:] = sorted(name for name in names if name not in _LEFT_OUT)
        for name in sorted([*leaves, *(n for n in names if (Path(folder) / n).is_symlink())]):
            path = Path(folder) / name
            if path.is_symlink() or not path.is_file():
                raise InvalidPayload(
                    f"`{path}` is a link or no plain file, and a skill holds plain files.",
                    hint="copy it into the folder",
                )
            if name not in _LEFT_OUT:
                files.append((path.relative_to(root).as_posix(), path.read_bytes()))
    return files
