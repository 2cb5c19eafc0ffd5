"""Auto tool search: who searches in this request, the provider or us.

Decided from what the caller declares about the endpoint and from the transport, never from a model's name: a gateway
may carry a first-party name and still drop the hosted format, and then the tools would be unreachable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal
from urllib.parse import urlsplit

from toolcrib.client.deferral import DeferredTools
from toolcrib.client.finder import NOTE

Api = Literal["openai.responses", "openai.chat", "anthropic.messages"]


class SearchPlace(StrEnum):
    """Where the search runs. The later two keep the tool list byte-stable, because the provider loads the schemas."""

    LOCAL = "local"  # our stubs or our bridge; works on any model
    HOSTED = "hosted"  # the provider ranks and loads
    REFERENCED = "referenced"  # we rank, the provider loads (tool_reference, or tool_search executed by the client)


# Which places an API can express, the preferred one first.
_EXPRESSIBLE: dict[Api, tuple[SearchPlace, ...]] = {
    "openai.responses": (SearchPlace.HOSTED, SearchPlace.REFERENCED),
    "openai.chat": (),
    "anthropic.messages": (SearchPlace.HOSTED, SearchPlace.REFERENCED),
}

# The hosts known to understand their own hosted format.
_FIRST_PARTY: dict[Api, frozenset[str]] = {
    "openai.responses": frozenset({"api.openai.com", "eu.api.openai.com", "us.api.openai.com"}),
    "openai.chat": frozenset({"api.openai.com"}),
    "anthropic.messages": frozenset({"api.anthropic.com"}),
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the caller knows about where this request goes.

    `declares` says what the model behind it supports; nothing is assumed. `relays_hosted` says that a host which is
    not the provider's own passes the hosted format on.
    """

    api: Api
    base_url: str
    declares: frozenset[SearchPlace] = field(default_factory=frozenset[SearchPlace])
    relays_hosted: bool = False

    @classmethod
    def of(
        cls, api: Api, client: object, declares: Iterable[SearchPlace] = (), relays_hosted: bool = False
    ) -> Endpoint:
        """The endpoint of a provider package's client object, by its `base_url`."""
        return cls(api, str(getattr(client, "base_url", "")), frozenset(declares), relays_hosted)

    @property
    def is_first_party(self) -> bool:
        return urlsplit(self.base_url).hostname in _FIRST_PARTY[self.api]


def note_for(place: SearchPlace, deferred: DeferredTools) -> str:
    """The system-prompt note: a provider that searches itself also tells its model how."""
    if place is SearchPlace.LOCAL or not deferred.is_active:
        return deferred.note
    return "" if place is SearchPlace.HOSTED else NOTE["referenced"]


def choose_place(endpoint: Endpoint | None) -> SearchPlace:
    if endpoint is None or not (endpoint.is_first_party or endpoint.relays_hosted):
        return SearchPlace.LOCAL
    return next((place for place in _EXPRESSIBLE[endpoint.api] if place in endpoint.declares), SearchPlace.LOCAL)
