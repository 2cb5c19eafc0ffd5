"""The one way out: pooled HTTP/1.1 connections that every outgoing request to an upstream travels on.

Knows sockets, TLS, keep-alive, sizes and when a request may already have been read by the other side. Deliberately does
not know MCP, JSON, redirects, cookies or compression (none is asked for), and never repeats a request: whether that is
safe is for the caller to say. `connect` is the only place that dials, and where the guard against forbidden addresses
will stand.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar, cast
from urllib.parse import urlsplit

import httptools
import msgspec

from toolcrib import errors
from toolcrib.heads import Head

MAX_HEAD_BYTES: Final = 64 * 1024
STREAM_BUFFER_BYTES: Final = 256 * 1024
MAX_IDLE_CONNECTIONS: Final = 64
FRESH_S: Final = 4.0
"""Common servers drop idle connections after 5 s; a request that must not be lost takes none older than this."""
KEPT_S: Final = 55.0

P = TypeVar("P", bound=asyncio.Protocol)


@dataclass(frozen=True, slots=True)
class Origin:
    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """Where this http(s) URL points; ValueError when it is not one."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not an http(s) URL")
        if parts.username is not None or parts.password is not None:
            raise ValueError("credentials do not belong into a URL")
        return cls(parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))

    @property
    def host_header(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.scheme == "https" else 80) else f"{name}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_header}"


