"""`requestState`: what a stateless client carries for us between "I need input" and its second try.

It comes back from the client, so it is hostile until proven ours: sealed, bound to the principal, the toolbox and the
named thing, and short-lived. Either it holds an upstream's own state, or the number of a call that is parked here.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import time
from collections.abc import Callable

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolcrib.errors import InvalidPayload

LIFETIME_S = 600.0
_MOST_SPENT = 100_000


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """`upstream`: a modern upstream's own state (may be null). `parked`: a call of ours that waits for answers."""

    expires: float
    upstream: str | None = None
    parked: int | None = None


class StateSeal:
    """Seals and opens request states. `bound` is everything a state must not be moved away from (see `bind`)."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._aead = AESGCM(hashlib.sha256(b"toolcrib request state" + key).digest())
        self._clock = clock
        self._spent: dict[bytes, float] = {}

    def seal(self, bound: bytes, *, upstream: str | None = None, parked: int | None = None) -> str:
        state = State(self._clock() + LIFETIME_S, upstream, parked)
        nonce = os.urandom(12)
        box = nonce + self._aead.encrypt(nonce, msgspec.json.encode(state), bound)
        return base64.urlsafe_b64encode(box).decode()

    def open(self, text: str, bound: bytes) -> State:
        """What the state holds. Each opens once (in this process): a second try is a replay."""
        try:
            box = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
            state = msgspec.json.decode(self._aead.decrypt(box[:12], box[12:], bound), type=State)
            if base64.urlsafe_b64encode(box).decode() != text:
                raise ValueError("another spelling")
        except (binascii.Error, InvalidTag, UnicodeEncodeError, ValueError, msgspec.DecodeError):
            raise InvalidPayload(
                "requestState is not one that was issued for this request.", param="requestState"
            ) from None
        if state.expires < self._clock() or box[:12] in self._spent:
            raise expired()
        self._spend(box[:12], state.expires)
        return state

    def _spend(self, nonce: bytes, expires: float) -> None:
        self._spent[nonce] = expires
        oldest = next(iter(self._spent))
        while len(self._spent) > _MOST_SPENT or self._spent[oldest] < self._clock():
            del self._spent[oldest]
            oldest = next(iter(self._spent))


def expired() -> InvalidPayload:
    return InvalidPayload(
        "requestState has expired or was used before.",
        param="requestState",
        hint="send the request again without requestState",
    )


def bind(*names: str, arguments: bytes = b"") -> bytes:
    """The one request a state belongs to, as text: who asks, for what, with which arguments (in any order)."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):  # what is not JSON is refused as such later
        arguments = msgspec.json.encode(msgspec.json.decode(arguments or b"{}"), order="sorted")
    return msgspec.json.encode([*names, hashlib.sha256(arguments).hexdigest()])
