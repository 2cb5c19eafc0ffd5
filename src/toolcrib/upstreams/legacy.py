"""The session era (2025-11-25 and before) over streamable HTTP: initialize, a session id, pushed requests.

A request that the upstream pushes on a call's own stream belongs to exactly that call. Deliberately never repeats a
request: a session the upstream has forgotten is `Stale`, and the link above opens the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass
from typing import Final

from toolcrib import egress, errors
from toolcrib.domain import JsonObject
from toolcrib.upstreams import messages
from toolcrib.upstreams.courtesies import Courtesies
from toolcrib.upstreams.dialogue import SHARED, Ask, Lane, Stale
from toolcrib.upstreams.endpoint import Cut, Endpoint
from toolcrib.upstreams.events import EventParser
from toolcrib.upstreams.turn import Report, Turn, answer_push
from toolcrib.upstreams.upstream import Background, Complete, Outcome

MAX_EVENT_BYTES: Final = 1024 * 1024
RESUME_S: Final = (0.0, 10.0)
MAX_RESUMES: Final = 100
_SESSION_CODES: Final = frozenset({-32000, -32001, -32600})
_OTHER_ERA: Final = frozenset({-32020, -32021, -32022})


@dataclass(frozen=True, slots=True)
class Opening:
    """What a dialogue over HTTP is opened with. `nobody` stands in where no client is asking."""

    endpoint: Endpoint
    lane: Lane
    capabilities: JsonObject
    report: Report
    nobody: Background


class LegacySession:
    """One session. Its capabilities were declared at initialize, so it serves only the lane that declared them."""

    def __init__(self, opening: Opening, hello: messages.Hello, session: str) -> None:
        self.hello = hello
        self._endpoint = opening.endpoint
        self._lane = opening.lane
        self._report = opening.report
        self._nobody = opening.nobody
        self._session = session
        self._headers = _headers(hello.version, session)
        self._ids = itertools.count(2)
        self._turns: dict[int, Turn] = {}
        self._uris: frozenset[str] = frozenset()
        self._courtesies = Courtesies()
        self._over = False
        self._listening: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        return not self._over

    async def request(self, ask: Ask) -> Outcome:
        number, source = next(self._ids), self._endpoint.source
        turn = Turn(number, ask.exchange, source, self._report, self._say)
        self._turns[number] = turn
        try:
            return await self._exchange(ask, turn)
        except asyncio.CancelledError:
            self._courtesies.soon(self._say(messages.cancelled(number)))
            raise
        finally:
            del self._turns[number]
            turn.close()

    def send(self, tool: str, arguments: bytes, limit: int, *, resendable: bool) -> None:
        """Never: servers of this era mostly answer in events."""
        del tool, arguments, limit, resendable

    async def watch(self) -> bool:
        """The session's own stream, taken up again where it broke off."""
        last: str | None = None
        while True:
            answer = await self._endpoint.get(self._headers + _last_event(last))
            try:
                if answer.status == 404 and self._session:
                    self._over = True
                    return True
                if answer.status != 200 or not answer.streamed:
                    return False
                parser = EventParser(self._endpoint.source, MAX_EVENT_BYTES)
                while piece := await answer.read():
                    for event in parser.feed(piece):
                        last = event.id or last
                        if event.data:
                            await self._heard(messages.read(event.data, self._endpoint.source))
            finally:
                answer.close()
            if last is None:
                return True
            await asyncio.sleep(1.0)

    async def follow(self, uris: frozenset[str]) -> None:
        for method, changed in (("unsubscribe", self._uris - uris), ("subscribe", uris - self._uris)):
            for uri in sorted(changed):
                await self.request(self._own(f"resources/{method}", {"uri": uri}))
        self._uris = uris

    async def introduce(self) -> None:
        """The end of the handshake: we are initialized, and this is how much we want to hear."""
        await self._say(messages.notification("notifications/initialized"))
        if self._lane.log_level and "logging" in self.hello.capabilities:
            await self.request(self._own("logging/setLevel", {"level": self._lane.log_level}))
        if self._lane != SHARED:
            self._listening = asyncio.create_task(self._listen())

    async def aclose(self) -> None:
        self._over = True
        if self._listening is not None:
            self._listening.cancel()
        if self._session:
            self._courtesies.soon(self._farewell())
        await self._courtesies.aclose()

    async def _listen(self) -> None:
        """Some servers push on the session's stream what belongs to a call; a lane of its own hears that as well."""
        with contextlib.suppress(errors.SourceError):
            await self.watch()

    async def _exchange(self, ask: Ask, turn: Turn) -> Outcome:
        body = messages.request(turn.id, ask.method, messages.legacy_params(ask.params, ask.exchange, turn.id))
        idle_s = egress.KEPT_S if ask.resendable else egress.FRESH_S
        answer = await self._endpoint.post(self._headers, body, limit=ask.limit, max_idle_s=idle_s)
        if answer.status != 200:
            answer.close()
            raise self._refusal(answer)
        outcome = await self._endpoint.settle(answer, turn, ask.limit)
        for _ in range(MAX_RESUMES):
            if not isinstance(outcome, Cut):
                return outcome
            outcome = await self._resume(outcome, turn, ask.limit)
        raise self._lost()

    async def _resume(self, cut: Cut, turn: Turn, limit: int) -> Outcome | Cut:
        """Servers may close a stream early and be asked for the rest of it (SEP-1699)."""
        if cut.last_event_id is None:
            raise self._lost()
        low, high = RESUME_S
        await asyncio.sleep(max(low, min(high, (cut.retry_ms if cut.retry_ms is not None else 1000) / 1000)))
        answer = await self._endpoint.get(self._headers + _last_event(cut.last_event_id))
        if answer.status != 200 or not answer.streamed:
            answer.close()
            raise self._lost()
        after = await self._endpoint.follow(answer, turn, limit)
        return Cut(after.last_event_id or cut.last_event_id, after.retry_ms) if isinstance(after, Cut) else after

    async def _heard(self, message: messages.Message) -> None:
        """A message on the session's own stream. Only when one call alone is in flight can it be meant for that."""
        source = self._endpoint.source
        alone = next(iter(self._turns.values())) if len(self._turns) == 1 and self._lane != SHARED else None
        if (changed := messages.change(message, source)) is not None:
            self._report(changed)
        elif message.method == "notifications/progress":
            token = messages.read_object(message.params, source).get("progressToken")
            if isinstance(token, int) and (turn := self._turns.get(token)) is not None:
                await turn.take(message)
        elif message.method is not None and alone is not None:
            await alone.take(message)
        elif message.method is not None and message.id is not None:
            await self._say(await answer_push(message.id, message, None, source))

    async def _say(self, message: bytes) -> None:
        """A notification or an answer of ours; the upstream acknowledges it with an empty 202."""
        answer = await self._endpoint.post(self._headers, message, limit=MAX_EVENT_BYTES)
        answer.close()

    async def _farewell(self) -> None:
        answer = await self._endpoint.delete(self._headers)
        answer.close()

    def _own(self, method: str, params: JsonObject) -> Ask:
        return Ask(method, params, self._nobody, self._endpoint.limits.answer_bytes)

    def _refusal(self, answer: egress.HttpAnswer) -> errors.SourceError | Stale:
        refusal = self._endpoint.refusal(answer)
        code = refusal.rpc_code if isinstance(refusal, errors.UpstreamRefused) else None
        if answer.status not in (400, 404, 405, 406, 415) or isinstance(refusal, errors.AuthFailed):
            return refusal
        if code in _OTHER_ERA:
            return Stale(refusal, era=True)
        if self._session and (code is None or code in _SESSION_CODES):
            self._over = True
            return Stale(refusal)
        return Stale(refusal, era=True) if code is None else refusal

    def _lost(self) -> errors.Unreachable:
        source = self._endpoint.source
        return errors.Unreachable(f"{source!r} ended the stream without an answer.", sent=True, source=source)


