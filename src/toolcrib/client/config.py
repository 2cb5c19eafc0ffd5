"""The seed's capability configuration, read verbatim: JSON in, options out.

`{"capabilities": ["tool_search"]}` or `{"capabilities": {"tool_search": {"threshold": 20, "never_defer": [...]}}}`.
It does not know the tools the options will be applied to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from toolcrib.errors import InvalidPayload

CAPABILITY = "tool_search"


class SearchOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The seed's two options, and ours beside them."""

    threshold: Annotated[int, msgspec.Meta(ge=0)] = 15
    never_defer: tuple[str, ...] = ()
    mode: Literal["reveal", "bridge"] = "reveal"
    ranking: Literal["engine", "keyword"] = "engine"
    max_sessions: Annotated[int, msgspec.Meta(ge=1)] = 4096


class _Config(msgspec.Struct):
    """Other capabilities are other readers' business and pass unread."""

    capabilities: list[str] | dict[str, msgspec.Raw] = msgspec.field(default_factory=list[str])


def read_config(config: Mapping[str, object] | str) -> SearchOptions | None:
    """The options of the `tool_search` capability, or None when the configuration does not name it."""
    try:
        text = config if isinstance(config, str) else msgspec.json.encode(config)
        capabilities = msgspec.json.decode(text, type=_Config).capabilities
        if CAPABILITY not in capabilities:
            return None
        if isinstance(capabilities, list):
            return SearchOptions()
        return msgspec.json.decode(capabilities[CAPABILITY], type=SearchOptions)
    except (msgspec.DecodeError, TypeError) as error:
        raise InvalidPayload(
            f"the {CAPABILITY} configuration cannot be read: {error}",
            param="capabilities",
            hint='Write {"capabilities": {"tool_search": {"threshold": 20, "never_defer": ["read_file"]}}}.',
        ) from error
