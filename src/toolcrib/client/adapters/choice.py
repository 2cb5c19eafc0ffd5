"""What a request's `tool_choice` leaves callable, in OpenAI's and Anthropic's spellings.

A tool the model is forced to call, or may call while `tool_search` is out of reach, has no loader and must be sent
whole. This module only reads the choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from toolcrib.client.finder import SEARCH

ToolChoice = Mapping[str, object] | str | None


@dataclass(frozen=True, slots=True)
class Choice:
    forced: str | None = None
    can_search: bool = True


def read_choice(choice: ToolChoice) -> Choice:
    if not isinstance(choice, Mapping):
        return Choice()
    if choice.get("type") == "allowed_tools":
        allowed = _object(choice.get("allowed_tools")) or choice
        tools = cast("Sequence[Mapping[str, object]]", allowed.get("tools") or ())
        return Choice(can_search=SEARCH in {_name(tool) for tool in tools})
    return Choice(forced=_name(choice))


def _name(body: Mapping[str, object]) -> str | None:
    name = body.get("name") or (_object(body.get("function")) or {}).get("name")
    return str(name) if name else None


def _object(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None
