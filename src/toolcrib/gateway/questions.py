"""Questions a running call has for a stateless client, kept until the client comes back with the answers."""

from __future__ import annotations

import asyncio
import itertools

from toolcrib.domain import JsonObject


class Questions:
    """What a running call asked of a stateless client, until the client comes back with the answers."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[str, tuple[JsonObject, asyncio.Future[JsonObject]]] = {}
        self.asked = asyncio.Event()

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        name = f"q{next(self._numbers)}"
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[name] = ({"method": method, "params": params}, answer)
        self.asked.set()
        try:
            return await answer
        finally:
            self._waiting.pop(name, None)

    def open_questions(self) -> JsonObject:
        self.asked.clear()
        return {name: question for name, (question, answer) in self._waiting.items() if not answer.done()}

    def answer(self, responses: JsonObject) -> None:
        for name, (_, answer) in self._waiting.items():
            response = responses.get(name)
            if isinstance(response, dict) and not answer.done():
                answer.set_result(response)  # pyright: ignore[reportUnknownArgumentType] - JSON from the client
        if any(not answer.done() for _, answer in self._waiting.values()):
            self.asked.set()
