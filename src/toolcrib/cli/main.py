"""The root of the `toolcrib` command and the one place where it ends: a line per noun, an exit code per failure.

A new noun is one line in COMMANDS. Nothing here imports a server, a client or an engine.
"""

from __future__ import annotations

import click

from toolcrib import __version__
from toolcrib.cli import failures
from toolcrib.cli.groups import LazyGroup

COMMANDS = {
    "up": ("toolcrib.cli.serving:up", "Start the server with a small demo toolbox."),
    "serve": ("toolcrib.cli.serving:serve", "Start the server."),
    "migrate": ("toolcrib.cli.serving:migrate", "Bring the database to this release's schema."),
    "toolbox": ("toolcrib.cli.toolbox:toolbox", "Create, publish, compare and delete toolboxes."),
    "tool": ("toolcrib.cli.tool:tool", "List, search and call the tools of a toolbox."),
    "skill": ("toolcrib.cli.skill:skill", "Keep the skills that toolboxes serve beside their tools."),
    "connection": ("toolcrib.cli.connection:connection", "Say how upstreams know this server."),
    "eval": ("toolcrib.cli.evaluate:evaluate", "Measure how well tools are found."),
    "autopin": ("toolcrib.cli.autopin:autopin", "See and erase what auto-pinning knows."),
    "key": ("toolcrib.cli.key:key", "Issue and revoke API keys."),
    "project": ("toolcrib.cli.project:project", "Create, list and delete projects."),
    "tokens": ("toolcrib.cli.tokens:tokens", "Print the token bill of the tools in FILE (- for standard input)."),
}


@click.group(
    cls=LazyGroup, table=COMMANDS, epilog=failures.EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="toolcrib")
def toolcrib() -> None:
    """The tool crib for agents: versioned toolboxes behind one MCP endpoint."""


def run(args: list[str] | None = None) -> int:
    """Run one command line and answer its exit code; a failure is a sentence on stderr, never a traceback."""
    try:
        outcome: object = toolcrib.main(args, prog_name="toolcrib", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the edge: everything ends as a message and an exit code
        return failures.report(error)
    return outcome if isinstance(outcome, int) else 0
