"""…/toolboxes/{name}[/versions/{v}]/mcp: find the version, open it for the principal, serve one POST in either era.

Up to the point where a JSON-RPC message is accepted, failures are HTTP with the error envelope; from there on they are
JSON-RPC. Sessions, parked calls and the feeds of changes live as long as the gateway does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec
from msgspec import UNSET, Raw

from toolcrib.domain import NameForm
from toolcrib.errors import BadRequest, InvalidPayload, MethodNotAllowed, NotAcceptable, ToolcribError
from toolcrib.gateway import eras, listening, replies
from toolcrib.gateway.changes import Changes
from toolcrib.gateway.exchange import ClientExchange
from toolcrib.gateway.messages import Message, Rejected, is_batch, read_batch, read_message
from toolcrib.gateway.methods import SESSION_ERA, STATELESS_ERA, Call
from toolcrib.gateway.parking import ParkingLot
from toolcrib.gateway.relay import Relay
from toolcrib.gateway.sessions import Session, Sessions
from toolcrib.gateway.states import StateSeal
from toolcrib.gateway.stream import Pulse, ReplyStream
from toolcrib.http import Request, Response
from toolcrib.protocol import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from toolcrib.toolboxes.crib import Crib
from toolcrib.toolboxes.opened import Expose, OpenToolbox
from toolcrib.toolboxes.resolve import resolve
from toolcrib.upstreams.upstream import Background, HeadStart

log = logging.getLogger("toolcrib.gateway")
ACCEPTED = Response(202, b"", ())
_NAME_FORMS = get_args(NameForm)
_EXPOSE = ("search", "all")
_MOST_IN_A_BATCH = 100


class Begun(msgspec.Struct, eq=False, frozen=True):
    """What was done for a request before it came here: the toolbox as it was then, and a call already sent."""

    toolbox: OpenToolbox
    head_start: HeadStart

    def close(self) -> None:
        """The request has been served: what of it nobody took goes."""
        self.head_start.close()


class Gateway:
    """Everything the MCP endpoints share."""

    def __init__(self, crib: Crib, changes: Changes, *, state_key: bytes, names: NameForm = "dot") -> None:
        self.crib = crib
        self.names: NameForm = names
        self.sessions = Sessions()
        self.changes = changes
        self._lot = ParkingLot()
        self.pulse = Pulse()
        self.relay = Relay(StateSeal(state_key), self._lot)

    async def open(self, request: Request) -> OpenToolbox:
        """The toolbox a URL names, for the principal that asks."""
        _, expose = self.wishes(request.query)
        version = await resolve(self.crib.shelf, request.project, request.params["name"], request.params.get("version"))
        return self.crib.counter.open(version, request.principal, expose)

    def wishes(self, query: Mapping[str, str]) -> tuple[NameForm, Expose | None]:
        """What a client may choose in the URL: how tools are named, and whether all of them are shown."""
        return _choice(query, "names", _NAME_FORMS) or self.names, _choice(query, "expose", _EXPOSE)

    def close(self) -> None:
        """End every stream and every call on hold, so that the server can stop."""
        self.changes.close()
        self._lot.close()


async def post(gateway: Gateway, request: Request) -> Response | None:
    """One JSON-RPC message, or (2025-03-26) a batch of them."""
    names, _ = gateway.wishes(request.query)
    begun: Begun | None = request.begun
    toolbox = begun.toolbox if begun is not None else await gateway.open(request)
    stream = ReplyStream(request, gateway.pulse)
    if not (stream.takes_json or stream.takes_events):
        raise NotAcceptable("Answers are application/json or text/event-stream.", param="Accept")
    modern = eras.is_modern(request.headers)
    try:
        if is_batch(request.body):
            return await _serve_batch(gateway, request, toolbox, stream, names)
        message = read_message(request.body)
        version = eras.MODERN if modern else eras.version_of(request.headers, message)
        if len(request.headers) != len(request.raw_headers):
            eras.check_repeated(message, request.raw_headers)
        if modern and not message.is_notification:
            eras.check_modern(message, request.headers)
        session = None if modern else gateway.sessions.find(request.headers.get(b"mcp-session-id"), request.principal)
        return await _serve(gateway, request, message, toolbox, stream, session, version, names)
    except Rejected as error:
        status, payload = replies.rejected(error, modern=modern)
        return await stream.finish(status, payload)


async def invoke(gateway: Gateway, request: Request) -> Response | None:
    """`:invoke_mcp`: one message to the default version."""
    return await post(gateway, request)


async def get(gateway: Gateway, request: Request) -> Response | None:
    """The session era's standing stream of changes."""
    if eras.is_modern(request.headers):
        raise MethodNotAllowed("2026-07-28 has no GET stream; use subscriptions/listen.", info={"allowed": ["POST"]})
    if b"text/event-stream" not in request.headers.get(b"accept", b""):
        raise NotAcceptable("A GET here opens an event stream: send Accept: text/event-stream.", param="Accept")
    try:
        eras.version_of_header(request.headers)
    except Rejected as error:
        return Response(*replies.rejected(error, modern=False))
    session = gateway.sessions.find(request.headers.get(b"mcp-session-id"), request.principal)
    toolbox = await gateway.open(request)
    await listening.stand(gateway.changes, request, toolbox, session)
    return None


async def delete(gateway: Gateway, request: Request) -> Response | None:
    """The end of a session."""
    if eras.is_modern(request.headers):
        raise MethodNotAllowed("2026-07-28 has no sessions to end.", info={"allowed": ["POST"]})
    session_id = request.headers.get(b"mcp-session-id")
    if session_id is None:
        raise BadRequest("DELETE ends a session: send its mcp-session-id.", param="Mcp-Session-Id")
    toolbox = await gateway.open(request)
    session = gateway.sessions.find(session_id, request.principal)
    if session is not None:
        gateway.sessions.end(session)
        await listening.unsubscribe(toolbox, session.subscriptions, Background(request.principal))
    return Response(204, b"", ())


