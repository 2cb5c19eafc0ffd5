"""The scriptable upstream over stdio: `stdio_twin(...)` is the command that starts it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.kit.script import Behaviour, Tool

from toolcrib.upstreams.upstream import StdioCommand

CHILD = Path(__file__).with_name("stdio_child.py")


def stdio_twin(tools: list[Tool] | None = None, behaviour: Behaviour | None = None, **changes: Any) -> StdioCommand:
    """A declared command; `changes` are fields of `Behaviour`. Without site packages it starts fast."""
    settled = Behaviour(**{**(behaviour or Behaviour()).__dict__, **changes})
    script = settled.to_json(tools if tools is not None else [Tool("echo")])
    return StdioCommand((sys.executable, "-S", "-E", str(CHILD), script))
