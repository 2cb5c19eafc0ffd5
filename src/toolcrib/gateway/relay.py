"""Questions an upstream has for the client in the middle of a call, carried between the eras in every combination.

                    session-era client             stateless client
session upstream    pushed on the call's stream    the call is parked; `input_required` names it
stateless upstream  asked one by one, call again   `input_required` passed on, its state sealed in ours
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
from msgspec import UNSET

from toolcrib.domain import JsonObject
from toolcrib.errors import BadAnswer, InvalidPayload
from toolcrib.gateway.exchange import ClientExchange
from toolcrib.gateway.messages import Params
from toolcrib.gateway.parking import Parked, ParkingLot
from toolcrib.gateway.questions import Questions
from toolcrib.gateway.states import StateSeal
from toolcrib.upstreams.upstream import InputRequired, Outcome

Invoke = Callable[[JsonObject], Awaitable[Outcome]]
Bound = Callable[[], bytes]
"""What a state of this request is bound to; worked out only where there is a state."""
_MOST_ROUNDS = 10
_encode = msgspec.json.Encoder().encode


class Relay:
    """Runs an upstream request to its end, or to the point where the client has to come back."""

    def __init__(self, seal: StateSeal, lot: ParkingLot) -> None:
        self._seal = seal
        self._lot = lot

    async def run(self, params: Params, exchange: ClientExchange, bound: Bound, invoke: Invoke) -> bytes:
        """The raw result. `invoke` takes what a second try adds to the params."""
        if not exchange.is_modern:
            return await self._run_with_session(exchange, invoke)
        extra: JsonObject = {}
        if params.request_state is not UNSET:
            state = self._seal.open(params.request_state, bound())
            if state.parked is not None:
                return await self._resume(self._lot.take(state.parked), params, exchange, bound)
            extra["requestState"] = state.upstream
        if params.input_responses is not UNSET:
            extra["inputResponses"] = params.input_responses
        if exchange.questions is None:
            return self._passed_on(await invoke(extra), exchange, bound)
        return await self._settle(asyncio.ensure_future(invoke(extra)), exchange, exchange.questions, bound)

    async def _run_with_session(self, exchange: ClientExchange, invoke: Invoke) -> bytes:
        extra: JsonObject = {}
        for _ in range(_MOST_ROUNDS):
            outcome = await invoke(extra)
            if not isinstance(outcome, InputRequired):
                return outcome.result
            extra = {"inputResponses": await _ask_all(exchange, outcome.requests)}
            if outcome.state is not None:
                extra["requestState"] = outcome.state
        raise BadAnswer(f"The upstream asked for input {_MOST_ROUNDS} times without coming to an end.")

    async def _resume(self, parked: Parked, params: Params, exchange: ClientExchange, bound: Bound) -> bytes:
        questions = cast("Questions", parked.exchange.questions)
        if params.input_responses is UNSET:
            parked.task.cancel()
            raise InvalidPayload("requestState came back without inputResponses.", param="inputResponses")
        parked.exchange.move_to(exchange)
        questions.answer(params.input_responses)
        return await self._settle(parked.task, parked.exchange, questions, bound)

    async def _settle(
        self, task: asyncio.Future[Any], exchange: ClientExchange, questions: Questions, bound: Bound
    ) -> bytes:
        """Wait until the call is done or has a question; a call with a question is parked."""
        asked = asyncio.ensure_future(questions.asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            asked.cancel()
        if task.done():
            return self._passed_on(task.result(), exchange, bound)
        exchange.leave()
        number = self._lot.park(Parked(task, exchange))  # pyright: ignore[reportArgumentType] - made by ensure_future
        state = self._seal.seal(bound(), parked=number)
        return _input_required(questions.open_questions(), state)

    def _passed_on(self, outcome: Outcome, exchange: ClientExchange, bound: Bound) -> bytes:
        if not isinstance(outcome, InputRequired):
            return outcome.result
        for request in outcome.requests.values():
            exchange.require(_method(request))
        state = None if outcome.state is None else self._seal.seal(bound(), upstream=outcome.state)
        return _input_required(outcome.requests, state)


async def _ask_all(exchange: ClientExchange, requests: JsonObject) -> JsonObject:
    answers: JsonObject = {}
    for name, request in requests.items():
        answers[name] = await exchange.ask(_method(request), _object(_object(request).get("params")))
    return answers


def _method(request: Any) -> str:
    """What an upstream's question asks for. It may have sent anything."""
    return str(_object(request).get("method", ""))


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _input_required(requests: JsonObject, state: str | None) -> bytes:
    body: JsonObject = {"resultType": "input_required"}
    if requests:
        body["inputRequests"] = requests
    if state is not None:
        body["requestState"] = state
    return _encode(body)
