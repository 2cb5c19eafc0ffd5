"""Who hears of changes: one hub, one feed per open stream, events as level triggers ("look again if you care").

A feed holds each pending event once, so a slow reader costs a bounded set, and a burst arrives as one. Knows neither
era: the listeners frame what they take from their feed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from toolcrib.catalog.snapshot import Snapshot

Kind = Literal["tools", "resources", "prompts", "resource"]
_DEBOUNCE_S = 0.05
_MOST_PENDING = 10_000


@dataclass(frozen=True, slots=True)
class Event:
    """A list changed, or (kind `resource`) the content behind one URI did."""

    kind: Kind
    uri: str | None = None

    @property
    def method(self) -> str:
        return "notifications/resources/updated" if self.uri else f"notifications/{self.kind}/list_changed"


class Feed:
    """The events of one toolbox for one listener, until it is closed."""

    def __init__(self) -> None:
        self._pending: dict[Event, None] = {}
        self._wake = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        if len(self._pending) >= _MOST_PENDING:
            self._pending.pop(next(iter(self._pending)))
        self._pending[event] = None
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    async def events(self, idle_s: float) -> AsyncIterator[Event | None]:
        """Events as they come; None after each `idle_s` of silence; ends when the hub closes."""
        while not self._closed:
            try:
                async with asyncio.timeout(idle_s):
                    await self._wake.wait()
            except TimeoutError:
                yield None
                continue
            self._wake.clear()
            await asyncio.sleep(_DEBOUNCE_S)  # let a burst gather
            pending, self._pending = self._pending, {}
            for event in pending:
                yield event


class Changes:
    """The hub. Keyed by (project, toolbox): a promotion changes what the default endpoint shows."""

    def __init__(self) -> None:
        self._feeds: dict[tuple[str, str], set[Feed]] = defaultdict(set)
        self._closed = False

    def open(self, project: str, toolbox: str) -> Feed:
        feed = Feed()
        self._feeds[project, toolbox].add(feed)
        if self._closed:
            feed.close()
        return feed

    def leave(self, project: str, toolbox: str, feed: Feed) -> None:
        self._feeds[project, toolbox].discard(feed)
        if not self._feeds[project, toolbox]:
            del self._feeds[project, toolbox]

    def publish(self, project: str, toolbox: str, *events: Event) -> None:
        for feed in self._feeds.get((project, toolbox), ()):
            for event in events:
                feed.put(event)

    def publish_lists(self, project: str, toolbox: str) -> None:
        """The toolbox itself changed: every list may be another one now."""
        self.publish(project, toolbox, Event("tools"), Event("resources"), Event("prompts"))

    def publish_snapshot(self, key: tuple[str, str, int], before: Snapshot, after: Snapshot) -> None:
        """A catalog changed: say which of its lists did."""
        differs: list[tuple[Kind, bool]] = [
            ("tools", before.tools_digest != after.tools_digest),
            ("resources", before.resources_digest != after.resources_digest),
            ("prompts", before.prompts_digest != after.prompts_digest),
        ]
        self.publish(key[0], key[1], *(Event(kind) for kind, changed in differs if changed))

    def publish_resource(self, project: str, uri: str) -> None:
        """The content behind a URI changed; whoever in the project subscribed to it will want to know."""
        for feed_project, toolbox in list(self._feeds):
            if feed_project == project:
                self.publish(project, toolbox, Event("resource", uri))

    def publish_skill(self, project: str, toolboxes: Iterable[str], uris: Sequence[str]) -> None:
        """A skill changed: the list of resources, and what its URIs read, in the toolboxes that refer to it."""
        for toolbox in toolboxes:
            self.publish(project, toolbox, Event("resources"), *(Event("resource", uri) for uri in uris))

    def close(self) -> None:
        self._closed = True
        for feeds in self._feeds.values():
            for feed in feeds:
                feed.close()
