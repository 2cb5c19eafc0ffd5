"""Which protocol an HTTP address speaks: asked once, remembered, asked again when a refusal casts doubt on it.

Modern first; the body of a refusal is read before falling back (`contract/mcp.md` §2.3). Remembered per address without
its query, because one origin may host several upstreams. An outage or a refused credential is never a verdict.
"""

from __future__ import annotations

from typing import Any, Literal, cast
from urllib.parse import urlsplit

from toolcrib import egress, errors
from toolcrib.domain import JsonObject
from toolcrib.protocol import UNSUPPORTED_VERSION
from toolcrib.upstreams import legacy, messages, modern
from toolcrib.upstreams.dialogue import Dialogue
from toolcrib.upstreams.legacy import LegacySession, Opening
from toolcrib.upstreams.modern import Modern
from toolcrib.upstreams.sse import open_sse
from toolcrib.upstreams.turn import Turn
from toolcrib.upstreams.upstream import Complete

Verdict = Literal["modern", "legacy", "sse"]


class Eras:
    """Verdicts by address; shared by everything that goes there."""

    def __init__(self) -> None:
        self._known: dict[str, Verdict] = {}

    def known(self, url: str) -> Verdict | None:
        return self._known.get(_address(url))

    def forget(self, url: str) -> None:
        self._known.pop(_address(url), None)

    async def open(self, opening: Opening) -> Dialogue:
        """A dialogue in whichever era this address speaks; the verdict is kept only when one came about."""
        dialogue, verdict = await self._negotiate(opening)
        self._known[_address(opening.endpoint.url)] = verdict
        return dialogue

    async def _negotiate(self, opening: Opening) -> tuple[Dialogue, Verdict]:
        known = self.known(opening.endpoint.url)
        try:
            if known == "legacy" and isinstance(session := await legacy.initialize(opening), LegacySession):
                return session, "legacy"
            if known == "sse":
                return await open_sse(opening), "sse"
        except (errors.BadAnswer, errors.UpstreamRefused):
            self.forget(opening.endpoint.url)
        return await _ladder(opening)


async def _ladder(opening: Opening) -> tuple[Dialogue, Verdict]:
    """Newest first."""
    found = await _modern(opening)
    if found is not None:
        return found, "modern"
    session = await legacy.initialize(opening)
    if isinstance(session, LegacySession):
        return session, "legacy"
    if not _may_be_sse(opening, session):
        raise opening.endpoint.refusal(session)
    return await open_sse(opening), "sse"


async def _modern(opening: Opening) -> Modern | None:
    """A modern dialogue, or None when nothing says that this is a modern upstream."""
    endpoint, source = opening.endpoint, opening.endpoint.source
    answer = await modern.discover(endpoint, opening.nobody)
    if answer.status != 200:
        answer.close()
        return _consider(opening, answer)
    try:
        turn = Turn(0, opening.nobody, source, opening.report, None)
        outcome = await endpoint.settle(answer, turn, endpoint.limits.answer_bytes)
    except errors.UpstreamRefused as refusal:
        return _consider_error(refusal)
    result = messages.read_object(outcome.result, source) if isinstance(outcome, Complete) else {}
    if not messages.speaks_modern(result):
        return None
    return Modern(endpoint, messages.hello_from_discover(result), opening.report, opening.nobody)


def _consider(opening: Opening, answer: egress.HttpAnswer) -> None:
    """Return when this refusal leaves room for an older era; raise when it does not."""
    refusal = opening.endpoint.refusal(answer)
    if isinstance(refusal, errors.UpstreamRefused):
        return _consider_error(refusal)
    if isinstance(refusal, errors.BadAnswer) and answer.status >= 400:
        return None
    raise refusal


def _consider_error(refusal: errors.UpstreamRefused) -> None:
    data = cast("JsonObject", refusal.data) if isinstance(refusal.data, dict) else {}
    supported: Any = data.get("supported")
    if refusal.rpc_code != UNSUPPORTED_VERSION or not isinstance(supported, list):
        return
    if not any(version in messages.LEGACY_VERSIONS for version in cast("list[object]", supported)):
        message = f"{refusal.source!r} speaks no protocol version that is known here."
        raise errors.BadAnswer(message, source=refusal.source) from refusal


def _may_be_sse(opening: Opening, answer: egress.HttpAnswer) -> bool:
    """HTTP+SSE servers know no POST at this address, and say so without JSON-RPC."""
    return answer.status in (400, 404, 405, 406, 415, 501) and opening.endpoint.rpc_error(answer) is None


def _address(url: str) -> str:
    return urlsplit(url)._replace(query="", fragment="").geturl()
