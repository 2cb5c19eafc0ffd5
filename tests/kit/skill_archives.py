"""Archives made by hand, byte by byte, so that they can say what no ZIP library would write."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass, field

SKILL = b"---\nname: trap\ndescription: A skill for tests.\n---\n\nBody.\n"


@dataclass
class Item:
    """One entry; fields that are None tell the truth."""

    name: str | bytes
    data: bytes = b""
    mode: int = stat.S_IFREG | 0o644
    method: int = 8
    flags: int = 0
    crc: int | None = None
    size: int | None = None
    packed_size: int | None = None
    at: int | None = None
    local_name: bytes | None = None
    packed: bytes | None = field(default=None, repr=False)


def build(*items: Item, count: int | None = None, tail: bytes = b"", shift: int = 0) -> bytes:
    out, lines, offsets = io.BytesIO(), [], []
    for item in items:
        raw = item.name if isinstance(item.name, bytes) else item.name.encode()
        engine = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = item.packed if item.packed is not None else item.data
        if item.method == 8 and item.packed is None:
            packed = engine.compress(item.data) + engine.flush()
        crc = zlib.crc32(item.data) if item.crc is None else item.crc
        size = len(item.data) if item.size is None else item.size
        packed_size = len(packed) if item.packed_size is None else item.packed_size
        offsets.append(out.tell())
        local = item.local_name or raw
        sizes = (crc, packed_size & 0xFFFFFFFF, size & 0xFFFFFFFF)
        out.write(struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, item.flags, item.method, 0, 33, *sizes, len(local), 0))
        out.write(local + packed)
        at = offsets[-1] if item.at is None else item.at
        lines.append(
            struct.pack(
                "<4s6H3L5H2L",
                b"PK\x01\x02",
                0x0314,
                20,
                item.flags,
                item.method,
                0,
                33,
                *sizes,
                len(raw),
                0,
                0,
                0,
                0,
                (item.mode & 0xFFFF) << 16,
                at + shift,
            )
            + raw
        )
    start = out.tell()
    directory = b"".join(lines)
    number = len(items) if count is None else count
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, number & 0xFFFF, number & 0xFFFF, len(directory), start, 0)
    return out.getvalue() + directory + end + tail


def skill(*more: Item) -> bytes:
    return build(Item("SKILL.md", SKILL), *more)


def many(count: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("SKILL.md", SKILL)
        for number in range(count):
            archive.writestr(f"{number:06}", b"")
    return out.getvalue()


def zip64() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("SKILL.md", SKILL)
    data = out.getvalue()
    at = data.index(b"PK\x05\x06")
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    return data[:at] + locator + data[at:]


def overlapping() -> bytes:
    """Many names for the same data: how 42 kB become a petabyte."""
    return build(Item("SKILL.md", SKILL), Item("a", b"x" * 1000), *(Item(f"b{n}", b"x" * 1000, at=0) for n in range(5)))


def bomb(megabytes: int = 60) -> bytes:
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = b"\0" * 2**20
    packed = b"".join(engine.compress(zeros) for _ in range(megabytes)) + engine.flush()
    crc = 0
    for _ in range(megabytes):
        crc = zlib.crc32(zeros, crc)
    return skill(Item("zeros.bin", packed=packed, size=megabytes * 2**20, crc=crc))


def quiet_bomb(megabytes: int = 60) -> bytes:
    """The same, but its directory says that it is tiny."""
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = b"\0" * 2**20
    packed = b"".join(engine.compress(zeros) for _ in range(megabytes)) + engine.flush()
    return skill(Item("zeros.bin", packed=packed, size=100, crc=0))


# (archive, what the refusal must name)
HOSTILE: dict[str, tuple[bytes, str]] = {
    "a path that climbs": (skill(Item("../escape.txt", b"x")), "../escape.txt"),
    "a path that climbs later": (skill(Item("a/../../escape.txt", b"x")), "a/../../escape.txt"),
    "a path that climbs by backslash": (skill(Item("..\\escape.txt", b"x")), "escape.txt"),
    "an absolute path": (skill(Item("/etc/passwd", b"x")), "/etc/passwd"),
    "a drive letter": (skill(Item("C:/windows/x.txt", b"x")), "C:/windows/x.txt"),
    "a drive letter with backslashes": (skill(Item("C:\\windows\\x.txt", b"x")), "C:"),
    "a share": (skill(Item("\\\\host\\share\\x", b"x")), "host"),
    "a name with a NUL": (skill(Item("a\0.md", b"x")), "a\\x00.md"),
    "a name with a line break": (skill(Item("a\n.md", b"x")), "a\\n.md"),
    "a name of blanks": (skill(Item("references/ /x.md", b"x")), "references/ /x.md"),
    "a dot": (skill(Item("./x.md", b"x")), "./x.md"),
    "an empty name": (skill(Item("", b"x")), "''"),
    "a name of 5,000 characters": (skill(Item("x" * 5000, b"x")), "xxxx"),
    "a name that is no UTF-8": (skill(Item(b"\xff\xfe.md", b"x", flags=0x800)), "xff"),
    "a symbolic link": (skill(Item("link", b"/etc/passwd", stat.S_IFLNK | 0o777)), "link"),
    "a FIFO": (skill(Item("pipe", b"", stat.S_IFIFO | 0o644)), "pipe"),
    "a device": (skill(Item("disk", b"", stat.S_IFBLK | 0o644)), "disk"),
    "a socket": (skill(Item("socket", b"", stat.S_IFSOCK | 0o644)), "socket"),
    "a setuid file": (skill(Item("run.sh", b"x", stat.S_IFREG | 0o4755)), "run.sh"),
    "a setgid file": (skill(Item("run.sh", b"x", stat.S_IFREG | 0o2755)), "run.sh"),
    "a folder with content": (skill(Item("folder/", b"x", stat.S_IFDIR | 0o755)), "folder/"),
    "a folder called a file": (skill(Item("file/", b"", stat.S_IFREG | 0o644)), "file/"),
    "a name twice": (skill(Item("a.md", b"1"), Item("a.md", b"2")), "a.md"),
    "two names that differ by case": (skill(Item("a.md", b"1"), Item("A.md", b"2")), "A.md"),
    "SKILL.md and skill.md": (skill(Item("skill.md", b"2")), "skill.md"),
    "two spellings of one letter": (skill(Item("caf\u00e9.md", b"1"), Item("cafe\u0301.md", b"2")), "cafe"),
    "a file that is also a folder": (skill(Item("a", b"1"), Item("a/b.md", b"2")), "'a'"),
    "a wrong CRC": (skill(Item("a.md", b"x", crc=1)), "a.md"),
    "an encrypted entry": (skill(Item("a.md", b"x", flags=1)), "a.md"),
    "strong encryption": (skill(Item("a.md", b"x", flags=0x41)), "a.md"),
    "a hidden header": (skill(Item("a.md", b"x", flags=0x2000)), "a.md"),
    "a foreign method": (skill(Item("a.md", b"x", method=14, packed=b"x")), "a.md"),
    "a size that is too small": (skill(Item("a.md", b"x" * 100, size=10)), "a.md"),
    "a size that is too large": (skill(Item("a.md", b"x" * 100, size=1000)), "a.md"),
    "a stored size that lies": (skill(Item("a.md", b"x" * 100, method=0, size=10)), "a.md"),
    "data that cannot be unpacked": (skill(Item("a.md", packed=b"\xff" * 20, size=20, crc=0)), "a.md"),
    "data beyond the end": (skill(Item("a.md", b"x", packed_size=10_000)), "a.md"),
    "a place beyond the end": (skill(Item("a.md", b"x", at=10_000)), "a.md"),
    "two names at odds": (skill(Item("a.md", b"x", local_name=b"b.md")), "a.md"),
    "ZIP64 sizes": (skill(Item("a.md", b"x", size=0xFFFFFFFF)), "a.md"),
    "ZIP64 offsets": (skill(Item("a.md", b"x", at=0xFFFFFFFF)), "a.md"),
    "overlapping entries": (overlapping(), "b"),
    "a bomb": (bomb(), "zeros.bin"),
    "a bomb that lies": (quiet_bomb(), "zeros.bin"),
    "513 files": (many(512), "000511"),
    "100,000 entries, counted modulo 65,536": (build(*(Item(f"{n}", b"") for n in range(100_000))), "2560"),
}
SHAPELESS: dict[str, bytes] = {
    "nothing": b"",
    "text": b"# SKILL",
    "half an archive": skill()[:-30],
    "an end alone": skill()[-22:],
    "data after the end": build(Item("SKILL.md", SKILL), tail=b"more"),
    "data before the beginning": b"x" * 100 + skill(),
    "a wrong count": build(Item("SKILL.md", SKILL), count=5)[:-2] + b"\1\0",
    "ZIP64": zip64(),
    "100,000 entries": many(100_000),
    "gzip": b"\x1f\x8b\x08\0",
    "an empty archive": build(),
    "no SKILL.md": build(Item("README.md", b"x")),
    "SKILL.md too deep": build(Item("a/b/SKILL.md", SKILL)),
}
