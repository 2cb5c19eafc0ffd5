"""The edge: what happens to every request, in order, and to everything that goes wrong.

said once → host and origin → route → api-version → principal → project and role → body → handler → answer.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Mapping, Sequence

import msgspec

from toolcrib.access import LOCAL_ADMIN, require
from toolcrib.domain import Principal
from toolcrib.errors import BadRequest, InvalidPayload, ToolcribError
from toolcrib.gateway.endpoint import Gateway
from toolcrib.gateway.express import Express, Ticket
from toolcrib.http import Request, Response, repeated
from toolcrib.toolboxes.crib import Crib
from toolcrib.web.auth import Doorkeeper
from toolcrib.web.incoming import ClientGone, Incoming
from toolcrib.web.problems import crash, problem
from toolcrib.web.routes import ROUTES, Route, Router

log = logging.getLogger("toolcrib.web")
CLIENT_REQUEST_ID = b"x-ms-client-request-id"
# Who is asking, and whom: proxies differ from us in which of two they take.
_SAID_ONCE = frozenset({b"host", b"origin", b"authorization", b"api-key", b"x-toolcrib-user"})


class Admitted(msgspec.Struct, frozen=True, eq=False):
    """What a head came to when it was let in; good until a credential is withdrawn."""

    route: Route
    params: Mapping[str, str]
    query: Mapping[str, str]
    principal: Principal
    withdrawals: int | None
    """How many there had been; None where no credential was needed."""
    ticket: Ticket | None
    """For the express counter, where requests with this head may go there."""


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
        self._express = Express(gateway, self._new_id)

    async def __call__(self, incoming: Incoming) -> None:
        try:
            await self._serve(incoming)
        finally:
            if incoming.begun is not None:
                incoming.begun.close()

    async def _serve(self, incoming: Incoming) -> None:
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

    def hasten(self, incoming: Incoming) -> bool:
        """Serve it at the express counter, if its head was let in before; false if it takes the ordinary way."""
        admitted = self._known(incoming)
        if admitted is None or admitted.ticket is None:
            return False
        if not incoming.is_complete or incoming.size > self._max_body_bytes:
            return False
        try:
            return self._express.take(admitted.ticket, incoming.received, incoming)
        except Exception:
            log.exception("%s %r crashed at the express counter", incoming.method, incoming.target[:200])
            return False

    async def _respond(self, incoming: Incoming, headers: dict[bytes, bytes], request_id: str) -> Response | None:
        """The answer; None when the handler has already streamed it."""
        admitted = self._known(incoming) or await self._admit(incoming, headers)
        route = admitted.route
        body = await incoming.body(self._max_upload_bytes if route.takes_files else self._max_body_bytes)
        request = Request(
            admitted.params,
            admitted.query,
            headers,
            admitted.principal,
            body,
            request_id,
            incoming.raw_headers,
            incoming,
            incoming.begun,
        )
        return await route.handler(self._gateway if route.is_mcp else self._crib, request)

    def _known(self, incoming: Incoming) -> Admitted | None:
        """What the same head came to the last time, unless somebody has lost the right to anything since.

        A request that was begun stays let in: nobody is turned away in the middle of a call.
        """
        admitted: Admitted | None = incoming.said.admitted if incoming.said is not None else None
        if admitted is not None and admitted.withdrawals is not None and incoming.begun is None:
            return admitted if admitted.withdrawals == self._crib.access.withdrawals else None
        return admitted

    async def _admit(self, incoming: Incoming, headers: dict[bytes, bytes]) -> Admitted:
        if len(headers) != len(incoming.raw_headers) and (name := repeated(incoming.raw_headers, _SAID_ONCE)):
            raise BadRequest(f"The header {name} appears more than once.", param=name)
        self._doorkeeper.check_origin(headers)
        route, params, query = self._router.match(incoming.method, incoming.target)
        if route.needs_api_version and not query.get("api-version"):
            raise InvalidPayload(
                "The query parameter api-version is missing.", param="api-version", hint="append ?api-version=v1"
            )
        principal, withdrawals = LOCAL_ADMIN, None
        if route.role is not None:
            withdrawals = self._crib.access.withdrawals  # before: what is read next may just have been withdrawn
            principal = await self._doorkeeper.principal(headers)
            if "project" in params:
                self._crib.access.enter(principal, params["project"])
            require(principal, route.role)
        ticket = None
        if route.is_mcp and incoming.method == "POST" and len(headers) == len(incoming.raw_headers):
            ticket = self._express.ticket(principal, params, query, headers)
        admitted = Admitted(route, params, query, principal, withdrawals, ticket)
        if incoming.said is not None:
            incoming.said.admitted = admitted
        return admitted

    def _request_id(self, headers: dict[bytes, bytes]) -> str:
        """The client's own id for the request if it sent a decent one, else one of ours."""
        sent = headers.get(CLIENT_REQUEST_ID) or headers.get(b"x-request-id")
        if sent is not None and len(sent) <= 128 and sent.isascii():
            text = sent.decode("ascii")
            if text.isprintable():
                return text
        return self._new_id()

    def _new_id(self) -> str:
        return f"{self._id_prefix}-{next(self._ids)}"
