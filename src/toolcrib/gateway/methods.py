"""One short function per MCP method: typed params in, the JSON text of a result out.

Both eras share them; what an era adds to a result is put on by `eras`, and only where it differs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec
from msgspec import UNSET

from toolcrib import __version__
from toolcrib.domain import JsonObject, NameForm
from toolcrib.errors import NotFound
from toolcrib.gateway import eras, finder
from toolcrib.gateway.exchange import ClientExchange, is_level
from toolcrib.gateway.messages import Message, Params, Rejected
from toolcrib.gateway.relay import Relay
from toolcrib.gateway.states import bind
from toolcrib.http import Request
from toolcrib.protocol import INVALID_PARAMS
from toolcrib.skills.served import SCHEME
from toolcrib.toolboxes.opened import OpenToolbox
from toolcrib.upstreams.upstream import Outcome

LIST_TTL_MS = 10_000
SERVER_INFO = {"name": "toolcrib", "title": "toolcrib", "version": __version__}
CAPABILITIES: JsonObject = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
    "extensions": {"io.modelcontextprotocol/skills": {}},
}
_encode = msgspec.json.Encoder().encode
EMPTY = b"{}"
_KEPT = b',"ttlMs":%d,"cacheScope":"private"' % LIST_TTL_MS


class Call(msgspec.Struct):
    """One request on its way through the gateway."""

    relay: Relay
    request: Request
    message: Message
    toolbox: OpenToolbox
    exchange: ClientExchange
    modern: bool
    version: str
    names: NameForm

    @property
    def params(self) -> Params:
        return self.message.params

    def bound(self, name: str, arguments: bytes = b"") -> bytes:
        """What a request state of this call must never be moved away from."""
        box = self.toolbox
        names = (self.request.principal.id, box.version.id, self.message.method, name)
        return bind(*names, arguments=arguments)


Method = Callable[[Call], Awaitable[bytes]]


async def initialize(call: Call) -> bytes:
    return _encode(
        {
            "protocolVersion": call.version,
            "capabilities": CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": call.toolbox.instructions,
        }
    )


async def discover(call: Call) -> bytes:
    return _encode(
        {
            "resultType": "complete",
            "supportedVersions": eras.SUPPORTED,
            "capabilities": CAPABILITIES,
            "instructions": call.toolbox.instructions,
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO},
        }
    )


async def ping(call: Call) -> bytes:
    return EMPTY


async def set_level(call: Call) -> bytes:
    if not is_level(call.params.level):
        raise Rejected(INVALID_PARAMS, f"level {call.params.level!r} is not a log level.", id=call.message.id)
    if call.exchange.session is not None:
        call.exchange.session.log_level = str(call.params.level)
    return EMPTY


async def tools_list(call: Call) -> bytes:
    _no_cursor(call)
    if call.toolbox.expose == "search":
        return _list(call, b"tools", await finder.listed(call.toolbox, call.names))
    return _list(call, b"tools", await call.toolbox.tools(call.names))


async def tools_call(call: Call) -> bytes:
    name = _required(call, "name")
    arguments = bytes(call.params.arguments)
    if name in finder.META_TOOLS and finder.is_offered(call.toolbox):
        return await _meta_tool(call, name, arguments)
    tool = await call.toolbox.tool(name, call.names)
    if call.modern and tool.headers:
        eras.check_mirrored(call.message, tool.headers, call.request.raw_headers)

    async def invoke(extra: JsonObject) -> Outcome:
        return await call.toolbox.call(tool, arguments, call.exchange, extra)

    bound = partial(call.bound, name, arguments)
    return _completed(call, await call.relay.run(call.params, call.exchange, bound, invoke))


async def _meta_tool(call: Call, name: str, arguments: bytes) -> bytes:
    """`tool_search`, or `call_tool`, which takes the same road as a direct call and says so in `_meta`."""
    if name == finder.TOOL_SEARCH:
        return _completed(call, await finder.search(call.toolbox, arguments, call.names))
    inner = finder.read_call(arguments)
    if inner.name == finder.TOOL_SEARCH:
        return _completed(call, await finder.search(call.toolbox, inner.arguments, call.names))
    tool = await finder.find(call.toolbox, inner.name, call.names)

    async def invoke(extra: JsonObject) -> Outcome:
        return await call.toolbox.call(tool, inner.arguments, call.exchange, extra)

    bound = partial(call.bound, inner.name, inner.arguments)
    result = await call.relay.run(call.params, call.exchange, bound, invoke)
    return _completed(call, finder.identified(result, tool, call.toolbox.version))


async def resources_list(call: Call) -> bytes:
    _no_cursor(call)
    return _list(call, b"resources", await call.toolbox.resources())


async def templates_list(call: Call) -> bytes:
    _no_cursor(call)
    return _list(call, b"resourceTemplates", await call.toolbox.resource_templates())


async def resources_read(call: Call) -> bytes:
    uri = _required(call, "uri")
    if uri.startswith(SCHEME):
        return _own(call, b"contents", await call.toolbox.read_skill(uri))

    async def invoke(extra: JsonObject) -> Outcome:
        return await call.toolbox.read(uri, call.exchange, extra)

    result = await call.relay.run(call.params, call.exchange, partial(call.bound, uri), invoke)
    return _completed(call, result, cacheable=True)


async def skills_list(call: Call) -> bytes:
    _no_cursor(call)
    skills = await call.toolbox.skills()
    return _own(call, b"skills", b"[" + b",".join(skills.entries.values()) + b"]")


async def skills_get(call: Call) -> bytes:
    uri = _required(call, "uri")
    entry = (await call.toolbox.skills()).entries.get(uri)
    if entry is None:
        raise NotFound(f"No skill of this toolbox is at {uri[:200]!a}.", info={"uri": uri})
    return _own(call, b"skill", entry)


async def resources_subscribe(call: Call) -> bytes:
    uri = _required(call, "uri")
    session = call.exchange.session
    if session is None:
        return EMPTY  # nobody to tell later, and nobody who could end it
    if uri not in session.subscriptions:
        await call.toolbox.subscribe(uri, call.exchange)
        session.subscriptions.add(uri)
    return EMPTY


async def resources_unsubscribe(call: Call) -> bytes:
    uri = _required(call, "uri")
    session = call.exchange.session
    if session is not None and uri in session.subscriptions:
        session.subscriptions.discard(uri)
        await call.toolbox.unsubscribe(uri, call.exchange)
    return EMPTY


async def prompts_list(call: Call) -> bytes:
    _no_cursor(call)
    return _list(call, b"prompts", await call.toolbox.prompts(call.names))


async def prompts_get(call: Call) -> bytes:
    name = _required(call, "name")
    arguments = bytes(call.params.arguments)

    async def invoke(extra: JsonObject) -> Outcome:
        return await call.toolbox.prompt(name, arguments, call.exchange, extra)

    bound = partial(call.bound, name, arguments)
    return _completed(call, await call.relay.run(call.params, call.exchange, bound, invoke))


async def complete(call: Call) -> bytes:
    params = call.params
    if params.ref is UNSET or params.argument is UNSET:
        raise Rejected(INVALID_PARAMS, "completion/complete needs ref and argument.", id=call.message.id)
    context = None if params.context is UNSET else params.context
    outcome = await call.toolbox.complete(params.ref, params.argument, context, call.exchange)
    return _completed(call, outcome.result)


SESSION_ERA: Mapping[str, Method] = {
    "initialize": initialize,
    "ping": ping,
    "logging/setLevel": set_level,
    "tools/list": tools_list,
    "tools/call": tools_call,
    "resources/list": resources_list,
    "resources/templates/list": templates_list,
    "resources/read": resources_read,
    "resources/subscribe": resources_subscribe,
    "resources/unsubscribe": resources_unsubscribe,
    "skills/list": skills_list,
    "skills/get": skills_get,
    "prompts/list": prompts_list,
    "prompts/get": prompts_get,
    "completion/complete": complete,
}
_GONE = ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
STATELESS_ERA: Mapping[str, Method] = {
    "server/discover": discover,
    **{name: method for name, method in SESSION_ERA.items() if name not in _GONE},
}


def _list(call: Call, kind: bytes, items: bytes) -> bytes:
    """A list result; `items` is what stands between the brackets. States of the sources come along."""
    head = b'{"resultType":"complete","%b":[%b]' if call.modern else b'{"%b":[%b]'
    return head % (kind, items) + (_KEPT if call.modern else b"") + b',"_meta":' + call.toolbox.sources_meta + b"}"


def _own(call: Call, field: bytes, value: bytes) -> bytes:
    """A result that no upstream had a part in, of one field; `value` is its JSON text."""
    head = b'{"resultType":"complete","%b":' if call.modern else b'{"%b":'
    return head % field + value + (_KEPT if call.modern else b"") + b"}"


def _completed(call: Call, result: bytes, *, cacheable: bool = False) -> bytes:
    return eras.complete(result, cacheable=cacheable) if call.modern else result


def _required(call: Call, field: str) -> str:
    value = getattr(call.params, field)
    if value is UNSET:
        raise Rejected(INVALID_PARAMS, f"{call.message.method} needs {field}.", id=call.message.id)
    return value


def _no_cursor(call: Call) -> None:
    """Lists are served whole, so no cursor was ever issued."""
    if call.params.cursor is not None:
        raise Rejected(INVALID_PARAMS, "cursor is not one that this server issued.", id=call.message.id)
