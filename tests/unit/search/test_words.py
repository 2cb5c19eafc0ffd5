"""Text becomes the same terms on both sides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.search.stemming import stem
from toolcrib.search.words import parts, query_terms, terms


@pytest.mark.parametrize(
    ("word", "root"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("agreed", "agre"),
        ("plastered", "plaster"),
        ("motoring", "motor"),
        ("conflated", "conflat"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("filing", "file"),
        ("happy", "happi"),
        ("relational", "relat"),
        ("vietnamization", "vietnam"),
        ("hopefulness", "hope"),
        ("electrical", "electr"),
        ("adjustment", "adjust"),
        ("controlling", "control"),
        ("sky", "sky"),
        ("is", "is"),
        ("naïve", "naïve"),
    ],
)
def test_stems_are_those_of_porters_paper(word: str, root: str) -> None:
    assert stem(word) == root


def test_words_of_one_family_share_a_stem() -> None:
    assert (
        len({stem(word) for word in ("connect", "connects", "connected", "connecting", "connection", "connections")})
        == 1
    )


@pytest.mark.parametrize(
    ("identifier", "pieces"),
    [
        ("getHTTPResponse2", ["get", "http", "response", "2"]),
        ("create_issue", ["create", "issue"]),
        ("azmcp-storage.list", ["azmcp", "storage", "list"]),
        ("S3Bucket", ["s", "3", "bucket"]),
    ],
)
def test_identifiers_split_at_case_digits_and_separators(identifier: str, pieces: list[str]) -> None:
    assert parts(identifier) == pieces


def test_a_joined_word_meets_its_parts_and_itself() -> None:
    assert {"github", "git", "hub"} <= set(terms("GitHub"))
    assert set(terms("github")) & set(terms("GitHub"))


def test_unspaced_scripts_become_bigrams() -> None:
    assert terms("東京の天気") == ["東京", "京の", "の天", "天気"]
    assert terms("水") == ["水"]


def test_accents_and_width_do_not_matter() -> None:
    assert terms("Café ＡＰＩ") == terms("cafe api")


def test_stop_words_fall_unless_they_are_all_there_is() -> None:
    assert terms("please show me the weather") == terms("weather")
    assert query_terms("who is it") == ["who", "is", "it"]


@given(st.text(max_size=300))
def test_any_text_has_terms_without_spaces(text: str) -> None:
    assert all(term and not any(letter.isspace() for letter in term) for term in terms(text))