async def _serve(
    gateway: Gateway,
    request: Request,
    message: Message,
    toolbox: OpenToolbox,
    stream: ReplyStream,
    session: Session | None,
    version: str,
    names: NameForm,
) -> Response | None:
    modern = version == eras.MODERN
    if not message.method or message.is_notification:
        _note(message, session)
        return ACCEPTED
    if message.method == "initialize" and not modern:
        version, session = _begin(gateway, request, message)
        stream.extra_headers = ((b"mcp-session-id", session.id.encode()),)
    begun: Begun | None = request.begun
    head_start = begun.head_start if begun is not None else None
    exchange = ClientExchange(request.principal, message, stream, session, modern=modern, head_start=head_start)
    call = Call(gateway.relay, request, message, toolbox, exchange, modern, version, names)
    if modern and message.method == "subscriptions/listen":
        return await _listen(gateway, call, stream)
    with stream:
        answer = await (_answer(call) if session is None else _answer_cancellably(call, session))
    return await stream.end() if answer is None else await stream.finish(*answer)


async def _listen(gateway: Gateway, call: Call, stream: ReplyStream) -> Response | None:
    try:
        await listening.listen(gateway.changes, call, stream)
    except ToolcribError as error:
        return await stream.finish(*replies.refused(call.message.id, error, call.message.method, modern=True))
    return None


async def _answer_cancellably(call: Call, session: Session) -> tuple[int, bytes] | None:
    """The answer; None when the client itself cancelled the request and so expects none."""
    task, key = cast("asyncio.Task[Any]", asyncio.current_task()), bytes(call.message.id)
    session.running[key] = task
    try:
        return await _answer(call)
    except asyncio.CancelledError:
        if task not in session.cancelled:
            raise
        task.uncancel()
        return None
    finally:
        session.cancelled.discard(task)
        if session.running.get(key) is task:
            del session.running[key]


async def _answer(call: Call) -> tuple[int, bytes]:
    """Run the method; everything that can go wrong becomes a JSON-RPC answer here."""
    message = call.message
    method = (STATELESS_ERA if call.modern else SESSION_ERA).get(message.method)
    try:
        if method is None:
            raise Rejected(METHOD_NOT_FOUND, f"Method not found: {message.method[:100]}", id=message.id)
        return 200, replies.result(message.id, await method(call))
    except Rejected as error:
        return replies.rejected(error, modern=call.modern)
    except ToolcribError as error:
        return replies.refused(message.id, error, message.method, modern=call.modern)
    except Exception:
        log.exception("request %s: %s crashed", call.request.request_id, message.method)
        return 200, replies.crashed(message.id, call.request.request_id)


async def _serve_batch(
    gateway: Gateway, request: Request, toolbox: OpenToolbox, stream: ReplyStream, names: NameForm
) -> Response | None:
    version = eras.version_of_header(request.headers)
    if version != eras.ASSUMED:
        raise Rejected(INVALID_REQUEST, f"Batches are not part of protocol version {version}.", status=400)
    items = read_batch(request.body)
    if len(items) > _MOST_IN_A_BATCH:
        raise Rejected(INVALID_REQUEST, f"A batch holds at most {_MOST_IN_A_BATCH} messages.", status=400)
    session = gateway.sessions.find(request.headers.get(b"mcp-session-id"), request.principal)
    with stream:
        answers = await asyncio.gather(
            *(_serve_item(gateway, request, item, toolbox, stream, session, names) for item in items)
        )
    owed = [a for a in answers if a is not None]
    return await stream.finish(200, b"[" + b",".join(owed) + b"]") if owed else await stream.end()


async def _serve_item(
    gateway: Gateway,
    request: Request,
    item: Raw,
    toolbox: OpenToolbox,
    stream: ReplyStream,
    session: Session | None,
    names: NameForm,
) -> bytes | None:
    try:
        message = read_message(item)
    except Rejected as error:
        return replies.rejected(error, modern=False)[1]
    if not message.method or message.is_notification:
        _note(message, session)
        return None
    if message.method == "initialize":
        error = Rejected(INVALID_REQUEST, "initialize must not be part of a batch.", id=message.id)
        return replies.rejected(error, modern=False)[1]
    exchange = ClientExchange(request.principal, message, stream, session, modern=False)
    call = Call(gateway.relay, request, message, toolbox, exchange, modern=False, version=eras.ASSUMED, names=names)
    answer = await (_answer(call) if session is None else _answer_cancellably(call, session))
    return None if answer is None else answer[1]


def _begin(gateway: Gateway, request: Request, message: Message) -> tuple[str, Session]:
    asked = message.params.protocol_version
    if asked is UNSET:
        raise Rejected(INVALID_PARAMS, "initialize needs protocolVersion.", id=message.id)
    version = asked if asked in eras.LEGACY else eras.LATEST_LEGACY
    declared = message.params.capabilities
    return version, gateway.sessions.start(request.principal, version, {} if declared is UNSET else declared)


def _note(message: Message, session: Session | None) -> None:
    """Notifications and answers of a client. What nobody waits for is dropped."""
    if session is None:
        return
    if not message.method:
        session.answer(message)
    elif message.method == "notifications/cancelled":
        session.cancel(bytes(message.params.request_id))


def _choice(query: Mapping[str, str], parameter: str, allowed: tuple[str, ...]) -> Any:
    value = query.get(parameter)
    if value is not None and value not in allowed:
        raise InvalidPayload(f"{parameter} is {value[:60]!r}; it takes {', '.join(allowed)}.", param=parameter)
    return value
