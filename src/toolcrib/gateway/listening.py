"""Streams of changes: the session era's standing GET, and the stateless era's `subscriptions/listen`.

Both read the same feed; they differ in who asked for what and how a frame looks. A stream ends when its client leaves
or the server stops; nothing is replayed, because every event only says "look again".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.errors import ToolcribError
from toolcrib.gateway import replies
from toolcrib.gateway.changes import Changes, Event
from toolcrib.gateway.messages import Rejected
from toolcrib.gateway.sessions import Session
from toolcrib.gateway.stream import PING, PING_EVERY_S, SSE_HEADERS, ReplyStream, event
from toolcrib.http import Channel, Request
from toolcrib.protocol import INVALID_PARAMS
from toolcrib.toolboxes.opened import OpenToolbox
from toolcrib.upstreams.upstream import Exchange

if TYPE_CHECKING:
    from toolcrib.gateway.methods import Call

log = logging.getLogger("toolcrib.gateway")
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
_encode = msgspec.json.Encoder().encode
_FLAGS = {"tools": "toolsListChanged", "resources": "resourcesListChanged", "prompts": "promptsListChanged"}
_MOST_URIS = 1_000


async def stand(changes: Changes, request: Request, toolbox: OpenToolbox, session: Session | None) -> None:
    """GET: every list change, and updates of the resources this session subscribed to."""

    def wanted(e: Event) -> bool:
        return e.uri is None or (session is not None and e.uri in session.subscriptions)

    request.channel.start(SSE_HEADERS)
    await _pump(changes, request.channel, toolbox, wanted, lambda e: _frame(e, {}))
    await request.channel.end()


async def listen(changes: Changes, call: Call, stream: ReplyStream) -> None:
    """`subscriptions/listen`: first what is honoured, then what was asked for, each frame carrying the request's id."""
    if not stream.takes_events:
        raise Rejected(
            INVALID_PARAMS, "subscriptions/listen answers with an event stream.", id=call.message.id, status=406
        )
    honoured = _honoured(call)
    uris = frozenset(honoured.get("resourceSubscriptions", ()))
    meta = {SUBSCRIPTION_ID: msgspec.json.decode(call.message.id)}

    def wanted(e: Event) -> bool:
        return e.uri in uris if e.uri is not None else honoured.get(_FLAGS[e.kind]) is True

    subscribed: set[str] = set()
    try:
        for uri in uris:
            await call.toolbox.subscribe(uri, call.exchange)
            subscribed.add(uri)
        await stream.notify("notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta})
        await _pump(changes, call.request.channel, call.toolbox, wanted, lambda e: _frame(e, meta))
        final = replies.result(call.message.id, _encode({"resultType": "complete", "_meta": meta}))
        await call.request.channel.end(event(final))
    finally:
        await unsubscribe(call.toolbox, subscribed, call.exchange)


async def unsubscribe(toolbox: OpenToolbox, uris: Iterable[str], exchange: Exchange) -> None:
    """End what a listener had subscribed to. It is leaving: an upstream that is down is no reason to fail."""
    for uri in list(uris):
        try:
            await toolbox.unsubscribe(uri, exchange)
        except ToolcribError as error:
            log.info("the subscription to %r was not ended: %s", uri[:200], error.message)


async def _pump(
    changes: Changes,
    channel: Channel,
    toolbox: OpenToolbox,
    wanted: Callable[[Event], bool],
    frame: Callable[[Event], bytes],
) -> None:
    feed = changes.open(toolbox.project, toolbox.name)
    channel.on_gone = feed.close
    if channel.is_gone:
        feed.close()
    try:
        await channel.write(PING)
        async for e in feed.events(PING_EVERY_S):
            if e is None or wanted(e):
                await channel.write(PING if e is None else frame(e))
    finally:
        channel.on_gone = None
        changes.leave(toolbox.project, toolbox.name, feed)


def _honoured(call: Call) -> dict[str, Any]:
    asked = call.params.notifications
    if not isinstance(asked, dict):
        raise Rejected(INVALID_PARAMS, "subscriptions/listen needs notifications.", id=call.message.id)
    honoured: dict[str, Any] = {flag: True for flag in _FLAGS.values() if asked.get(flag) is True}
    uris = asked.get("resourceSubscriptions")
    if isinstance(uris, list) and uris:
        honoured["resourceSubscriptions"] = [u for u in uris if isinstance(u, str)][:_MOST_URIS]  # pyright: ignore[reportUnknownVariableType] - JSON
    return honoured


def _frame(e: Event, meta: dict[str, Any]) -> bytes:
    params: dict[str, Any] = {"uri": e.uri} if e.uri is not None else {}
    if meta:
        params["_meta"] = meta
    return event(_encode({"jsonrpc": "2.0", "method": e.method, "params": params}))
