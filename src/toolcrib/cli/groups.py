"""How commands are gathered: a lazy group that imports a noun when it is asked for, and groups that know `ls` and `rm`.

Knows nothing of what any command does.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

_ALIASES = {"ls": ("list",), "rm": ("delete", "remove", "revoke")}


class NounGroup(click.Group):
    """The verbs of one noun; `ls` and `rm` are other names for its list and its removal."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for name in (cmd_name, *_ALIASES.get(cmd_name, ())):
            if command := super().get_command(ctx, name):
                return command
        return None


class LazyGroup(click.Group):
    """Commands by import path (`module:attribute`), each with the sentence `--help` shows without importing it."""

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in self.table.items()])
