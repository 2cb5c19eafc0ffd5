"""ZIP archives: read as if sent by an enemy, written the same way every time.

The reader walks the central directory itself and believes nothing it cannot check: no ZIP64, no encryption, no links,
no overlapping or repeated data, sizes and checksums that hold. It stops at the limits, before it has allocated what an
archive claims. Nothing touches a disk. Knows nothing of what a skill is.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolcrib.errors import InvalidPayload, TooLarge
from toolcrib.skills.bundle import Limits, shown

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
_UTF8 = 0x0800
_ZIP64 = 0xFFFFFFFF
_FOLDERS_PER_FILE = 4
_LARGEST_RATIO = 100
_RATIO_MATTERS_FROM = 2**20
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of the central directory."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    mode: int
    at: int


def is_archive(data: bytes) -> bool:
    return data[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def read(data: bytes, limits: Limits) -> list[tuple[str, bytes]]:
    """The files of an archive, in its order; or a refusal with the name of the entry at fault."""
    if len(data) > limits.archive_bytes:
        raise TooLarge(
            f"The archive has {len(data)} bytes; the limit is {limits.archive_bytes}.",
            param="files",
            hint="leave out what agents do not need, or let the operator raise max_skill_archive_bytes",
        )
    start, end = _directory(data)
    entries = list(_entries(data, start, end, limits))
    _check_extents(data, entries, start)
    files = [e for e in entries if not e.name.endswith("/")]
    _check_amount(files, len(data), limits)
    return [(e.name, _content(data, e)) for e in files]


def write(files: Mapping[str, bytes]) -> bytes:
    """An archive of these files whose bytes depend on nothing but them, and which `read` does not take for a bomb."""
    packed = _written(files, zipfile.ZIP_DEFLATED)
    is_suspicious = sum(map(len, files.values())) > max(_RATIO_MATTERS_FROM, _LARGEST_RATIO // 2 * len(packed))
    return _written(files, zipfile.ZIP_STORED) if is_suspicious else packed


def _written(files: Mapping[str, bytes], method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(files):
            info = zipfile.ZipInfo(path, _EPOCH)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.compress_type = method
            archive.writestr(info, files[path], compresslevel=6)
    return out.getvalue()


def _directory(data: bytes) -> tuple[int, int]:
    """Where the central directory begins and ends."""
    at = data.rfind(b"PK\x05\x06", max(0, len(data) - _END.size - 0xFFFF))
    if at < 0 or at + _END.size > len(data) or not is_archive(data):
        raise _refused(None, "this is not a ZIP archive, or its end is missing")
    _, disk, first_disk, here, count, size, start, comment = _END.unpack_from(data, at)
    if data[max(0, at - 20) : at].startswith(b"PK\x06\x07") or _ZIP64 in (size, start) or 0xFFFF in (here, count):
        raise _refused(None, "the archive says it is ZIP64; a skill is never that large")
    if disk or first_disk or here != count or at + _END.size + comment != len(data) or start + size != at:
        raise _refused(None, "the end of the archive does not fit the archive")
    return start, at


def _entries(data: bytes, start: int, end: int, limits: Limits) -> Iterator[_Entry]:
    most = limits.files * (1 + _FOLDERS_PER_FILE)
    at = start
    for number in range(most + 1):
        if at == end:
            return
        if at + _CENTRAL.size > end:
            break
        entry, at = _entry(data, at)
        if at > end:
            raise _refused(entry.name, "its line in the directory is cut off")
        if number == most:
            raise TooLarge(
                f"The archive has more than {most} entries; {shown(entry.name)} is the first too many.",
                param="files",
                info={"entry": entry.name[:200]},
            )
        _check_entry(entry)
        yield entry
    raise _refused(None, "the archive's directory is damaged")


def _entry(data: bytes, at: int) -> tuple[_Entry, int]:
    fields = _CENTRAL.unpack_from(data, at)
    signature, _, _, flags, method, _, _, crc, packed, size, name_len, extra_len, note_len, disk, _, attrs, where = (
        fields
    )
    if signature != b"PK\x01\x02":
        raise _refused(None, "the archive's directory is damaged")
    raw_name = data[at + _CENTRAL.size : at + _CENTRAL.size + name_len]
    name = _decoded(raw_name, flags)
    if _ZIP64 in (packed, size, where) or disk:
        raise _refused(name, "it says it is ZIP64 or on another disk; a skill is never that large")
    entry = _Entry(name, raw_name, flags, method, crc, packed, size, attrs >> 16, where)
    return entry, at + _CENTRAL.size + name_len + extra_len + note_len


def _decoded(raw: bytes, flags: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        if flags & _UTF8:
            raise _refused(repr(raw[:100]), "its name is not UTF-8") from None
        return raw.decode("cp437")


def _check_entry(entry: _Entry) -> None:
    kind = stat.S_IFMT(entry.mode)
    if entry.flags & _ENCRYPTED:
        raise _refused(entry.name, "it is encrypted")
    if entry.method not in (_STORED, _DEFLATED):
        raise _refused(entry.name, f"it is packed by method {entry.method}; only stored and deflated are read")
    if kind == stat.S_IFLNK:
        raise _refused(entry.name, "it is a symbolic link")
    is_folder = entry.name.endswith("/")
    if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
        raise _refused(entry.name, "it is neither a file nor a folder")
    if entry.mode & (stat.S_ISUID | stat.S_ISGID) and not is_folder:
        raise _refused(entry.name, "it would run with another's rights (setuid or setgid)")
    if is_folder and entry.size:
        raise _refused(entry.name, "it is a folder with content")
    if entry.method == _STORED and entry.packed != entry.size:
        raise _refused(entry.name, "it is stored as it is, yet its two sizes differ")


def _check_extents(data: bytes, entries: list[_Entry], end: int) -> None:
    """Each entry's bytes must be its own: data shared between entries is how small archives become huge."""
    free = 0
    for entry in sorted(entries, key=lambda e: e.at):
        if entry.at < free or entry.at + _LOCAL.size > end:
            raise _refused(entry.name, "its data overlaps another entry's, or lies outside the archive")
        begin = _data_at(data, entry)
        free = begin + entry.packed
        if free > end:
            raise _refused(entry.name, "its data lies outside the archive")


