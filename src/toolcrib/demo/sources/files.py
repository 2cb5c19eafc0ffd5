"""A small workspace of text files, held in memory: no call ever reaches the real disk."""

import fnmatch
import posixpath
import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Refused, Source, adds, pick, reads, removes, sets, utc_now

Path = Annotated[str, "Path inside the workspace, e.g. 'docs/safety.md'", Meta(min_length=1, max_length=500)]

_SEED = {
    "README.md": "# Workshop\n\nJobs, drawings and rules of the workshop live here.\n",
    "docs/safety.md": "# Safety\n\n- Wear goggles at the lathe.\n- Unplug the band saw before changing blades.\n",
    "docs/opening-hours.md": "Monday to Friday 08:00-18:00, Saturday 09:00-13:00.\n",
    "jobs/2026-11-bracket.csv": "part,quantity,material\nbracket,12,steel\nspacer,24,nylon\n",
    "jobs/2026-11-table.csv": "part,quantity,material\nleg,4,oak\ntop,1,oak\n",
    "scripts/cutlist.py": "def total(parts):\n    return sum(quantity for _, quantity in parts)\n",
}


class File(msgspec.Struct, frozen=True):
    path: str
    text: str
    modified: datetime


class Files(Source):
    """The `files` source."""

    label = "files"
    about = "A workspace of text files: read, write, move, search. Paths are relative to the workspace root."

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(now)
        self.files = {path: File(path, text, now()) for path, text in _SEED.items()}
        self.folders = {posixpath.dirname(path) for path in _SEED}

    @reads
    def list_directory(self, path: Annotated[str, "Folder to list; empty for the root"] = "") -> list[str]:
        """Get a listing of all files and folders in a specified path. Folders end with a slash.
        Only the direct children are returned; use directory_tree to see everything below."""
        folder = _clean(path) if path else ""
        self._check_folder(folder)
        inside = [p[len(folder) :].lstrip("/") for p in {*self.files, *self.folders} if _is_below(p, folder)]
        return sorted({name.split("/")[0] + "/" * ("/" in name or self._is_folder(folder, name)) for name in inside})

    @reads
    def directory_tree(self) -> list[str]:
        """Recursive view of the whole workspace, one path per line."""
        return sorted([*self.files, *(f"{folder}/" for folder in self.folders if folder)])

    @reads
    def read_file(
        self,
        path: Path,
        head: Annotated[int, "Return only the first N lines", Meta(ge=0)] = 0,
        tail: Annotated[int, "Return only the last N lines", Meta(ge=0)] = 0,
    ) -> str:
        """Read the complete contents of a text file. Handles UTF-8 text and returns the raw content. Use 'head' or
        'tail' to see only the beginning or the end of a long file, for example a log."""
        lines = self._open(path).text.splitlines(keepends=True)
        return "".join(lines[:head] if head else lines[-tail:] if tail else lines)

    @removes
    def write_file(self, path: Path, content: Annotated[str, "The new text"]) -> dict[str, object]:
        """Create a new file or completely overwrite an existing file with new content. Use with caution as it will
        overwrite existing files without warning."""
        self._store(_clean(path), content)
        return {"path": _clean(path), "bytes": len(content.encode())}

    @adds
    def append_to_file(self, path: Path, content: str) -> str:
        """Adds text at the end of an existing file."""
        file = self._open(path)
        self._store(file.path, file.text + content)
        return f"Appended {len(content)} characters to {file.path}."

    @removes
    def edit_file(
        self,
        path: Path,
        old_text: Annotated[str, "Text to look for; must occur exactly once", Meta(min_length=1)],
        new_text: Annotated[str, "Text to put in its place"],
    ) -> str:
        """Replace one passage of a file, leaving the rest untouched. Fails if the passage is missing or ambiguous."""
        file = self._open(path)
        if (count := file.text.count(old_text)) != 1:
            raise Refused(f"The text occurs {count} times in {file.path}; it must occur exactly once.")
        self._store(file.path, file.text.replace(old_text, new_text))
        return f"Edited {file.path}."

    @removes
    def move_file(self, source: Path, destination: Path) -> str:
        """Move or rename a file. If the destination exists, the operation fails."""
        file = self._open(source)
        self._copy(file, _clean(destination))
        del self.files[file.path]
        return f"Moved {file.path} to {_clean(destination)}."

    @adds
    def copy_file(self, source: Path, destination: Path) -> str:
        """Duplicate a file under another path."""
        file = self._open(source)
        self._copy(file, _clean(destination))
        return f"Copied {file.path} to {_clean(destination)}."

    @removes
    def delete_file(self, path: Path) -> str:
        """Permanently delete a file from the workspace. There is no trash."""
        del self.files[self._open(path).path]
        return f"Deleted {_clean(path)}."

    @sets
    def create_directory(self, path: Path) -> str:
        """Make a new folder, including its parents. Succeeds silently if it is already there."""
        folder = _clean(path)
        if folder in self.files:
            raise Refused(f"{folder!r} is a file.")
        self._add_folders(folder)
        return f"Folder {folder} is there."

    @reads
    def find_files(self, pattern: Annotated[str, "Glob such as '*.csv' or 'jobs/*'"]) -> list[str]:
        """Search for files whose path or name matches a glob pattern."""
        return sorted(p for p in self.files if any(fnmatch.fnmatch(n, pattern) for n in (p, posixpath.basename(p))))

    @reads
    def grep(
        self,
        pattern: Annotated[str, "Text to look for, taken literally", Meta(min_length=1)],
        path_glob: Annotated[str, "Only search files that match this glob"] = "*",
        ignore_case: bool = True,
    ) -> list[str]:
        """Find lines containing the given text across all files. Output is path:line number:line."""
        wanted = re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0)
        return [
            f"{file.path}:{number}:{line}"
            for file in self.files.values()
            if fnmatch.fnmatch(file.path, path_glob)
            for number, line in enumerate(file.text.splitlines(), 1)
            if wanted.search(line)
        ]

    @reads
    def get_file_info(self, path: Path) -> dict[str, object]:
        """Metadata about a file: size in bytes, number of lines, type and last modification time."""
        file = self._open(path)
        kind = posixpath.splitext(file.path)[1].lstrip(".") or "text"
        size, lines = len(file.text.encode()), len(file.text.splitlines())
        return {"path": file.path, "bytes": size, "lines": lines, "type": kind, "modified": file.modified}

    def _open(self, path: str) -> File:
        return pick(self.files, _clean(path), "file")

    def _store(self, path: str, text: str) -> None:
        if path in self.folders:
            raise Refused(f"{path!r} is a folder.")
        self._add_folders(posixpath.dirname(path))
        self.files[path] = File(path, text, self.now())

    def _copy(self, file: File, destination: str) -> None:
        if destination in self.files:
            raise Refused(f"{destination!r} already exists.")
        self._store(destination, file.text)

    def _add_folders(self, folder: str) -> None:
        parts = folder.split("/") if folder else []
        self.folders |= {"/".join(parts[: depth + 1]) for depth in range(len(parts))}

    def _check_folder(self, folder: str) -> None:
        if folder and folder not in self.folders:
            raise Refused(
                f"There is no folder {folder!r}. Known folders: {', '.join(sorted(filter(None, self.folders)))}."
            )

    def _is_folder(self, folder: str, name: str) -> bool:
        return posixpath.join(folder, name) in self.folders


def _clean(path: str) -> str:
    cleaned = posixpath.normpath(path.strip().lstrip("/"))
    if cleaned in (".", "") or cleaned.startswith(".."):
        raise Refused(f"{path!r} does not name anything inside the workspace.")
    return cleaned


def _is_below(path: str, folder: str) -> bool:
    return bool(path) and (not folder or path.startswith(folder + "/"))
