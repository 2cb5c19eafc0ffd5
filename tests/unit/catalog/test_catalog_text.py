from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.text import escaped, is_visible, marks, skeleton, visible

HIDDEN = "\u200b\u200e\u202e\u2066\ufeff\u00ad\u2060\U000e0041\x1b\x07\u3164\ud800"


@pytest.mark.parametrize(
    "kept", ["plain", "two\nlines\tand tab", "⚠️ warning", "👨‍👩‍👧", "می\u200cخواهم", "Grüße", "日本語", "1️⃣"]
)
def test_what_can_be_seen_stays(kept: str) -> None:
    assert visible(kept) == kept
    assert not marks(kept)


@pytest.mark.parametrize("char", HIDDEN)
def test_what_cannot_be_seen_goes(char: str) -> None:
    assert visible(f"a{char}b") == "ab"
    assert not is_visible(f"a{char}b")
    assert marks(f"a{char}b")
    assert is_visible(escaped(f"a{char}b"))


def test_a_terminal_sequence_goes_as_a_whole() -> None:
    assert visible("a\x1b[31;1mred\x1b[0m\x1b]8;;http://x\x07b") == "aredb"


@given(st.text(alphabet=st.sampled_from("ab1\n\r⚠👩\u0645" + HIDDEN + "\u200c\u200d\ufe0e\ufe0f[]m;\\")))
def test_stripping_once_is_enough(said: str) -> None:
    assert is_visible(visible(said))
    assert is_visible(escaped(said, 10_000))


@given(st.text(max_size=400))
def test_a_shown_text_is_bounded(said: str) -> None:
    assert len(escaped(said, 50)) <= 50


def test_look_alikes_share_a_skeleton() -> None:
    assert skeleton("Gіthub") == skeleton("github") == skeleton("ＧＩＴＨＵＢ")
    assert skeleton("gitlab") != skeleton("github")


@pytest.mark.parametrize(
    "honest",
    [
        "Search issues. Returns at most 50, newest first.",
        "Call this with the id that `search` returned.",
        "Ignore case when matching.",
        "The user's password is never stored; pass a hash.",
        "Ελληνικά και English words side by side",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855e3b0c44298fc1c149afbf4c8996fb924",
        "Akaryakıt fiyatları",
    ],
)
def test_honest_text_is_not_marked(honest: str) -> None:
    assert not marks(honest)


def test_marks_stay_cheap_on_hostile_text() -> None:
    for hostile in (
        "ignore " * 20_000,
        "<!--" * 20_000,
        "always call a " * 10_000,
        "send api key " * 10_000,
        "A1b/" * 50_000,
    ):
        assert len(marks(hostile)) < 50
