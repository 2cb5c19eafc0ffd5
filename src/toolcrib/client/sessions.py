"""Tool names kept per session, for a bounded number of sessions: what each has revealed.

The longest unused session is forgotten first: it simply searches again. Nothing here knows what a tool is, and no
session can see another's reveals.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from threading import Lock

from toolcrib.errors import InvalidPayload

_NOTHING: frozenset[str] = frozenset()


class SessionNames:
    def __init__(self, max_sessions: int) -> None:
        if max_sessions < 1:
            raise InvalidPayload("max_sessions must be at least 1", param="max_sessions")
        self.max_sessions = max_sessions
        self._by_session: OrderedDict[Hashable, frozenset[str]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._by_session)

    def of(self, session: Hashable) -> frozenset[str]:
        with self._lock:
            revealed = self._by_session.get(session)
            if revealed is None:
                return _NOTHING
            self._by_session.move_to_end(session)
            return revealed

    def add(self, session: Hashable, names: Iterable[str]) -> None:
        with self._lock:
            self._put(session, self._by_session.get(session, _NOTHING).union(names))

    def put(self, session: Hashable, names: Iterable[str]) -> None:
        with self._lock:
            self._put(session, frozenset(names))

    def _put(self, session: Hashable, names: frozenset[str]) -> None:
        self._by_session[session] = names
        self._by_session.move_to_end(session)
        while len(self._by_session) > self.max_sessions:
            self._by_session.popitem(last=False)

    def forget(self, session: Hashable) -> None:
        with self._lock:
            self._by_session.pop(session, None)
