"""The ASGI application: what happens to every request, in order, and to everything that goes wrong.

host and origin → route → api-version → principal → project and role → body → handler → answer.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Sequence

from toolcrib.access import LOCAL_ADMIN, require
from toolcrib.errors import InvalidPayload, TooLarge, ToolcribError
from toolcrib.gateway.endpoint import Gateway
from toolcrib.http import Header, Receive, Request, Response, Scope, Send, parse_query
from toolcrib.toolboxes.crib import Crib
from toolcrib.web.auth import Doorkeeper
from toolcrib.web.problems import crash, problem
from toolcrib.web.routes import ROUTES, Route, Router

log = logging.getLogger("toolcrib.web")
_MOST_LENGTH_DIGITS = 18
CLIENT_REQUEST_ID = b"x-ms-client-request-id"


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class Edge:
    """The outermost layer: nothing leaves it but answers."""

    def __init__(
        self,
        crib: Crib,
        gateway: Gateway,
        doorkeeper: Doorkeeper,
        *,
        max_body_bytes: int,
        max_upload_bytes: int | None = None,
        routes: Sequence[Route] = ROUTES,
    ) -> None:
        self._crib = crib
        self._gateway = gateway
        self._doorkeeper = doorkeeper
        self._max_body_bytes = max_body_bytes
        self._max_upload_bytes = max_upload_bytes or max_body_bytes
        self._router = Router(routes)
        self._ids = itertools.count(1)
        self._id_prefix = secrets.token_hex(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        request_id = self._request_id(headers)
        try:
            response = await self._respond(scope, headers, receive, send, request_id)
        except ToolcribError as error:
            response = problem(error)
        except ClientGone:
            return
        except Exception:
            log.exception("request %s: %s %r crashed", request_id, scope["method"], scope["path"][:200])
            response = crash(request_id)
        if response is not None:
            echoed = CLIENT_REQUEST_ID in headers
            await _send(send, response, request_id, echoed=echoed, with_body=scope["method"] != "HEAD")

    async def _respond(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send, request_id: str
    ) -> Response | None:
        """The answer; None when the handler has already streamed it."""
        self._doorkeeper.check_origin(headers)
        route, params = self._router.match(scope["method"], _path(scope))
        query = parse_query(scope["query_string"])
        if route.needs_api_version and not query.get("api-version"):
            raise InvalidPayload(
                "The query parameter api-version is missing.", param="api-version", hint="append ?api-version=v1"
            )
        principal = LOCAL_ADMIN
        if route.role is not None:
            principal = await self._doorkeeper.principal(headers)
            if "project" in params:
                self._crib.access.enter(principal, params["project"])
            require(principal, route.role)
        limit = self._max_upload_bytes if route.takes_files else self._max_body_bytes
        body = await _body(headers, receive, limit)
        request = Request(
            scope["method"],
            scope["path"],
            params,
            query,
            headers,
            principal,
            body,
            request_id,
            receive,
            send,
            scope["headers"],
        )
        return await route.handler(self._gateway if route.is_mcp else self._crib, request)

    def _request_id(self, headers: dict[bytes, bytes]) -> str:
        """The client's own id for the request if it sent a decent one, else one of ours."""
        sent = headers.get(CLIENT_REQUEST_ID) or headers.get(b"x-request-id")
        if sent is not None and len(sent) <= 128 and sent.isascii():
            text = sent.decode("ascii")
            if text.isprintable():
                return text
        return f"{self._id_prefix}-{next(self._ids)}"


async def _body(headers: dict[bytes, bytes], receive: Receive, limit: int) -> bytes:
    declared = headers.get(b"content-length", b"0")
    if len(declared) > _MOST_LENGTH_DIGITS or (declared.isdigit() and int(declared) > limit):
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return b"".join(parts)
    raise ClientGone


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The body is over the limit of {limit} bytes.", param="body", hint="the operator can raise max_body_bytes"
    )


def _path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or b""
    return raw.decode("latin-1") if b"%" in raw else scope["path"]


async def _send(send: Send, response: Response, request_id: str, *, echoed: bool, with_body: bool) -> None:
    identity = request_id.encode()
    length: Header = (b"content-length", b"%d" % len(response.body))
    headers = [*response.headers, length, (b"x-request-id", identity)]
    if echoed:
        headers.append((CLIENT_REQUEST_ID, identity))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body if with_body else b""})
