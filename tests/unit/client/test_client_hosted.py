"""Who searches: decided from what is declared and from the transport, never from a model's name."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib.client import Endpoint, SearchPlace
from toolcrib.client.hosted import choose_place

BOTH = frozenset({SearchPlace.HOSTED, SearchPlace.REFERENCED})
OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        (None, SearchPlace.LOCAL),
        (Endpoint("openai.responses", OPENAI), SearchPlace.LOCAL),
        (Endpoint("openai.responses", OPENAI, BOTH), SearchPlace.HOSTED),
        (Endpoint("openai.responses", OPENAI, frozenset({SearchPlace.REFERENCED})), SearchPlace.REFERENCED),
        (Endpoint("openai.responses", "https://gateway.example/v1", BOTH), SearchPlace.LOCAL),
        (Endpoint("openai.responses", "https://gateway.example/v1", BOTH, relays_hosted=True), SearchPlace.HOSTED),
        (Endpoint("openai.responses", "https://api.openai.com.evil.example/v1", BOTH), SearchPlace.LOCAL),
        (Endpoint("openai.chat", OPENAI, BOTH), SearchPlace.LOCAL),
        (Endpoint("anthropic.messages", ANTHROPIC, BOTH), SearchPlace.HOSTED),
        (Endpoint("anthropic.messages", ANTHROPIC, frozenset({SearchPlace.REFERENCED})), SearchPlace.REFERENCED),
        (Endpoint("anthropic.messages", OPENAI, BOTH), SearchPlace.LOCAL),
    ],
)
def test_the_place_of_search(endpoint: Any, place: SearchPlace) -> None:
    assert choose_place(endpoint) is place


def test_an_endpoint_is_read_from_a_client_and_has_no_place_for_a_model_name() -> None:
    client = SimpleNamespace(base_url=OPENAI, model="gpt-5.4")
    assert Endpoint.of("openai.responses", client) == Endpoint("openai.responses", OPENAI)
    assert "model" not in {field.name for field in fields(Endpoint)}
