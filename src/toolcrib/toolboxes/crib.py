"""The crib: everything one running server holds, handed to every door.

Doors (REST handlers, MCP endpoints) take it as an argument, so that no two of them can work on different things.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib.access import Access
from toolcrib.connections.registry import Connections
from toolcrib.skills.library import Skills
from toolcrib.toolboxes.opened import Counter
from toolcrib.toolboxes.resolve import Shelf
from toolcrib.toolboxes.versions import Toolboxes


@dataclass(frozen=True, slots=True)
class Crib:
    access: Access
    shelf: Shelf
    toolboxes: Toolboxes
    connections: Connections
    skills: Skills
    counter: Counter
    openapi: bytes = b"{}"
