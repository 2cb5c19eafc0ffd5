"""Secrets inside entries: sealed on the way in, recognised when they are sent back, opened only for a call.

A reader sees `sealed:<id>`. Sent back for the same toolbox, entry and field it keeps the stored value, so that
"read, change, write" works; anywhere else it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from toolcrib.connections.sealing import PREFIX, Sealer
from toolcrib.domain import JsonObject
from toolcrib.errors import InvalidPayload
from toolcrib.storage.records_secrets import SealedValue
from toolcrib.toolboxes.entries import identity

_ID = re.compile(r"[0-9a-f]{8,64}")
Find = Callable[[str], SealedValue | None]  # the stored value of that id, if it is this toolbox's
Replace = Callable[[str, str, str], str]  # (secret, place inside the version, path for messages) -> what is stored


def owner_of(toolbox: str) -> str:
    return f"toolbox/{toolbox}"


class EntrySealer:
    """Seals the entries of one version about to be created."""

    def __init__(self, sealer: Sealer, project: str, toolbox: str, stored: Find) -> None:
        self._sealer = sealer
        self._project = project
        self._owner = owner_of(toolbox)
        self._stored = stored
        self.new: list[SealedValue] = []

    def seal(self, entries: list[JsonObject]) -> tuple[JsonObject, ...]:
        return tuple(_map_secrets(entry, f"tools[{i}]", self._replace) for i, entry in enumerate(entries))

    def _replace(self, secret: str, place: str, where: str) -> str:
        if secret.startswith(PREFIX):
            return self._keep(secret, place, where)
        value = self._sealer.seal(secret, project=self._project, owner=self._owner, place=place)
        self.new.append(value)
        return PREFIX + value.id

    def _keep(self, reference: str, place: str, where: str) -> str:
        sealed_id = reference.removeprefix(PREFIX)
        value = self._stored(sealed_id) if _ID.fullmatch(sealed_id) else None
        if value is None or value.place != place:
            raise InvalidPayload(
                f"{where} refers to a sealed value that does not belong to this field of this toolbox.",
                param=where,
                hint="send the secret itself; `sealed:…` only stands for the value it was read from",
            )
        return reference


def open_entry(entry: JsonObject, sealer: Sealer, stored: Mapping[str, SealedValue]) -> JsonObject:
    """The entry with its secrets in clear, for the one place that is about to send them upstream."""

    def unseal(reference: str, _place: str, _where: str) -> str:
        value = stored.get(reference.removeprefix(PREFIX))
        return sealer.open(value) if value is not None else reference

    return _map_secrets(entry, "", unseal)


def _map_secrets(entry: JsonObject, where: str, replace: Replace) -> JsonObject:
    changed = dict(entry)
    name = identity(entry)
    if isinstance(entry.get("authorization"), str):
        changed["authorization"] = replace(entry["authorization"], f"{name}/authorization", f"{where}.authorization")
    headers: Any = entry.get("headers")
    if isinstance(headers, dict):
        changed["headers"] = {
            key: replace(value, f"{name}/headers/{key.lower()}", f"{where}.headers.{key}")
            for key, value in cast("dict[str, str]", headers).items()
        }
    return changed
