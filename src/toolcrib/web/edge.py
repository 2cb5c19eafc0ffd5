"""The edge: what happens to every request, in order, and to everything that goes wrong.

said once → host and origin → route → api-version → principal → project and role → body → handler → answer.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Sequence

from toolcrib.access import LOCAL_ADMIN, require
from toolcrib.errors import BadRequest, InvalidPayload, ToolcribError
from toolcrib.gateway.endpoint import Gateway
from toolcrib.http import Request, Response, repeated
from toolcrib.toolboxes.crib import Crib
from toolcrib.web.auth import Doorkeeper
from toolcrib.web.line import ClientGone, Incoming
from toolcrib.web.problems import crash, problem
from toolcrib.web.routes import ROUTES, Route, Router

log = logging.getLogger("toolcrib.web")
CLIENT_REQUEST_ID = b"x-ms-client-request-id"
# Who is asking, and whom: proxies differ from us in which of two they take.
_SAID_ONCE = frozenset({b"host", b"origin", b"authorization", b"api-key", b"x-toolcrib-user"})


class Edge:
    """Everything a request has in common with every other: nothing leaves it but answers."""

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

    async def __call__(self, incoming: Incoming) -> None:
        headers = dict(incoming.raw_headers)
        request_id = self._request_id(headers)
        identity = request_id.encode()
        incoming.own_headers.append((b"x-request-id", identity))
        if CLIENT_REQUEST_ID in headers:
            incoming.own_headers.append((CLIENT_REQUEST_ID, identity))
        try:
            response = await self._respond(incoming, headers, request_id)
        except ToolcribError as error:
            response = problem(error)
        except ClientGone:
            return
        except Exception:
            log.exception("request %s: %s %r crashed", request_id, incoming.method, incoming.target[:200])
            response = crash(request_id)
        if response is not None:
            try:
                incoming.answer(response.status, response.headers, response.body, with_body=incoming.method != "HEAD")
            except Exception:
                log.exception("request %s: the answer could not be sent", request_id)
                incoming.abort()

    async def _respond(self, incoming: Incoming, headers: dict[bytes, bytes], request_id: str) -> Response | None:
        """The answer; None when the handler has already streamed it."""
        if len(headers) != len(incoming.raw_headers) and (name := repeated(incoming.raw_headers, _SAID_ONCE)):
            raise BadRequest(f"The header {name} appears more than once.", param=name)
        self._doorkeeper.check_origin(headers)
        route, params, query = self._router.match(incoming.method, incoming.target)
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
        body = await incoming.body(self._max_upload_bytes if route.takes_files else self._max_body_bytes)
        request = Request(params, query, headers, principal, body, request_id, incoming.raw_headers, incoming)
        return await route.handler(self._gateway if route.is_mcp else self._crib, request)

    def _request_id(self, headers: dict[bytes, bytes]) -> str:
        """The client's own id for the request if it sent a decent one, else one of ours."""
        sent = headers.get(CLIENT_REQUEST_ID) or headers.get(b"x-request-id")
        if sent is not None and len(sent) <= 128 and sent.isascii():
            text = sent.decode("ascii")
            if text.isprintable():
                return text
        return f"{self._id_prefix}-{next(self._ids)}"
