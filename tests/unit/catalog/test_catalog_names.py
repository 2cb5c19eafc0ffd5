from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.names import RESERVED, Name, Names, partition, problem_with, safe_names

WORD = st.text(alphabet="abAB_.-/é", min_size=1, max_size=5)
NAMES = st.lists(st.builds(Name, label=WORD | st.just(""), tool=WORD), max_size=14, unique=True)


def indexed(*pairs: tuple[str, str]) -> tuple[list[Name], Names]:
    kept, refused = partition(Name(label, tool) for label, tool in pairs)
    assert not refused
    return kept, Names(kept)


def test_each_form_is_spelled_as_the_contract_says() -> None:
    _, names = indexed(("my.server", "get info"))
    assert names.exposed(0, "dot") == "my.server.get info"
    assert names.exposed(0, "triple") == "my.server___get info"
    assert names.exposed(0, "safe") == "my_server_get_info"


def test_a_long_safe_name_is_cut_and_hashed() -> None:
    name = Name("label", "t" * 80)
    (safe,) = safe_names([name])
    assert safe == f"label_{'t' * 49}_{hashlib.sha256(name.dotted.encode()).hexdigest()[:8]}"
    assert len(safe) == 64


def test_colliding_safe_names_are_all_hashed() -> None:
    _, names = indexed(("a", "b.c"), ("a", "b_c"), ("x", "y"))
    assert names.exposed(2, "safe") == "x_y"
    assert names.find("a_b_c") is None
    assert len({names.exposed(at, "safe") for at in range(3)}) == 3
    assert all(names.exposed(at, "safe").startswith("a_b_c_") for at in (0, 1))


@pytest.mark.parametrize("called", ["gh.list", "gh___list", "gh__list", "gh_list", "list"])
def test_every_form_is_accepted(called: str) -> None:
    kept, names = indexed(("gh", "list"), ("gh", "get"), ("", "web_search"))
    found = names.find(called)
    assert found is not None
    assert kept[found] == Name("gh", "list")


def test_a_bare_name_that_two_tools_have_is_not_guessed() -> None:
    kept, names = indexed(("gh", "search"), ("jira", "search"))
    assert names.find("search") is None
    assert [kept[at].dotted for at in names.candidates("search")] == ["gh.search", "jira.search"]


def test_a_listed_name_beats_somebody_elses_alias() -> None:
    kept, names = indexed(("x", "a_b"), ("", "a_b"), ("a", "b"))
    found = names.find("a_b")
    assert found is not None
    assert kept[found] == Name("", "a_b")


@pytest.mark.parametrize("reserved", sorted(RESERVED))
def test_reserved_words_never_mean_an_upstream_tool(reserved: str) -> None:
    label, _, tool = reserved.partition("_")
    _, names = indexed(("up", reserved), (label, tool))
    assert names.find(reserved) is None
    assert names.find(reserved, "safe") is None
    assert names.find(f"up.{reserved}") == 0
    assert reserved not in names.safe
    assert problem_with(Name("", reserved)) is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("github", "x"), ("GitHub", "X")),
        (("github", "x"), ("g\u0456thub", "x")),
        (("pay", "send"), ("\u03c1ay", "send")),
        (("pay", "send"), ("\uff50ay", "send")),
        (("a", "b.c"), ("a.b", "c")),
        (("", "a___b"), ("a", "b")),
        (("caf\u00e9", "x"), ("cafe\u0301", "x")),
    ],
)
def test_the_second_of_two_confusable_names_is_refused_with_both_in_the_reason(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    kept, refused = partition([Name(*first), Name(*second)])
    assert kept == [Name(*first)]
    (refusal,) = refused
    assert refusal.name == Name(*second)
    assert f"'{Name(*first).dotted}'" in refusal.reason or f"'{first[0]}'" in refusal.reason


@pytest.mark.parametrize("tool", ["", " ", "a\u200bb", "a\nb", "x" * 300, "a\x00"])
def test_unservable_names_are_refused(tool: str) -> None:
    assert problem_with(Name("up", tool)) is not None


def test_the_missing_label_is_the_first_guess() -> None:
    kept, names = indexed(("a", "get_infos"), ("b", "get_info"), ("c", "get_info"), ("d", "unrelated"))
    assert [kept[at].dotted for at in names.nearest("get_info")] == ["b.get_info", "c.get_info", "a.get_infos"]
    assert kept[names.nearest("wrong.get_info")[0]].tool == "get_info"
    assert kept[names.nearest("a.get_infoz")[0]].dotted == "a.get_infos"
    assert names.nearest("qqqqqq") == []


@given(NAMES)
def test_every_listed_name_reaches_its_tool_and_no_other(given_names: list[Name]) -> None:
    kept, refused = partition(given_names)
    assert len(kept) + len(refused) == len(given_names)
    names = Names(kept)
    for at in range(len(kept)):
        for form in ("dot", "triple", "safe"):
            assert names.find(names.exposed(at, form), form) == at
        assert names.find(kept[at].dotted) == names.find(kept[at].triple) == at
    for form in ("dot", "triple", "safe"):
        assert len({names.exposed(at, form) for at in range(len(kept))}) == len(kept)


@given(NAMES, WORD)
def test_a_found_name_is_some_spelling_of_the_tool(given_names: list[Name], called: str) -> None:
    kept, _ = partition(given_names)
    names = Names(kept)
    found = names.find(called)
    if found is not None:
        name = kept[found]
        spellings = {name.dotted, name.triple, name.tool, names.safe[found]}
        assert called in spellings | {f"{name.label}_{name.tool}", f"{name.label}__{name.tool}"}
    assert len(names.nearest(called)) <= 5
