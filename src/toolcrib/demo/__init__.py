"""The demo: a toolbox called `workshop` over small local sources, each a child process that speaks MCP on stdio.

`toolbox()` is what to create, `commands()` what the operator declares for it. Sources live in memory, need no network
and are imported one at a time, so that a child is up in a blink.
"""

from toolcrib.demo.workshop import catalogue, commands, toolbox

__all__ = ["catalogue", "commands", "toolbox"]