def _data_at(data: bytes, entry: _Entry) -> int:
    fields = _LOCAL.unpack_from(data, entry.at)
    signature, _, flags, method, _, _, _, _, _, name_len, extra_len = fields
    begin = entry.at + _LOCAL.size + name_len
    if signature != b"PK\x03\x04" or data[entry.at + _LOCAL.size : begin] != entry.raw_name or method != entry.method:
        raise _refused(entry.name, "the archive says two different things about it")
    if flags & _ENCRYPTED:
        raise _refused(entry.name, "it is encrypted")
    return begin + extra_len


def _check_amount(files: list[_Entry], archive_bytes: int, limits: Limits) -> None:
    """Before anything is unpacked: what the directory announces, which `_content` then holds it to."""
    total = 0
    for number, entry in enumerate(files):
        total += entry.size
        if number >= limits.files:
            raise _too_much(entry, f"the archive has more than {limits.files} files")
        if total > limits.expanded_bytes:
            raise _too_much(entry, f"with it the files are larger than {limits.expanded_bytes} bytes")
        if total > _RATIO_MATTERS_FROM and total > _LARGEST_RATIO * archive_bytes:
            raise _too_much(entry, f"with it the files are more than {_LARGEST_RATIO} times as large as the archive")


def _content(data: bytes, entry: _Entry) -> bytes:
    begin = _data_at(data, entry)
    packed = memoryview(data)[begin : begin + entry.packed]
    content = bytes(packed) if entry.method == _STORED else _inflated(packed, entry)
    if len(content) != entry.size:
        raise _refused(entry.name, "its size is not what the directory says")
    if zlib.crc32(content) != entry.crc:
        raise _refused(entry.name, "its checksum (CRC) is wrong")
    return content


def _inflated(packed: memoryview, entry: _Entry) -> bytes:
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = engine.decompress(packed, entry.size + 1)
    except zlib.error:
        raise _refused(entry.name, "its data cannot be unpacked") from None
    if len(content) > entry.size or not engine.eof or engine.unused_data:
        raise _refused(entry.name, "its size is not what the directory says")
    return content


def _too_much(entry: _Entry, why: str) -> TooLarge:
    return TooLarge(
        f"The archive is refused at {shown(entry.name)}: {why}.",
        param="files",
        hint="leave out what agents do not need, or let the operator raise the limits of skills",
        info={"entry": entry.name[:200]},
    )


def _refused(name: str | None, why: str) -> InvalidPayload:
    if name is None:
        return InvalidPayload(f"The archive is refused: {why}.", param="files")
    return InvalidPayload(f"The archive is refused at {shown(name)}: {why}.", param="files", info={"entry": name[:200]})