async def connect(
    origin: Origin, protocol: Callable[[], P], *, source: str, timeout_s: float, tls: ssl.SSLContext | None
) -> P:
    """Dial; every failure is an `Unreachable` (nothing sent) that says what to look at."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, made = await loop.create_connection(
                protocol, origin.host, origin.port, ssl=tls, server_hostname=origin.host if tls else None
            )
    except TimeoutError:
        what = f"no connection within {timeout_s:g} s"
        raise _not_reached(source, origin, what, "Is a firewall in between?") from None
    except ssl.SSLCertVerificationError as error:
        raise _not_reached(source, origin, f"its certificate is not trusted: {error.verify_message}", None) from error
    except ssl.SSLError as error:
        raise _not_reached(source, origin, f"TLS failed: {error.reason}", "Is this an https port?") from error
    except socket.gaierror as error:
        raise _not_reached(source, origin, "its host name cannot be resolved", "Check the URL and DNS.") from error
    except ConnectionRefusedError as error:
        raise _not_reached(source, origin, "the connection was refused", "Is it running, on that port?") from error
    except OSError as error:
        raise _not_reached(source, origin, error.strerror or type(error).__name__, None) from error
    return made


def _not_reached(source: str, origin: Origin, what: str, hint: str | None) -> errors.Unreachable:
    return errors.Unreachable(f"{source!r} at {origin} cannot be reached: {what}.", source=source, hint=hint)


class HttpAnswer(msgspec.Struct, eq=False):
    """One answer: `body` when it is whole; an event stream is handed over at its headers and read piece by piece.

    It is ready when the body is whole, the headers promise an event stream, or nothing will come any more.
    """

    _connection: HttpConnection
    limit: int
    status: int = 0
    headers: dict[str, str] = {}
    streamed: bool = False
    is_ready: bool = False
    on_ready: Callable[[], None] | None = None
    _parts: list[bytes] = []
    _size: int = 0
    _complete: bool = False
    _error: Exception | None = None
    _wake: asyncio.Future[None] | None = None

    async def arrival(self) -> None:
        """Until it is ready, or the error that says why it never will be."""
        if not self.is_ready:
            ready = self._connection.loop.create_future()
            self.on_ready = partial(_fulfil, ready)
            await ready
        if self._error is not None and not self.streamed:
            raise self._error

    @property
    def body(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    async def read(self) -> bytes:
        """The next piece of a stream; empty at its end."""
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self._complete:
                return b""
            self._wake = self._connection.loop.create_future()
            await self._wake
        piece = self.body
        self._parts.clear()
        if not self._complete:
            self._connection.resume()
        return piece

    def close(self) -> None:
        """No more of this answer is wanted; closing the connection is what tells the other side."""
        if not self._complete and self._error is None:
            self._connection.abort()

    def began(self) -> bool:
        return self.status != 0

    def plain_body(self) -> bytes | None:
        """The body of a 200 that came whole, and not piece by piece."""
        if not self._complete or self._error is not None or self.status != 200 or self.streamed:
            return None
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def has_length(self) -> bool:
        return "content-length" in self.headers and "transfer-encoding" not in self.headers

    # What the connection tells it.

    def opened(self, status: int, source: str) -> None:
        self.status = status
        length = self.headers.get("content-length", "0")
        if length.isdigit() and int(length) > self.limit:
            raise too_large(source, self.limit)
        if self.headers.get("content-encoding", "identity") != "identity":
            raise errors.BadAnswer(f"{source!r} compressed its answer although it was asked not to.", source=source)
        if self.headers.get("content-type", "").lower().startswith("text/event-stream"):
            self.streamed = True
            self._resolve()

    def took(self, piece: bytes, source: str) -> bool:
        """Keep a piece; true when the reader lags behind and the socket should wait."""
        self._parts.append(piece)
        self._size += len(piece)
        if not self.streamed:
            if self._size > self.limit:
                raise too_large(source, self.limit)
            return False
        self._rouse()
        return sum(map(len, self._parts)) > STREAM_BUFFER_BYTES

    def completed(self) -> None:
        self._complete = True
        self._resolve()
        self._rouse()

    def came_whole(self, headers: dict[str, str], body: bytes) -> None:
        """A 200 with a head that was read before, all of it at once."""
        self.status, self.headers, self._complete, self.is_ready = 200, headers, True, True
        self._parts.append(body)
        then, self.on_ready = self.on_ready, None
        if then is not None:
            then()

    def failed(self, error: Exception) -> None:
        if self._complete or self._error is not None:
            return
        self._error = error
        self._resolve()
        self._rouse()

    def _resolve(self) -> None:
        if not self.is_ready:
            self.is_ready = True
            then, self.on_ready = self.on_ready, None  # it may lead back here: no circle is left behind
            if then is not None:
                then()

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


async def whole(answer: HttpAnswer) -> HttpAnswer:
    """The answer once it is ready; whoever stops waiting for it closes it."""
    try:
        await answer.arrival()
    except BaseException:
        answer.close()
        raise
    return answer


def _fulfil(ready: asyncio.Future[None]) -> None:
    if not ready.done():  # else nobody waits any more
        ready.set_result(None)


def too_large(source: str, limit: int) -> errors.AnswerTooLarge:
    return errors.AnswerTooLarge(f"{source!r} answered with more than {limit} bytes.", source=source)


class HttpConnection(asyncio.Protocol):
    """One keep-alive connection; one request in flight. A response byte nobody asked for closes it."""

    def __init__(self, pool: HttpPool) -> None:
        self.loop = asyncio.get_running_loop()  # remembered: before Python 3.12 asking costs a system call
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._answer: HttpAnswer | None = None
        self._head_bytes = 0
        self._head: Head | None = None
        self._until_eof = False
        self._transport: asyncio.Transport
        self._poller: select.poll
        self.alive = False
        self.idle_since = 0.0
        self.kept_s = KEPT_S

    # asyncio tells us:

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._poller = select.poll()
        self._poller.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self.alive = True

    def data_received(self, data: bytes) -> None:
        answer, head = self._answer, self._head
        if answer is None:
            return self.abort()
        body = head.body_of(data) if head is not None and not self._head_bytes else None
        if head is None or body is None or len(body) > answer.limit:
            return self._read(answer, data)
        self._answer = None
        self._pool.keep(self)
        return answer.came_whole(head.meaning, body)

    def _read(self, answer: HttpAnswer, data: bytes) -> None:
        is_first = not self._head_bytes
        if not answer.began():
            if self._head_bytes > MAX_HEAD_BYTES:
                return self._fail(self._bad("sent more than 64 KiB of headers"))
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except errors.SourceError as error:
            self._fail(error)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self._fail(cause if isinstance(cause, errors.SourceError) else self._bad("sent headers we cannot read"))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(self._bad("did not answer in HTTP/1.1"))
        is_kept = self.alive and not self._transport.is_closing()
        if is_first and is_kept and answer.plain_body() is not None and answer.has_length():
            self._head = Head.of(data, answer.headers)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        self._pool.forget(self)
        answer = self._answer
        if answer is not None and self._until_eof and exc is None:
            self._answer = None
            answer.completed()
        elif answer is not None:
            began = answer.began()
            self._fail(self._pool.broken("in the middle of its answer" if began else "before it answered"))

    # The parser tells us:

    def on_message_begin(self) -> None:
        if self._answer is not None:
            self._answer.headers.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is not None:
            headers, key = self._answer.headers, name.decode("latin-1").lower()
            if len(headers) < 200:
                headers[key] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._answer is None or status < 200:
            return
        headers = self._answer.headers
        chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self._until_eof = not chunked and "content-length" not in headers and status not in (204, 304)
        self._answer.opened(status, self._pool.source)

    def on_body(self, body: bytes) -> None:
        if self._answer is not None and self._answer.took(body, self._pool.source):
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer is None or not answer.began():
            return
        self._answer = None
        if keep_alive := answer.headers.get("keep-alive"):
            self._learn_patience(keep_alive)
        if self._parser.should_keep_alive() and self.alive and not self._transport.is_closing():
            self._transport.resume_reading()
            self._pool.keep(self)
        else:
            self._transport.close()
        answer.completed()

    # The pool tells us:

    def ask(self, request: bytes, limit: int) -> HttpAnswer:
        self._answer = answer = HttpAnswer(self, limit)
        self._head_bytes = 0
        self._until_eof = False
        self._transport.write(request)
        return answer

    def is_quiet(self) -> bool:
        """An idle connection with something to read has been closed (or worse) by the other side.

        Asked of the system: what the event loop knows may be older, and a call would be lost (seen, one in eight, where
        a server closes without a word).
        """
        return self.alive and not self._transport.is_closing() and not self._poller.poll(0)

    def resume(self) -> None:
        if self.alive:
            self._transport.resume_reading()

    def abort(self) -> None:
        self.alive = False
        self._pool.forget(self)
        self._transport.abort()

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.failed(error)
        self.abort()

    def _bad(self, what: str) -> errors.BadAnswer:
        return errors.BadAnswer(f"{self._pool.source!r} {what}.", source=self._pool.source)

    def _learn_patience(self, keep_alive: str) -> None:
        for part in keep_alive.split(","):
            name, _, seconds = part.strip().partition("=")
            if name.lower() == "timeout" and seconds.isascii() and seconds.isdigit() and len(seconds) < 10:
                self.kept_s = max(0.0, min(KEPT_S, int(seconds) - 1.0))


class HttpPool:
    """Keep-alive connections to one origin, for one credential. `send` neither waits for a slot nor repeats."""

    def __init__(self, origin: Origin, *, source: str, connect_s: float, tls: ssl.SSLContext | None) -> None:
        self.origin = origin
        self.source = source
        self._connect_s = connect_s
        self._tls = tls if origin.scheme == "https" else None
        self._idle: deque[HttpConnection] = deque()
        self._open: set[HttpConnection] = set()

    async def send(self, request: bytes, *, limit: int, max_idle_s: float = FRESH_S) -> HttpAnswer:
        """Write one request; `max_idle_s` is how long a reused connection may have been idle."""
        connection = self.take(max_idle_s) or await self._dial()
        return await whole(connection.ask(request, limit))

    def keep(self, connection: HttpConnection) -> None:
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        if len(self._idle) > MAX_IDLE_CONNECTIONS:
            self._idle.popleft().abort()

    def forget(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def broken(self, when: str) -> errors.Unreachable:
        message = f"{self.source!r} at {self.origin} closed the connection {when}."
        return errors.Unreachable(message, sent=True, source=self.source)

    def close_idle(self, *, older_than_s: float = 0.0) -> None:
        now = time.monotonic()
        for connection in [c for c in self._idle if now - c.idle_since >= min(older_than_s, c.kept_s)]:
            connection.abort()

    async def aclose(self) -> None:
        for connection in list(self._open):
            connection.abort()
        await asyncio.sleep(0)

    def take(self, max_idle_s: float) -> HttpConnection | None:
        """An open connection that nobody uses; whoever takes it asks it something."""
        now = time.monotonic()
        while self._idle:
            connection = self._idle.pop()
            age = now - connection.idle_since
            if age <= max_idle_s and age <= connection.kept_s and connection.is_quiet():
                return connection
            connection.abort()
        return None

    async def _dial(self) -> HttpConnection:
        connection = await connect(
            self.origin,
            lambda: HttpConnection(self),
            source=self.source,
            timeout_s=self._connect_s,
            tls=self._tls,
        )
        self._open.add(connection)
        return connection


def trust_store() -> ssl.SSLContext:
    """Building one costs tens of milliseconds (`contract/mcp.md` §4): make it once, share it everywhere."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def head(method: str, path: str, origin: Origin, headers: Mapping[str, str]) -> bytes:
    """Request line and headers, without the closing blank line; values that would break the framing are refused."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {origin.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any(c in line for line in lines for c in "\r\n\0"):
        raise ValueError("a header may not contain a line break")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")
