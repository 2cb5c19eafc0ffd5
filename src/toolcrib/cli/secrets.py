"""Where the CLI takes a connection's secrets from: a hidden prompt, stdin, or an environment variable by name.

Never from an option's value. Knows the three kinds of credentials and nothing of connections otherwise.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from toolcrib.cli.remote import pairs

AUTH_TYPES = {"none": "None", "api-key": "ApiKey", "custom-keys": "CustomKeys"}


@dataclass(frozen=True, slots=True)
class SecretSource:
    """What the command line says about where secrets are; `read` fetches them."""

    stdin: bool
    key_env: str | None
    headers: tuple[str, ...]
    header_env: tuple[str, ...]

    def read(self, kind: str) -> dict[str, Any] | None:
        """The credentials of this kind, as the connection's body holds them."""
        if kind == "none":
            return None
        return {"key": self._key()} if kind == "api-key" else {"keys": self._keys()}

    def _key(self) -> str:
        if self.headers or self.header_env:
            raise click.UsageError("--header and --header-env are for kind custom-keys")
        if self.key_env:
            return _from_environment(self.key_env)
        return sys.stdin.readline().rstrip("\r\n") if self.stdin else _prompt("API key")

    def _keys(self) -> dict[str, str]:
        if self.key_env:
            raise click.UsageError("--key-env is for kind api-key; here it is --header-env NAME=VARIABLE")
        found = {name: _from_environment(var) for name, var in pairs(self.header_env, "--header-env").items()}
        found |= _keys_from_stdin() if self.stdin else {name: _prompt(name) for name in self.headers}
        if not found:
            raise click.UsageError("custom-keys needs --header, --header-env or --secrets-stdin")
        return found


def secret_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its SecretSource as `secrets`."""

    @click.option("--secrets-stdin", is_flag=True, help="Read the key (or a JSON object of headers) from stdin.")
    @click.option("--key-env", metavar="VARIABLE", help="api-key: take the key from this environment variable.")
    @click.option(
        "--header", "headers", multiple=True, metavar="NAME", help="custom-keys: ask for this header's value."
    )
    @click.option(
        "--header-env", multiple=True, metavar="NAME=VARIABLE", help="custom-keys: take a header from the environment."
    )
    @functools.wraps(command)
    def run(
        *args: Any,
        secrets_stdin: bool,
        key_env: str | None,
        headers: tuple[str, ...],
        header_env: tuple[str, ...],
        **rest: Any,
    ) -> Any:
        return command(*args, secrets=SecretSource(secrets_stdin, key_env, headers, header_env), **rest)

    return run


def _from_environment(variable: str) -> str:
    if value := os.environ.get(variable):
        return value
    raise click.UsageError(f"the environment variable {variable} is not set")


def _prompt(what: str) -> str:
    if not sys.stdin.isatty():
        raise click.UsageError(f"no terminal to ask for the {what} on: use --secrets-stdin or an environment variable")
    return str(click.prompt(what, hide_input=True))


def _keys_from_stdin() -> dict[str, str]:
    try:
        return msgspec.json.decode(sys.stdin.read(), type=dict[str, str])
    except msgspec.DecodeError as error:
        raise click.UsageError("stdin does not hold a JSON object of header names and values") from error
