"""Encoders that are not ours: any OpenAI-compatible `/v1/embeddings` endpoint, and fastembed's models.

They speak the engine's `Encoder` protocol and are injected by the app; `search` itself touches no network. Both block,
so whoever searches with one does it on a thread. A failing endpoint costs a search its vectors, never the search.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import httpx2
import msgspec
import numpy as np
import numpy.typing as npt

from toolcrib.errors import BadSettings
from toolcrib.search import Document

log = logging.getLogger(__name__)
Floats = npt.NDArray[np.float32]
_BATCH = 64
_QUERY_TIMEOUT_S = 3.0
_TOOLS_TIMEOUT_S = 60.0


class _Embedding(msgspec.Struct, frozen=True):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct, frozen=True):
    data: list[_Embedding]


class EmbeddingsEndpoint:
    """Vectors by HTTP. The model's name is part of the id, so vectors of two models are never compared."""

    def __init__(self, url: str, model: str, key: str | None = None) -> None:
        self.model_id = f"endpoint/{model}"
        self._model = model
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._client = httpx2.Client(base_url=url.rstrip("/"), headers=headers)

    def embed_query(self, query: str) -> Floats | None:
        try:
            return self._ask([query], _QUERY_TIMEOUT_S)[0]
        except (httpx2.HTTPError, msgspec.DecodeError, ValueError) as error:
            log.warning("the embeddings endpoint did not answer a query; words alone decide: %s", error)
            return None

    def embed_tools(self, tools: Sequence[Document]) -> Floats:
        try:
            parts = [self._ask(batch, _TOOLS_TIMEOUT_S) for batch in _batches(tool.passage() for tool in tools)]
        except (httpx2.HTTPError, msgspec.DecodeError, ValueError) as error:
            raise RuntimeError(f"the embeddings endpoint did not embed the tools: {error}") from error
        return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)

    def _ask(self, texts: list[str], timeout_s: float) -> Floats:
        body = {"model": self._model, "input": texts}
        answer = self._client.post("/v1/embeddings", json=body, timeout=timeout_s).raise_for_status()
        found = sorted(msgspec.json.decode(answer.content, type=_Embeddings).data, key=lambda each: each.index)
        if len(found) != len(texts):
            raise ValueError(f"{len(texts)} texts were sent, {len(found)} vectors came back")
        return _unit(np.array([each.embedding for each in found], np.float32))


class Fastembed:
    """A model of the fastembed package, if that is installed. Its models are fetched by that package, not by us."""

    def __init__(self, model: str) -> None:
        try:
            package: Any = importlib.import_module("fastembed")
        except ImportError as error:
            raise BadSettings("search_model is fastembed, but the package fastembed is not installed.") from error
        self.model_id = f"fastembed/{model}"
        self._model = package.TextEmbedding(model_name=model)

    def embed_query(self, query: str) -> Floats | None:
        return _unit(np.stack(list(self._model.query_embed([query]))).astype(np.float32))[0]

    def embed_tools(self, tools: Sequence[Document]) -> Floats:
        found = list(self._model.passage_embed([tool.passage() for tool in tools]))
        return _unit(np.stack(found).astype(np.float32)) if found else np.empty((0, 0), np.float32)


def _unit(rows: Floats) -> Floats:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _batches(texts: Iterable[str]) -> Iterable[list[str]]:
    left = iter(texts)
    while batch := list(islice(left, _BATCH)):
        yield batch
