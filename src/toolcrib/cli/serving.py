"""`serve`, `up` and `migrate`: the only commands that load the server.

They turn flags into settings and hand over; what a setting means is `toolcrib.settings`' business.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolcrib import errors

if TYPE_CHECKING:
    from toolcrib.settings import Settings

_PATH = click.Path(path_type=Path)


def _places(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where the server keeps its things and reads its settings."""
    command = click.option("--config", type=_PATH, help="Settings file; else `toolcrib.toml` in the data directory.")(
        command
    )
    return click.option("--data", type=_PATH, help="Data directory: database, keys, admin token.")(command)


def _address(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where the server listens."""
    command = click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.")(
        command
    )
    return click.option("--host", help="Address to listen on.")(command)


@click.command()
@_address
@_places
@click.option("--stdio", metavar="TOOLBOX", help="Serve one toolbox over stdin and stdout instead of HTTP.")
def serve(host: str | None, port: int | None, data: Path | None, config: Path | None, stdio: str | None) -> int:
    """Start the server.

    With --stdio it becomes a local MCP server for one toolbox: a bridge to the server at TOOLCRIB_ENDPOINT, else to the
    one that holds the data directory; only when there is none does it start one, for as long as it is used.
    """
    settings = _settings(config, data, host=host, port=port)
    if stdio is None:
        return _app().serve(settings)
    from toolcrib.cli.stdio import serve_stdio

    serve_stdio(settings, config, stdio)
    return 0


@click.command()
@_address
@_places
def up(host: str | None, port: int | None, data: Path | None, config: Path | None) -> int:
    """Start the server with a small demo toolbox.

    The demo toolbox is called `workshop`; it is created once and yours to change.
    """
    return _app().serve(_settings(config, data, host=host, port=port), demo=True)


@click.command()
@_places
def migrate(data: Path | None, config: Path | None) -> None:
    """Bring the database to this release's schema.

    The server does this by itself when it starts; run it first where you want the two apart.
    """
    applied: list[str] = _app().migrate(_settings(config, data))
    click.echo("\n".join(f"applied {name}" for name in applied) or "nothing to do: the schema is current")


def _settings(config: Path | None, data: Path | None, **flags: object) -> Settings:
    from toolcrib import settings

    return settings.load(config, data, {name: value for name, value in flags.items() if value is not None})


def _app() -> Any:
    """The server, where it is installed."""
    try:
        from toolcrib import app
    except ModuleNotFoundError as error:
        raise errors.BadSettings(
            f"the server is not installed here (`{error.name}` is missing)", hint="pip install 'toolcrib[server]'"
        ) from error
    return app