async def initialize(opening: Opening) -> LegacySession | egress.HttpAnswer:
    """A new session, or the answer that refused it."""
    endpoint, source = opening.endpoint, opening.endpoint.source
    body = messages.request(1, "initialize", messages.initialize_params(opening.capabilities))
    answer = await endpoint.post(b"", body, limit=endpoint.limits.answer_bytes)
    if answer.status != 200:
        answer.close()
        return answer
    outcome = await endpoint.settle(answer, Turn(1, opening.nobody, source, opening.report, None), MAX_EVENT_BYTES)
    if not isinstance(outcome, Complete):
        raise errors.BadAnswer(f"{source!r} did not answer initialize.", source=source)
    hello = messages.hello_from_initialize(messages.read_object(outcome.result, source), source)
    name = answer.headers.get("mcp-session-id", "")
    if not (name.isascii() and name.isprintable()):
        raise errors.BadAnswer(f"{source!r} chose a session id that no header can carry.", source=source)
    session = LegacySession(opening, hello, name)
    await session.introduce()
    return session


def _headers(version: str, session: str) -> bytes:
    lines = f"mcp-protocol-version: {version}\r\n" + (f"mcp-session-id: {session}\r\n" if session else "")
    return lines.encode("ascii")


def _last_event(id: str | None) -> bytes:
    return f"last-event-id: {id}\r\n".encode("latin-1", "ignore") if id and id.isprintable() else b""
