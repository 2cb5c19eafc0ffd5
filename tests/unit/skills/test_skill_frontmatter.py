"""SKILL.md's head: what the Agent Skills format accepts is read as it stands, and everything else names its field."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib import wire
from toolcrib.errors import InvalidPayload
from toolcrib.skills import frontmatter
from toolcrib.skills.bundle import SKILL_MD, inline


def md(head: str, body: str = "Do it.") -> bytes:
    return f"---\n{head}\n---\n\n{body}".encode()


GOOD = "name: pdf-forms\ndescription: Fill in PDF forms."


def test_every_field_of_the_format_is_read() -> None:
    head = frontmatter.read(
        md(
            f"{GOOD}\nlicense: Apache-2.0\ncompatibility: needs Python 3.11\n"
            "allowed-tools: docs.search Bash(git add:*) mcp__files__read\nmetadata:\n  author: ada\n  version: '1.0'"
        )
    )
    assert (head.name, head.description) == ("pdf-forms", "Fill in PDF forms.")
    assert head.allowed_tools == ("docs.search", "Bash(git add:*)", "mcp__files__read")
    assert head.fields["metadata"] == {"author": "ada", "version": "1.0"}


def test_fields_nobody_specified_are_kept_because_agent_tools_have_their_own() -> None:
    head = frontmatter.read(md(f"{GOOD}\nuser-invocable: true\nmodel: large\nargument-hint: '[file]'"))
    assert head.fields["user-invocable"] is True
    assert head.fields["model"] == "large"


@pytest.mark.parametrize("tools", ["a, b,c", "a b c", "[a, b, c]", "\n  - a\n  - b\n  - c"])
def test_tools_are_read_in_every_spelling_in_use(tools: str) -> None:
    assert frontmatter.read(md(f"{GOOD}\nallowed-tools: {tools}")).allowed_tools == ("a", "b", "c")


def test_dates_and_yes_stay_text_as_yaml_1_2_has_it() -> None:
    fields = frontmatter.read(md(f"{GOOD}\ncreated: 2026-11-15\nanswer: yes\ncount: 010\nshare: 0.5\nnone: ~")).fields
    assert {k: fields[k] for k in ("created", "answer", "count", "share", "none")} == {
        "created": "2026-11-15",
        "answer": "yes",
        "count": 10,
        "share": 0.5,
        "none": None,
    }


@pytest.mark.parametrize("text", [GOOD.replace("\n", "\r\n"), GOOD + "   "])
def test_line_ends_and_a_byte_order_mark_are_no_matter(text: str) -> None:
    assert frontmatter.read(f"\ufeff---\r\n{text}\r\n---\r\n\r\nbody".encode()).name == "pdf-forms"


@pytest.mark.parametrize(
    ("head", "field"),
    [
        ("description: d", "name"),
        ("name: pdf-forms", "description"),
        ("name: Pdf\ndescription: d", "name"),
        ("name: a--b\ndescription: d", "name"),
        ("name: -a\ndescription: d", "name"),
        (f"name: {'a' * 65}\ndescription: d", "name"),
        ("name: 7\ndescription: d", "name"),
        ("name: a\ndescription: ''", "description"),
        (f"name: a\ndescription: {'d' * 1025}", "description"),
        ("name: a\ndescription: [d]", "description"),
        (f"{GOOD}\nlicense: [MIT]", "license"),
        (f"{GOOD}\ncompatibility: ''", "compatibility"),
        (f"{GOOD}\ncompatibility: {'c' * 501}", "compatibility"),
        (f"{GOOD}\nmetadata: text", "metadata"),
        (f"{GOOD}\nmetadata:\n  a: [b]", "metadata.a"),
        (f"{GOOD}\nmetadata:\n  io.modelcontextprotocol/x: y", "metadata.io.modelcontextprotocol/x"),
        (f"{GOOD}\nallowed-tools: 7", "allowed-tools"),
        (f"{GOOD}\nname: again", "SKILL.md"),
        (f"{GOOD}\nx: *y", "SKILL.md"),
        (f"{GOOD}\nx: &y [a]\nz: [*y, *y]", "SKILL.md"),
        (f"{GOOD}\nx: !!python/object/apply:os.system [true]", "SKILL.md"),
        (f"{GOOD}\nx: [unclosed", "SKILL.md"),
        ("- name", "SKILL.md"),
        ("just text", "SKILL.md"),
        (f"{GOOD}\n7: x", "7"),
        (f"{GOOD}\nx: {'[' * 200}{']' * 200}", "SKILL.md"),
        (f"{GOOD}\nx: {'[' * 7000}", "SKILL.md"),
        (f"{GOOD}\n? [a]\n: b", "SKILL.md"),
        (f"{GOOD}\nx: {'9' * 30}", "SKILL.md"),
        (f"{GOOD}\nx: {'9' * 9000}", "SKILL.md"),
        (f"{GOOD}\nx: 1e999", "SKILL.md"),
        (f"{GOOD}\nx: " + '"\\ud800"', "SKILL.md"),
    ],
)
def test_what_the_format_does_not_allow_is_refused_by_its_name(head: str, field: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        frontmatter.read(md(head))
    assert refused.value.param == field


@pytest.mark.parametrize("data", [b"", b"# Title", b"---\nname: a\n", b"\xff\xfe", b"text\n---\nname: a\n---\n"])
def test_a_file_without_a_head_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPayload):
        frontmatter.read(data)


def test_a_head_of_a_million_lines_is_refused_without_being_read() -> None:
    with pytest.raises(InvalidPayload):
        frontmatter.read(md(GOOD + "\nx: y" * 1_000_000))


text = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=80).filter(
    str.strip
)


@example("0e0", "x", None, {"1e5": "yes", "a": "0o17", "b": "2026-11-15", "c": "~", "d": ".5", "e": "null"})
@given(description=text, instructions=text, license=st.none() | text, metadata=st.dictionaries(text, text, max_size=3))
def test_what_is_sent_inline_reads_back_as_it_was_sent(
    description: str, instructions: str, license: str | None, metadata: dict[str, str]
) -> None:
    metadata = {k: v for k, v in metadata.items() if not k.startswith("io.modelcontextprotocol/")}
    content = wire.SkillInlineContent(description, instructions, license, metadata=metadata)
    made = inline("any-name", content)
    expected = {"name": "any-name", "description": description}
    assert made.head.fields == expected | ({"license": license} if license is not None else {}) | (
        {"metadata": metadata} if metadata else {}
    )
    assert made.files[SKILL_MD].decode().endswith(f"---\n\n{instructions}")


def test_a_tool_name_that_would_read_back_as_two_is_refused() -> None:
    with pytest.raises(InvalidPayload, match="blanks"):
        inline("any", wire.SkillInlineContent("d", "i", allowed_tools=["one two"]))
