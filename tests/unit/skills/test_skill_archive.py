"""Archives: every hostile one is refused with the entry's name, within bounds; ours are always the same."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.skill_archives import HOSTILE, SHAPELESS, SKILL, Item, build, many
from toolcrib.errors import InvalidPayload, RequestError, TooLarge
from toolcrib.skills import archive
from toolcrib.skills.bundle import Bundle, Limits, bundle


def unpacked(data: bytes, limits: Limits | None = None) -> Bundle:
    limits = limits or Limits()
    return bundle("trap", archive.read(data, limits), limits)


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused_with_the_name_of_its_entry(case: str) -> None:
    data, name = HOSTILE[case]
    with pytest.raises(RequestError) as refused:
        unpacked(data)
    assert name in refused.value.message
    assert refused.value.info.get("entry") is not None


@pytest.mark.parametrize("case", SHAPELESS)
def test_what_is_hardly_an_archive_is_refused(case: str) -> None:
    with pytest.raises(InvalidPayload):
        unpacked(SHAPELESS[case])


@pytest.mark.parametrize(
    "case", ["a bomb", "a bomb that lies", "overlapping entries", "100,000 entries, counted modulo 65,536"]
)
def test_a_bomb_costs_less_memory_than_it_would_be_allowed_to(case: str) -> None:
    data, _ = HOSTILE[case]
    tracemalloc.start()
    try:
        with pytest.raises(RequestError):
            unpacked(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20


def test_the_limits_are_settings() -> None:
    data = build(Item("SKILL.md", SKILL), *(Item(f"{n}.md", b"x" * 100) for n in range(5)))
    assert len(unpacked(data).files) == 6
    for limits in (Limits(archive_bytes=100), Limits(files=5), Limits(expanded_bytes=500)):
        with pytest.raises(TooLarge):
            unpacked(data, limits)
    with pytest.raises(TooLarge, match="511"):
        unpacked(many(512))
    assert len(unpacked(many(511)).files) == 512


@pytest.mark.parametrize("flags", [0, 0x800, 0x8])
def test_archives_of_ordinary_tools_are_read(flags: int) -> None:
    made = unpacked(
        build(Item("trap/", mode=0o040755), Item("trap/SKILL.md", SKILL, flags=flags), Item("trap/é.md", b"x"))
    )
    assert list(made.files) == ["SKILL.md", "é.md"]


def test_what_a_mac_adds_is_left_out_and_nothing_else() -> None:
    made = unpacked(
        build(
            Item("trap/SKILL.md", SKILL),
            Item("__MACOSX/trap/._SKILL.md", b"x"),
            Item("trap/.DS_Store", b"x"),
            Item("trap/.hidden", b"x"),
        )
    )
    assert list(made.files) == [".hidden", "SKILL.md"]


paths = st.from_regex(r"[a-z]{1,6}(/[a-z]{1,6}){0,2}\.(md|bin)", fullmatch=True)


@given(st.dictionaries(paths, st.binary(max_size=300), max_size=8))
def test_what_is_written_reads_back_byte_for_byte_and_is_written_the_same_again(files: dict[str, bytes]) -> None:
    files = {**files, "SKILL.md": SKILL}
    packed = archive.write(files)
    assert dict(archive.read(packed, Limits())) == files
    again = dict(reversed(archive.read(packed, Limits())))
    assert archive.write(again) == packed
    shuffled = io.BytesIO()
    with zipfile.ZipFile(shuffled, "w", zipfile.ZIP_STORED) as other:
        for path in sorted(files, reverse=True):
            other.writestr(path, files[path])
    assert unpacked(shuffled.getvalue()).digest == unpacked(packed).digest


def test_files_that_pack_very_well_still_make_an_archive_we_read_ourselves() -> None:
    files = {"SKILL.md": SKILL, "zeros.bin": b"\0" * (5 * 2**20)}
    packed = archive.write(files)
    assert dict(archive.read(packed, Limits())) == files


@given(st.binary(max_size=400))
def test_noise_is_refused_and_never_crashes(noise: bytes) -> None:
    good = build(Item("SKILL.md", SKILL), Item("a.md", b"hello" * 20))
    for data in (noise, b"PK\x03\x04" + noise, good[: len(good) // 2] + noise + good[len(good) // 2 :]):
        try:
            unpacked(data)
        except RequestError:
            continue


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_one_changed_byte_is_refused_or_makes_no_difference_to_the_bytes(at: int, value: int) -> None:
    good = build(Item("SKILL.md", SKILL), Item("a.md", b"hello" * 20))
    at %= len(good)
    changed = good[:at] + bytes([value]) + good[at + 1 :]
    try:
        read = archive.read(changed, Limits())
    except RequestError:
        return
    assert [data for _, data in read] == [SKILL, b"hello" * 20]
