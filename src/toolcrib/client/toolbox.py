"""Where the toolbox is: the MCP endpoint and credentials of a toolcrib toolbox, read from the environment.

`TOOLBOX_ENDPOINT`, else the legacy `FOUNDRY_TOOLBOX_ENDPOINT`, with `TOOLCRIB_TOKEN` as bearer. It only says where;
`adapters.mcp_session` goes there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from toolcrib.errors import BadSettings

Expose = Literal["search", "all"]

_VARIABLES = ("TOOLBOX_ENDPOINT", "FOUNDRY_TOOLBOX_ENDPOINT")


@dataclass(frozen=True, slots=True)
class ToolboxAddress:
    url: str
    token: str | None = field(default=None, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def toolbox_address(
    endpoint: str | None = None,
    *,
    expose: Expose | None = None,
    token: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ToolboxAddress:
    """The toolbox to use. `expose="all"` lists every tool, to be deferred here; otherwise the toolbox's version says.

    Tool names are asked for in the `safe` form, which every provider accepts. What the endpoint's own query says wins.
    """
    url = endpoint or next((value for name in _VARIABLES if (value := environ.get(name))), None)
    if not url:
        raise BadSettings(
            "no toolbox endpoint is set",
            param=_VARIABLES[0],
            hint="Set TOOLBOX_ENDPOINT to the line that `toolcrib toolbox show NAME` prints.",
        )
    wanted = {"api-version": "v1", "names": "safe"} | ({"expose": expose} if expose else {})
    return ToolboxAddress(_with_query(url, wanted), token or environ.get("TOOLCRIB_TOKEN"))


def _with_query(url: str, wanted: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    query = dict(wanted) | dict(parse_qsl(parts.query, keep_blank_values=True))
    return urlunsplit(parts._replace(query=urlencode(query)))
