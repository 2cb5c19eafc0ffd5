"""`toolcrib tool search` on the demo toolbox: few tools are listed, the right one is found."""

from __future__ import annotations

from command_line import Shell


def test_the_demo_lists_few_tools_and_hides_many(workshop: Shell) -> None:
    few = [tool["name"] for tool in workshop.run("tool", "list", "workshop", "-o", "json").json["tools"]]
    many = [tool["name"] for tool in workshop.run("tool", "list", "workshop", "--all", "-o", "json").json["tools"]]
    assert {"tool_search", "call_tool"} <= set(few)
    assert "units.convert_length" in many
    assert len(many) > 3 * len(few)


def test_a_search_without_a_match_says_so(workshop: Shell) -> None:
    done = workshop.run("tool", "search", "workshop", "zzqx")
    assert done.code == 0
    assert "No tool matches" in done.out


def test_a_tool_is_found_by_what_it_does(workshop: Shell) -> None:
    found = workshop.run("tool", "search", "workshop", "convert miles to kilometres", "-o", "json").json["tools"]
    assert "units.convert_length" in [tool["name"] for tool in found]
    assert "units.convert_length" in workshop.run("tool", "search", "workshop", "convert miles to kilometres").out
