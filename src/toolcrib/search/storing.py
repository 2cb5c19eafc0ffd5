"""One file per index: a line of format and hash, then arrays and texts in a zip that holds no code.

A file is written beside its place and moved there, so a crash leaves the old one or the new one. A file that was cut,
changed or written by another format is refused, never half read.
"""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib.search.dense import Vectors
from toolcrib.search.documents import Document
from toolcrib.search.lexical import Postings

_FORMAT = b"toolcrib-index 1 "


class UnreadableIndex(ValueError):
    """The file is no index of this format, or not all of one; build the index again."""


def write(path: Path, documents: Sequence[Document], postings: Postings, vectors: Vectors) -> None:
    """Puts the parts of an index into `path`, whole or not at all."""
    payload = io.BytesIO()
    np.savez(
        payload,
        allow_pickle=False,
        documents=_packed([astuple(document) for document in documents]),
        terms=_packed(list(postings.rows)),
        starts=postings.starts,
        slots=postings.slots,
        weights=postings.weights,
        fields=postings.fields,
        model_id=_packed(vectors.model_id),
        vectors=vectors.rows,
    )
    body = payload.getvalue()
    _replace(path, _FORMAT + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def read(path: Path) -> tuple[tuple[Document, ...], Postings, Vectors]:
    """The parts of an index written by `write`."""
    head, _, body = path.read_bytes().partition(b"\n")
    if not head.startswith(_FORMAT):
        raise UnreadableIndex(f"{path.name} is not an index of this version of toolcrib; build it again")
    if head[len(_FORMAT) :].decode("ascii", "replace") != hashlib.sha256(body).hexdigest():
        raise UnreadableIndex(f"{path.name} is damaged: its content does not match its hash; build it again")
    with np.load(io.BytesIO(body), allow_pickle=False) as parts:
        arrays = {name: parts[name] for name in parts.files}
    documents = tuple(_document(row) for row in _unpacked(arrays["documents"]))
    rows = {term: row for row, term in enumerate(_unpacked(arrays["terms"]))}
    postings = Postings(rows, arrays["starts"], arrays["slots"], arrays["weights"], arrays["fields"], len(documents))
    return documents, postings, Vectors(_unpacked(arrays["model_id"]), arrays["vectors"])


def _document(row: list[Any]) -> Document:
    name, server, description, keywords, examples, parameters = row
    return Document(name, server, description, keywords, examples, tuple((p, text) for p, text in parameters))


def _packed(value: object) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _unpacked(array: np.ndarray[Any, np.dtype[np.uint8]]) -> Any:
    return json.loads(array.tobytes())


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
