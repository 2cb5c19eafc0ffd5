"""The scriptable upstream over HTTP: an ASGI app of its own under uvicorn, in this process, on a loopback port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from tests.kit.script import MODERN, Behaviour, Call, Fault, Script, Tool


class _Server(uvicorn.Server):
    """Signals belong to the test runner, and it leaves when told, not at the next tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.leave = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.leave.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class FaultyUpstream:
    """A running upstream, and the levers to make it misbehave."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.sessions: dict[str, asyncio.Queue[dict[str, Any] | None]] = {}
        self.session_capabilities: dict[str, dict[str, Any]] = {}
        self.deleted_sessions: list[str] = []
        self.port = 0
        self._resumable: dict[str, dict[str, Any]] = {}
        self._asks: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._handlers: set[asyncio.Task[Any]] = set()
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}" + ("/sse" if "sse" in self.script.behaviour.eras else "/mcp")

    @property
    def executions(self) -> Any:
        return self.script.executions

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.script.requests]

    def set_tools(self, tools: list[Tool]) -> None:
        self.script.set_tools(tools)

    def behave(self, **changes: Any) -> None:
        self.script.behaviour = Behaviour(**{**self.script.behaviour.__dict__, **changes})

    def forget_sessions(self) -> None:
        for queue in self.sessions.values():
            queue.put_nowait(None)
        self.sessions.clear()

    async def start(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app, log_config=None, lifespan="off", interface="asgi3", timeout_graceful_shutdown=1
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Gone at once, with everything that was under way."""
        if self._server is None or self._serving is None:
            return
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        self.forget_sessions()
        for task in list(self._handlers):
            task.cancel()
        self._server.leave.set()
        await self._serving
        self._server = self._serving = None

    # ASGI.

    async def _app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        token = self.script.behaviour.token
        if token is not None and headers.get("authorization") != f"Bearer {token}":
            return await _reply(send, 401, b"", {"www-authenticate": "Bearer"})
        sse = "sse" in self.script.behaviour.eras
        match scope["method"], scope["path"]:
            case "GET", "/sse" if sse:
                return await self._sse(receive, send)
            case "POST", "/messages" if sse:
                return await self._sse_post(scope, headers, receive, send)
            case "POST", "/mcp" if not sse:
                return await self._post(headers, receive, send)
            case "GET", "/mcp" if headers.get("last-event-id") in self._resumable:
                queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
                queue.put_nowait(self._resumable.pop(headers["last-event-id"]))
                return await self._stream(queue, receive, send)
            case "GET", "/mcp" if headers.get("mcp-session-id") in self.sessions:
                return await self._stream(self.sessions[headers["mcp-session-id"]], receive, send)
            case "DELETE", "/mcp" if headers.get("mcp-session-id") in self.sessions:
                self.deleted_sessions.append(headers["mcp-session-id"])
                self.sessions.pop(headers["mcp-session-id"]).put_nowait(None)
                return await _reply(send, 200)
            case _:
                return await _reply(send, 405 if scope["path"] in ("/mcp", "/sse") else 404)

    async def _post(self, headers: dict[str, str], receive: Any, send: Any) -> None:
        message = json.loads(await _body(receive))
        behaviour = self.script.behaviour
        if behaviour.status is not None:
            return await _reply(send, behaviour.status, b"", {"location": "http://elsewhere.example/mcp"})
        modern = headers.get("mcp-protocol-version") == MODERN
        if modern and "modern" not in behaviour.eras:
            return await _error(send, 400, None, -32000, "Bad Request: No valid session ID provided")
        if not modern and "legacy" not in behaviour.eras:
            return await _error(send, 400, message.get("id"), -32022, "Unsupported", {"supported": [MODERN]})
        if modern:
            return await self._modern(message, headers, receive, send)
        return await self._legacy(message, headers, receive, send)

    async def _modern(self, message: dict[str, Any], headers: dict[str, str], receive: Any, send: Any) -> None:
        meta = (message.get("params") or {}).get("_meta") or {}
        if (
            headers.get("mcp-method") != message["method"]
            or meta.get("io.modelcontextprotocol/protocolVersion") != MODERN
        ):
            return await _error(send, 400, message.get("id"), -32020, "Header mismatch")
        if message["method"] == "subscriptions/listen":
            return await self._listen(message, receive, send)
        await self._run(Call("modern", message, headers, _nothing), None, receive, send)
        return None

    async def _legacy(self, message: dict[str, Any], headers: dict[str, str], receive: Any, send: Any) -> None:
        method, session = message.get("method"), headers.get("mcp-session-id")
        if method == "initialize":
            session = secrets.token_hex(8)
            self.sessions[session] = self._listener()
            self.session_capabilities[session] = message["params"]["capabilities"]
        elif session not in self.sessions:
            return await _error(send, 404, message.get("id"), -32001, "Session not found")
        if method is None or "id" not in message:
            self._heard(session or "", message)
            return await _reply(send, 202)
        call = Call("legacy", message, headers, _nothing, declared=self.session_capabilities[session])
        return await self._run(call, session, receive, send)

    async def _run(self, call: Call, session: str | None, receive: Any, send: Any) -> None:
        """Answer with JSON, or with a stream as soon as something has to be said first."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        call.say = queue.put
        own = session is not None and self.script.behaviour.pushes == "session"
        push = self.sessions[session].put if own and session in self.sessions else queue.put
        call.ask = (lambda method, params: self._ask(session, push, method, params)) if session else None
        handler = self._spawn(self.script.answer(call))
        gone = self._spawn(_disconnected(receive))
        named = {"mcp-session-id": session} if session and call.message["method"] == "initialize" else {}
        stream = _Stream(send, named)
        try:
            if self.script.behaviour.answers == "sse":
                await stream.open()
            while not handler.done() or not queue.empty():
                said = self._spawn(queue.get())
                await asyncio.wait({handler, gone, said}, return_when=asyncio.FIRST_COMPLETED)
                if said.done():
                    await stream.say(said.result())
                else:
                    said.cancel()
                if gone.done() and not handler.done():
                    if call.era == "modern":  # in the older eras a disconnect is explicitly not a cancellation
                        self.script.cancelled.append(call.message["id"])
                    return
            await self._finish(call, handler, stream, send, named)
        finally:
            handler.cancel()
            gone.cancel()

    async def _finish(self, call: Call, handler: asyncio.Task[Any], stream: _Stream, send: Any, named: Any) -> None:
        try:
            response = handler.result()
        except Fault as fault:
            if fault.kind == "resume":
                return await self._resume_later(call, stream)
            return await _misbehave(fault, call, send)
        if stream.is_open:
            await stream.say(response)
            return await stream.close()
        code = response.get("error", {}).get("code")
        status = {-32601: 404, -32602: 400}.get(code, 200) if call.era == "modern" else 200
        return await _reply(send, status, json.dumps(response).encode(), {"content-type": "application/json", **named})

    async def _resume_later(self, call: Call, stream: _Stream) -> None:
        event = f"event-{secrets.token_hex(4)}"
        text = {"content": [{"type": "text", "text": "resumed"}]}
        self._resumable[event] = {"jsonrpc": "2.0", "id": call.message["id"], "result": text}
        await stream.say({"event": event})
        await stream.close()

    async def _ask(self, session: str, say: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
        name = f"ask-{secrets.token_hex(4)}"
        self._asks[f"{session}/{name}"] = future = asyncio.get_running_loop().create_future()
        await say({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
        return await future

    def _heard(self, session: str, message: dict[str, Any]) -> None:
        if message.get("method") == "notifications/cancelled":
            self.script.cancelled.append(message["params"]["requestId"])
        future = self._asks.pop(f"{session}/{message.get('id')}", None)
        if future is not None and not future.done():
            future.set_result(message.get("result") or {"refused": message.get("error", {}).get("code")})

    # Streams that stay open.

    def _listener(self) -> asyncio.Queue[dict[str, Any] | None]:
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.script.changed.append(queue.put_nowait)
        return queue

    async def _stream(self, queue: asyncio.Queue[dict[str, Any] | None], receive: Any, send: Any) -> None:
        stream = _Stream(send, {})
        await stream.open()
        gone = self._spawn(_disconnected(receive))
        try:
            while True:
                said = self._spawn(queue.get())
                await asyncio.wait({gone, said}, return_when=asyncio.FIRST_COMPLETED)
                if not said.done():
                    said.cancel()
                    break
                if said.result() is None:
                    await stream.close()
                    break
                await stream.say(said.result())
        finally:
            gone.cancel()

    async def _listen(self, message: dict[str, Any], receive: Any, send: Any) -> None:
        queue = self._listener()
        self.script.requests.append(("subscriptions/listen", {}))
        asked = message["params"]["notifications"]
        ack = {"notifications": asked, "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]}}
        queue.put_nowait({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": ack})
        try:
            await self._stream(queue, receive, send)
        finally:
            self.script.changed.remove(queue.put_nowait)

    # HTTP+SSE.

    async def _sse(self, receive: Any, send: Any) -> None:
        session = secrets.token_hex(8)
        self.sessions[session] = queue = self._listener()
        queue.put_nowait({"endpoint": f"/messages?session={session}"})
        try:
            await self._stream(queue, receive, send)
        finally:
            self.sessions.pop(session, None)
            self.script.changed.remove(queue.put_nowait)

    async def _sse_post(self, scope: Any, headers: dict[str, str], receive: Any, send: Any) -> None:
        session = scope["query_string"].decode().removeprefix("session=")
        message = json.loads(await _body(receive))
        queue = self.sessions.get(session)
        if queue is None:
            return await _reply(send, 404)
        if message.get("method") == "initialize":
            self.session_capabilities[session] = message["params"]["capabilities"]
        if "method" in message and "id" in message:
            call = Call("legacy", message, headers, queue.put, declared=self.session_capabilities[session])
            self._spawn(self._sse_answer(session, call, queue))
        else:
            self._heard(session, message)
        return await _reply(send, 202)

    async def _sse_answer(self, session: str, call: Call, queue: asyncio.Queue[dict[str, Any] | None]) -> None:
        call.ask = lambda method, params: self._ask(session, queue.put, method, params)
        try:
            await queue.put(await self.script.answer(call))
        except Fault as fault:
            if fault.kind == "garbage":
                await queue.put({"garbage": True})
            elif fault.kind == "wrong_id":
                await queue.put({"jsonrpc": "2.0", "id": 987654, "result": {}})
            else:
                await queue.put(None)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        return task


class _Stream:
    def __init__(self, send: Any, headers: dict[str, str]) -> None:
        self._send = send
        self._headers = headers
        self.is_open = False

    async def open(self) -> None:
        if not self.is_open:
            self.is_open = True
            await _start(self._send, 200, {"content-type": "text/event-stream", **self._headers})

    async def say(self, message: dict[str, Any] | None) -> None:
        await self.open()
        if message and "endpoint" in message:
            event = f"event: endpoint\r\ndata: {message['endpoint']}\r\n\r\n"
        elif message and "event" in message:
            event = f"id: {message['event']}\nretry: 10\ndata:\n\n"
        elif message and "garbage" in message:
            event = "event: message\ndata: {nonsense\n\n"
        else:
            event = f"event: message\ndata: {json.dumps(message)}\n\n"
        await self._send({"type": "http.response.body", "body": event.encode(), "more_body": True})

    async def close(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})


async def _misbehave(fault: Fault, call: Call, send: Any) -> None:
    if fault.kind == "wrong_id":
        body = json.dumps({"jsonrpc": "2.0", "id": 987654, "result": {"content": []}}).encode()
        return await _reply(send, 200, body, {"content-type": "application/json"})
    if fault.kind == "garbage":
        return await _reply(send, 200, b'{"jsonrpc": nonsense', {"content-type": "application/json"})
    if fault.kind == "cut":
        body = json.dumps({"jsonrpc": "2.0", "id": call.message["id"], "result": {"content": []}}).encode()
        await _start(send, 200, {"content-type": "application/json", "content-length": str(len(body))})
        await send({"type": "http.response.body", "body": body[: int(fault.amount)], "more_body": True})
        await asyncio.sleep(0.01)
    # uvicorn gives an app no way to drop the connection; its cycle object knows the transport.
    send.__self__.transport.abort()
    return None


async def _start(send: Any, status: int, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def _reply(send: Any, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
    await _start(send, status, {"content-length": str(len(body)), **(headers or {})})
    await send({"type": "http.response.body", "body": body})


async def _error(send: Any, status: int, id: Any, code: int, message: str, data: Any = None) -> None:
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    body = json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode()
    await _reply(send, status, body, {"content-type": "application/json"})


async def _body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    return body


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing(message: dict[str, Any]) -> None:
    del message


@contextlib.asynccontextmanager
async def faulty_upstream(
    tools: list[Tool] | None = None, behaviour: Behaviour | None = None, **changes: Any
) -> AsyncIterator[FaultyUpstream]:
    """A running upstream; `changes` are fields of `Behaviour`."""
    settled = Behaviour(**{**(behaviour or Behaviour()).__dict__, **changes})
    upstream = FaultyUpstream(Script(tools if tools is not None else [Tool("echo")], settled))
    await upstream.start()
    try:
        yield upstream
    finally:
        await upstream.stop()
