"""The transformer tower: tools, and on request queries, through a small int8 ONNX network.

Needs `onnxruntime` and the data package `toolcrib_weights`, both imported when first used. Its session is let go
after a while without work, since tools are embedded rarely and a session costs some 60 MB.
"""

import importlib
import threading
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolcrib.search.documents import Document
from toolcrib.search.static import Table
from toolcrib.search.weights import Weights, open_weights
from toolcrib.search.wordpiece import WordPiece

Floats = npt.NDArray[np.float32]

PACKAGE = "toolcrib_weights"
_TOOL_TOKENS, _QUERY_TOKENS = 126, 34
_CLS, _SEP = 101, 102
_WIDTH = 384
_BATCH_TOKENS = 2048


class Transformer:
    """The network, opened at first use and closed when idle."""

    def __init__(self, weights: Weights, pieces: WordPiece, *, threads: int = 1, idle_s: float = 60.0) -> None:
        self.model_id = weights.model_id
        self._pieces = pieces
        self._weights, self._threads, self._idle_s = weights, threads, idle_s
        self._lock = threading.Lock()
        self._session: Any = None
        self._last_used = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a session is held right now."""
        return self._session is not None

    def embed(self, texts: Sequence[str], limit: int) -> Floats:
        """One unit row per text, batched by length."""
        rows = [[_CLS, *self._pieces.ids(text, limit), _SEP] for text in texts]
        out = np.zeros((len(texts), _WIDTH), np.float32)
        for part in _batches([len(row) for row in rows]):
            out[part] = self._run(_padded([rows[i] for i in part]))
        return out

    def release_if_idle(self, now: Callable[[], float] = time.monotonic) -> bool:
        """Lets the session go when nobody used it for `idle_s`; says whether none is held now."""
        with self._lock:
            if self._session is not None and now() - self._last_used >= self._idle_s:
                self._session = None
        return self._session is None

    def _run(self, batch: dict[str, npt.NDArray[np.int64]]) -> Floats:
        with self._lock:
            self._session = session = self._session or self._open()
            self._last_used = time.monotonic()
        return session.run(None, batch)[0]

    def _open(self) -> Any:
        runtime: Any = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return runtime.InferenceSession(
            self._weights.content("tower.onnx"), options, providers=["CPUExecutionProvider"]
        )


class TwoTowers:
    """Tools by the transformer at index time, queries by the table: a query costs a look-up."""

    def __init__(self, tools: Transformer, queries: Table) -> None:
        self.transformer, self._table = tools, queries
        self.model_id = f"{tools.model_id}/tower"

    def embed_query(self, query: str) -> Floats | None:
        """By the table, which was trained into the transformer's space."""
        return self._table.query(query)

    def embed_tools(self, tools: Sequence[Document]) -> Floats:
        """By the transformer."""
        return self.transformer.embed([tool.passage() for tool in tools], _TOOL_TOKENS)


class FullTransformer(TwoTowers):
    """The transformer for queries too: better, at some milliseconds a query. Tool vectors are the two towers' own."""

    def embed_query(self, query: str) -> Floats | None:
        """By the transformer, cut to its first tokens so that the cost stays bounded."""
        if self._table.query(query) is None:
            return None
        return self.transformer.embed([query], _QUERY_TOKENS)[0]


def is_installed() -> bool:
    """Whether everything the transformer needs is here."""
    package = find_spec(PACKAGE)
    if package is None or package.origin is None or find_spec("onnxruntime") is None:
        return False
    return (Path(package.origin).parent / "weights.json").exists()


def shipped_transformer(table: Table) -> Transformer:
    """The transformer of the installed data package, with the table's tokens."""
    package = importlib.import_module(PACKAGE)
    return Transformer(open_weights(Path(str(package.__file__)).parent), table.pieces)


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Texts of like length together, so that padding stays small."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not batches or (len(batches[-1]) + 1) * lengths[i] > _BATCH_TOKENS:
            batches.append([])
        batches[-1].append(i)
    return batches


def _padded(rows: list[list[int]]) -> dict[str, npt.NDArray[np.int64]]:
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}
