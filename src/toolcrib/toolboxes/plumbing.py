"""From an entry of a version to the upstream behind it: where it is, and what we show it as credentials.

Headers come from the entry's connection, then its own `headers`, then `authorization`; later wins. Secrets are opened
here, for the request that is about to carry them, and remembered nowhere but in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolcrib.connections.registry import Connections, short_name
from toolcrib.connections.sealing import PREFIX, Sealer
from toolcrib.domain import JsonObject, Principal, Version
from toolcrib.errors import NotFound
from toolcrib.storage import records_secrets
from toolcrib.storage.database import Database
from toolcrib.storage.records_connections import Connection
from toolcrib.toolboxes.entries import identity
from toolcrib.toolboxes.secrets import open_entry, owner_of
from toolcrib.upstreams.pool import UpstreamPool
from toolcrib.upstreams.upstream import Credentials, Limits, Upstream, UpstreamSpec, no_credentials

_MOST_REMEMBERED = 10_000


class Plumbing:
    """Opens the upstream of an entry. Equal entries of different versions share connections."""

    def __init__(
        self, db: Database, sealer: Sealer, connections: Connections, pool: UpstreamPool, limits: Limits
    ) -> None:
        self._db = db
        self._sealer = sealer
        self._connections = connections
        self._pool = pool
        self._limits = limits
        self._opened: dict[tuple[str, str, str], JsonObject] = {}
        self._upstreams: dict[tuple[str, str], Upstream] = {}

    def upstream_of(self, version: Version, label: str) -> Upstream:
        """The upstream behind one source of a version; on the path of every call, so it is remembered."""
        found = self._upstreams.get((version.id, label))
        if found is None:
            if len(self._upstreams) >= _MOST_REMEMBERED:
                self._upstreams.clear()
            found = self._upstreams[version.id, label] = self.upstream(version, _entry(version, label))
        return found

    def upstream_at(self, connection: Connection) -> Upstream:
        """What a connection points at, for trying it out."""

        async def credentials(principal: Principal) -> Mapping[str, str]:
            del principal
            return await self._connections.headers(connection.project, connection.name, source=connection.name)

        label, scope = connection.name, connection.project
        return self._pool.upstream(UpstreamSpec(label, connection.target, scope, self._limits, credentials))

    def upstream(self, version: Version, entry: JsonObject) -> Upstream:
        spec = UpstreamSpec(
            label=identity(entry),
            url=str(entry["server_url"]),
            scope=version.project,
            limits=self._limits,
            credentials=self._credentials(version.project, version.toolbox, entry),
        )
        return self._pool.upstream(spec)

    def _credentials(self, project: str, toolbox: str, entry: JsonObject) -> Credentials:
        label = identity(entry)
        connection: str | None = entry.get("project_connection_id")
        if connection is None and "headers" not in entry and "authorization" not in entry:
            return no_credentials

        async def credentials(principal: Principal) -> Mapping[str, str]:
            del principal  # kinds that differ by user come later, here
            headers = dict[str, str]()
            if connection is not None:
                headers |= await self._connections.headers(project, short_name(connection), source=label)
            clear = await self._open(project, toolbox, entry)
            headers |= cast("Mapping[str, str]", clear.get("headers") or {})
            if token := clear.get("authorization"):
                headers["Authorization"] = token if " " in token else f"Bearer {token}"
            return headers

        return credentials

    async def _open(self, project: str, toolbox: str, entry: JsonObject) -> JsonObject:
        """The entry's own secrets in clear, remembered by the ids they are sealed under."""
        sealed = _references(entry)
        if not sealed:
            return entry
        key = (project, toolbox, sealed)
        if key not in self._opened:
            stored = await self._db.read(lambda tx: records_secrets.of_owner(tx, project, owner_of(toolbox)))
            if len(self._opened) >= _MOST_REMEMBERED:
                self._opened.clear()
            self._opened[key] = open_entry(entry, self._sealer, stored)
        return self._opened[key]


def _entry(version: Version, label: str) -> JsonObject:
    for entry in version.content.tools:
        if entry["type"] == "mcp" and entry.get("server_url") and identity(entry) == label:
            return entry
    raise NotFound(f"Version {version.number} of {version.toolbox!r} has no source {label!r}.")


def _references(entry: JsonObject) -> str:
    headers = cast("dict[str, Any]", entry.get("headers") or {})
    values = [f"{name}={value}" for name, value in sorted(headers.items())]
    return " ".join(v for v in [*values, str(entry.get("authorization", ""))] if PREFIX in v)
