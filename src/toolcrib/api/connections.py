"""Connections over REST: reading as the official clients do, writing in the shape they use against ARM.

Secrets are write-only. The one route that would return them says so.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from toolcrib import wire
from toolcrib.errors import Forbidden, InvalidPayload
from toolcrib.http import NO_CONTENT, Request, Response, answer, read_json
from toolcrib.storage.records_connections import Connection
from toolcrib.toolboxes.crib import Crib

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


async def list_(crib: Crib, request: Request) -> Response:
    wanted = request.query.get("connectionType", "").removesuffix("_Preview")
    found = await crib.connections.list(request.project)
    value = [_to_wire(c) for c in found if not wanted or c.category == wanted]
    return answer(wire.Connections(value))


async def get(crib: Crib, request: Request) -> Response:
    return answer(_to_wire(await crib.connections.get(request.project, request.params["connection"])))


async def put(crib: Crib, request: Request) -> Response:
    name = request.params["connection"]
    if not _NAME.fullmatch(name):
        raise InvalidPayload("A connection name is letters, digits, `_`, `.` or `-`.", param="name")
    properties = read_json(request, wire.PutConnection).properties
    stored = await crib.connections.put(
        request.project,
        name,
        kind=properties.authType,
        category=properties.category.removesuffix("_Preview"),
        target=properties.target,
        metadata=properties.metadata or {},
        secrets=_secrets(properties),
    )
    return answer(_to_wire(stored))


async def delete(crib: Crib, request: Request) -> Response:
    await crib.connections.delete(request.project, request.params["connection"])
    return NO_CONTENT


async def get_with_credentials(crib: Crib, request: Request) -> Response:
    await crib.connections.get(request.project, request.params["connection"])
    raise CredentialsAreWriteOnly(
        "Credentials are write-only: this server never shows one.",
        hint="send them again with PUT, or `toolcrib connection update`, to change them",
    )


async def test(crib: Crib, request: Request) -> Response:
    connection = await crib.connections.get(request.project, request.params["connection"])
    return answer(await crib.counter.try_connection(connection, request.principal))


class CredentialsAreWriteOnly(Forbidden):
    code = "credentials_are_write_only"


def _secrets(properties: wire.ConnectionProperties) -> dict[str, str] | None:
    """The secrets sent; None when none were, so that an update of the rest need not repeat them."""
    if properties.credentials is None:
        return None
    given: dict[str, Any] = {k: v for k, v in properties.credentials.items() if k != "type"}
    if set(given) == {"keys"}:
        given = given["keys"]
    try:
        return msgspec.convert(given, dict[str, str])
    except msgspec.ValidationError:
        raise InvalidPayload("credentials must map names to strings.", param="properties.credentials") from None


def _to_wire(c: Connection) -> wire.Connection:
    return wire.Connection(
        name=c.name,
        id=f"/subscriptions/local/resourceGroups/local/providers/toolcrib/accounts/local/projects/{c.project}"
        f"/connections/{c.name}",
        type=c.category,
        target=c.target,
        isDefault=False,
        credentials={"type": c.auth_type},
        metadata=c.metadata,
    )
