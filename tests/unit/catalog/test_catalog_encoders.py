"""Encoders of others: a real HTTP endpoint in OpenAI's form, and what happens when it is away or answers nonsense."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from toolcrib.catalog.encoders import EmbeddingsEndpoint, Fastembed
from toolcrib.errors import BadSettings
from toolcrib.search import ToolIndex

TOOLS = [
    {"name": "mail.send", "description": "Send a letter."},
    {"name": "sky.forecast", "description": "Tell tomorrow's temperature."},
]


class Embeddings(BaseHTTPRequestHandler):
    """Two directions: letters and weather. Remembers what it was asked."""

    seen: ClassVar[list[tuple[str | None, dict[str, Any]]]] = []
    cut = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append((self.headers.get("authorization"), body))
        data = [{"index": i, "embedding": self.vector(text)} for i, text in enumerate(body["input"])]
        answer = json.dumps({"data": data[: len(data) - self.cut][::-1]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    @staticmethod
    def vector(text: str) -> list[float]:
        return [2.0, 0.1] if "letter" in text.lower() or "post" in text else [0.1, 2.0]

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    Embeddings.seen, Embeddings.cut = [], 0
    server = HTTPServer(("127.0.0.1", 0), Embeddings)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_vectors_of_an_endpoint_find_what_words_do_not(endpoint: str) -> None:
    encoder = EmbeddingsEndpoint(endpoint, "some-model", "the-key")
    index = ToolIndex.build(TOOLS, encoder=encoder)
    assert [hit.name for hit in index.search("post something", 1)] == ["mail.send"]
    assert index.model_id == "endpoint/some-model"
    key, body = Embeddings.seen[0]
    assert (key, body["model"], len(body["input"])) == ("Bearer the-key", "some-model", 2)


def test_an_endpoint_that_is_away_costs_a_search_its_vectors_only() -> None:
    encoder = EmbeddingsEndpoint("http://127.0.0.1:9", "some-model")
    assert encoder.embed_query("anything") is None
    with pytest.raises(RuntimeError, match="did not embed the tools"):
        ToolIndex.build(TOOLS, encoder=encoder)


def test_too_few_vectors_are_no_answer(endpoint: str) -> None:
    Embeddings.cut = 1
    with pytest.raises(RuntimeError, match="2 texts were sent, 1 vectors came back"):
        ToolIndex.build(TOOLS, encoder=EmbeddingsEndpoint(endpoint, "some-model"))


def test_fastembed_says_what_is_missing() -> None:
    with pytest.raises(BadSettings, match="fastembed is not installed"):
        Fastembed("any")
