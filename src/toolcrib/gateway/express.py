"""The express counter: a plain `tools/call` is handed across without a task of its own.

"Plain" is what agents mostly send once they are at work: the stateless era, a head that was let in before, nothing
declared, no progress wanted, a tool that is known, arguments that fit, an upstream with a connection open. Its answer
is passed on when it comes. Whatever is not plain, or turns out not to be (no answer within a blink, a stream, a
refusal, a client that leaves), is served by `endpoint` as if it had just arrived, except that what was sent is not sent
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
from msgspec import Raw

from toolcrib.catalog.snapshot import Snapshot
from toolcrib.domain import NameForm, Principal, Version
from toolcrib.errors import ToolcribError
from toolcrib.gateway import eras, finder, replies
from toolcrib.gateway.endpoint import Begun, Gateway
from toolcrib.gateway.messages import read_plain_call
from toolcrib.gateway.stream import takes
from toolcrib.protocol import decode_header
from toolcrib.toolboxes.calling import Prepared, Started
from toolcrib.toolboxes.opened import Expose, OpenToolbox
from toolcrib.upstreams.deadline import Deadlines

log = logging.getLogger("toolcrib.gateway")
_OWN_IDS = frozenset({b"x-request-id", b"x-ms-client-request-id"})


class Caller(Protocol):
    """Whoever asked: it can be given an answer, or be served after all."""

    on_gone: Callable[[], None] | None
    begun: Begun | None

    def answer_json(self, body: bytes, request_id: str) -> None: ...

    def serve(self) -> None: ...


class Ticket(msgspec.Struct, eq=False):
    """What a head settles before a body is read: who asks for which tool of which toolbox, and how."""

    principal: Principal
    project: str
    toolbox: str
    selector: str | None
    expose: Expose | None
    names: NameForm
    named: str
    prepared: Prepared | None = None
    """What that came to the last time."""


class Express:
    """Makes what can be made at once of requests whose head was let in before."""

    def __init__(self, gateway: Gateway, new_request_id: Callable[[], str]) -> None:
        self.crossings = Deadlines()
        self._gateway = gateway
        self.new_request_id = new_request_id

    def ticket(
        self, principal: Principal, params: Mapping[str, str], query: Mapping[str, str], headers: Mapping[bytes, bytes]
    ) -> Ticket | None:
        """For the head of a POST to an MCP endpoint, none of whose headers is repeated; None if it is not plain."""
        named = decode_header(headers.get(b"mcp-name", b"").strip().decode("latin-1"))
        is_call = eras.is_modern(headers) and headers.get(b"mcp-method", b"").strip() == b"tools/call"
        if not is_call or not named or not takes(headers)[0] or not _OWN_IDS.isdisjoint(headers):
            return None
        try:
            names, expose = self._gateway.wishes(query)
        except ToolcribError:
            return None
        return Ticket(principal, params["project"], params["name"], params.get("version"), expose, names, named)

    def take(self, ticket: Ticket, body: bytes, caller: Caller) -> bool:
        """Send the call on its way; false when it is not plain, and nothing has happened."""
        crib = self._gateway.crib
        version = crib.shelf.at_hand(ticket.project, ticket.toolbox, ticket.selector)
        snapshot = crib.counter.catalogs.ready(version) if version is not None else None
        if version is None or snapshot is None:
            return False
        prepared = ticket.prepared
        if prepared is None or not prepared.is_from(version, snapshot):
            prepared = ticket.prepared = self._prepare(ticket, version, snapshot)
        call = read_plain_call(body, ticket.named) if prepared is not None else None
        started = prepared.start(bytes(call.params.arguments)) if prepared is not None and call is not None else None
        if call is None or started is None:
            return False
        Crossing(self, ticket, snapshot, caller, call.id, started).begin()
        return True

    def open(self, ticket: Ticket, version: Version, snapshot: Snapshot) -> OpenToolbox:
        return self._gateway.crib.counter.open(version, ticket.principal, ticket.expose, snapshot)

    def _prepare(self, ticket: Ticket, version: Version, snapshot: Snapshot) -> Prepared | None:
        toolbox = self.open(ticket, version, snapshot)
        if ticket.named in finder.META_TOOLS and finder.is_offered(toolbox):
            return None
        return toolbox.prepare(ticket.named, ticket.names)


class Crossing(msgspec.Struct, eq=False):
    """One call on its way across, until its answer is passed on or it is served the ordinary way."""

    _express: Express
    _ticket: Ticket
    _snapshot: Snapshot
    _caller: Caller
    _id: Raw
    _started: Started
    _was_seen: bool = False
    _is_over: bool = False

    def begin(self) -> None:
        self._caller.on_gone = self._hand_over
        self._express.crossings.add(self)
        self._started.head_start.when_ready(self._arrived)

    def look(self, now: float) -> None:
        """Twice seen waiting is too long for this."""
        if self._was_seen:
            self._hand_over()
        self._was_seen = True

    def _arrived(self) -> None:
        if self._is_over:
            return None
        request_id = self._express.new_request_id()
        try:
            result = self._started.finish()
            if result is None:
                return self._hand_over()
            payload = replies.result(self._id, eras.complete(result))
        except Exception:
            log.exception("request %s: passing on an answer crashed", request_id)
            self._started.give_up()
            payload = replies.crashed(self._id, request_id)
        self._leave()
        return self._caller.answer_json(payload, request_id)

    def _hand_over(self) -> None:
        if not self._is_over:
            self._leave()
            toolbox = self._express.open(self._ticket, self._started.prepared.version, self._snapshot)
            self._caller.begun = Begun(toolbox, self._started.head_start)
            self._caller.serve()

    def _leave(self) -> None:
        self._is_over = True
        self._caller.on_gone = None
        self._express.crossings.remove(self)
