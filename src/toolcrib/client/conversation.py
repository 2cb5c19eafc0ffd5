"""One session of an agent whose loop is written by hand: its instructions, and how its calls are performed.

The plain adapters put this into a provider's form. It does not know any provider's messages.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toolcrib.client.deferral import Turn
from toolcrib.client.finder import Call, Found
from toolcrib.errors import BadRequest, NotFound

Run = Callable[[str, dict[str, object]], object]
Runners = Run | Mapping[str, Callable[..., object]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to, as the model reads it."""

    text: str
    is_error: bool = False
    found: Found | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    turn: Turn
    run: Run

    def instructions(self, text: str = "") -> str:
        """Your system prompt with the one note about searching after it."""
        return noted(text, self.turn.deferred.note)

    def perform(self, name: str, arguments: object) -> Outcome:
        """Answer a search, or run the agent's own tool; what that tool raises is the caller's, as it always was."""
        routed = self._route(name, arguments)
        if isinstance(routed, Outcome):
            return routed
        value = self.run(routed.name, routed.arguments)
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise BadRequest(f"the tool {routed.name!r} is asynchronous", hint="Await the `_async` form instead.")
        return as_outcome(value)

    async def perform_async(self, name: str, arguments: object) -> Outcome:
        routed = self._route(name, arguments)
        if isinstance(routed, Outcome):
            return routed
        value = self.run(routed.name, routed.arguments)
        return as_outcome(await value if inspect.isawaitable(value) else value)

    def _route(self, name: str, arguments: object) -> Outcome | Call:
        try:
            routed = self.turn.route(name, arguments)
        except NotFound as error:
            return Outcome(f"{error.message}. {error.hint}", is_error=True)
        return Outcome(routed.text, found=routed) if isinstance(routed, Found) else routed


def noted(text: str, note: str) -> str:
    return "\n\n".join(part for part in (text, note) if part)


def runner(runners: Runners) -> Run:
    """One way to run a tool, from a function of (name, arguments) or from functions by name."""
    return runners if callable(runners) else lambda name, arguments: runners[name](**arguments)


def as_outcome(value: object) -> Outcome:
    if isinstance(value, Outcome):
        return value
    return Outcome(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
