"""Secrets come from a prompt, stdin or the environment; a wrong mix is refused before anything is sent."""

from __future__ import annotations

import io
from typing import Any

import click
import pytest

from toolcrib.cli.secrets import SecretSource


def source(**given: Any) -> SecretSource:
    return SecretSource(**{"stdin": False, "key_env": None, "headers": (), "header_env": (), **given})


def test_each_kind_finds_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_KEY", "k")
    assert source().read("none") is None
    assert source(key_env="CRM_KEY").read("api-key") == {"key": "k"}
    assert source(header_env=("X-Key=CRM_KEY",)).read("custom-keys") == {"keys": {"X-Key": "k"}}


@pytest.mark.parametrize(
    ("kind", "text", "credentials"),
    [
        ("api-key", "k\n", {"key": "k"}),
        ("custom-keys", '{"X-Key": "k", "X-Team": "t"}', {"keys": {"X-Key": "k", "X-Team": "t"}}),
    ],
)
def test_stdin_holds_a_key_or_an_object_of_headers(
    monkeypatch: pytest.MonkeyPatch, kind: str, text: str, credentials: dict[str, Any]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert source(stdin=True).read(kind) == credentials


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("api-key", {}),
        ("api-key", {"key_env": "NOT_SET_ANYWHERE"}),
        ("api-key", {"headers": ("X-Key",)}),
        ("custom-keys", {}),
        ("custom-keys", {"key_env": "HOME"}),
        ("custom-keys", {"headers": ("X-Key",)}),
        ("custom-keys", {"header_env": ("X-Key",)}),
        ("custom-keys", {"stdin": True}),
    ],
)
def test_secrets_that_cannot_be_had_are_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, kind: str, given: dict[str, Any]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("not an object"))
    with pytest.raises(click.UsageError):
        source(**given).read(kind)
