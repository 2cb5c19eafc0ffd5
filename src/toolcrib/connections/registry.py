"""The connections of a project: named, with sealed secrets, turned into outgoing headers only when a call needs them.

Kinds of this release: no credentials, an API key, custom keys (each becomes a header). Secrets are write-only: nothing
here hands one to a reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from toolcrib.connections.sealing import Sealer
from toolcrib.errors import ConnectionMissing, InvalidPayload, NotFound
from toolcrib.storage import records_connections as records
from toolcrib.storage import records_secrets
from toolcrib.storage.database import Database, Transaction
from toolcrib.storage.records_connections import Connection, owner_of

KINDS = ("None", "ApiKey", "CustomKeys")
LATER_KINDS = ("OAuth2", "UserEntraToken", "ProjectManagedIdentity", "AgenticIdentityToken", "AAD", "SAS")
_MOST_REMEMBERED = 10_000


class Connections:
    """Connections by name; the headers they stand for are remembered until one changes."""

    def __init__(self, db: Database, sealer: Sealer, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._sealer = sealer
        self._clock = clock
        self._headers: dict[tuple[str, str], Mapping[str, str]] = {}
        self.on_changed: list[Callable[[str, str], None]] = []

    async def put(
        self,
        project: str,
        name: str,
        *,
        kind: str,
        category: str,
        target: str,
        metadata: Mapping[str, str],
        secrets: Mapping[str, str] | None,
    ) -> Connection:
        """Create or replace a connection. Without `secrets` the ones it has stay, if its kind does."""
        if secrets is None:
            return await self._put_keeping_secrets(project, name, kind, category, target, metadata)
        check(kind, secrets)
        now = int(self._clock())
        owner = owner_of(name)
        boxes = [self._sealer.seal(v, project=project, owner=owner, place=k) for k, v in secrets.items()]
        new = Connection(project, name, kind, category, target, dict(metadata), tuple(secrets), now, now)
        stored = await self._db.write(lambda tx: records.put(tx, new, boxes))
        self._changed(project, name)
        return stored

    async def _put_keeping_secrets(
        self, project: str, name: str, kind: str, category: str, target: str, metadata: Mapping[str, str]
    ) -> Connection:
        now = int(self._clock())

        def change(tx: Transaction) -> Connection:
            known = records.find(tx, project, name)
            kept = list(records_secrets.of_owner(tx, project, owner_of(name)).values())
            if known is None or known.auth_type != kind:
                kept = []
            check(kind, dict.fromkeys((box.place for box in kept), "kept"))
            places = tuple(box.place for box in kept)
            new = Connection(project, name, kind, category, target, dict(metadata), places, now, now)
            return records.put(tx, new, kept)

        stored = await self._db.write(change)
        self._changed(project, name)
        return stored

    async def get(self, project: str, name: str) -> Connection:
        return await self._db.read(lambda tx: records.get(tx, project, name))

    async def list(self, project: str) -> list[Connection]:
        return await self._db.read(lambda tx: records.list_all(tx, project))

    async def delete(self, project: str, name: str) -> None:
        await self._db.write(lambda tx: records.delete(tx, project, name))
        self._changed(project, name)

    async def headers(self, project: str, name: str, *, source: str) -> Mapping[str, str]:
        """What an upstream is sent on our behalf; `ConnectionMissing` names the entry that wanted it."""
        known = self._headers.get((project, name))
        if known is not None:
            return known
        try:
            found = await self._db.read(lambda tx: self._open(tx, project, name))
        except NotFound as error:
            raise ConnectionMissing(
                f"Source {source!r} uses the connection {name!r}, which does not exist.",
                source=source,
                hint=f"make it with: toolcrib connection add {name}",
            ) from error
        if len(self._headers) >= _MOST_REMEMBERED:
            self._headers.clear()
        self._headers[project, name] = found
        return found

    def _open(self, tx: Transaction, project: str, name: str) -> Mapping[str, str]:
        connection = records.get(tx, project, name)
        sealed = records_secrets.of_owner(tx, project, owner_of(name)).values()
        secrets = {value.place: self._sealer.open(value) for value in sealed}
        if connection.auth_type == "CustomKeys":
            return secrets
        if connection.auth_type == "ApiKey":
            return _api_key_header(connection, secrets["key"])
        return {}

    def _changed(self, project: str, name: str) -> None:
        self._headers.pop((project, name), None)
        for listener in self.on_changed:
            listener(project, name)


def short_name(connection_id: str) -> str:
    """A connection is named by its short name or by a full id that ends in `/connections/NAME`."""
    return connection_id.rpartition("/connections/")[2] or connection_id


def check(kind: str, secrets: Mapping[str, str]) -> None:
    if kind not in KINDS:
        later = " (not in this release)" if kind in LATER_KINDS else ""
        raise InvalidPayload(
            f"authType {kind[:60]!r} is not supported{later}; supported are {', '.join(KINDS)}.",
            param="properties.authType",
        )
    if kind == "ApiKey" and set(secrets) != {"key"}:
        raise InvalidPayload("An ApiKey connection needs credentials.key.", param="properties.credentials.key")
    if kind == "CustomKeys" and not secrets:
        raise InvalidPayload(
            "A CustomKeys connection needs at least one key; each becomes a header.", param="properties.credentials"
        )
    for name, value in secrets.items():
        is_name = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if not is_name or not value or not value.isprintable():
            raise InvalidPayload(
                f"credentials.{name[:60]} has a name or value that an HTTP header cannot carry.",
                param="properties.credentials",
            )


def _api_key_header(connection: Connection, key: str) -> Mapping[str, str]:
    """`Authorization: Bearer KEY`, unless the connection's metadata names another header."""
    header = connection.metadata.get("header")
    return {header: key} if header else {"Authorization": f"Bearer {key}"}
