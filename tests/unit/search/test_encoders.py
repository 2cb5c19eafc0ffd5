"""Tokens, tables and weights: what a bare install embeds with, and what it refuses."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from toolcrib.search import ToolIndex
from toolcrib.search.static import StaticEncoder, Table
from toolcrib.search.transformer import Transformer, TwoTowers
from toolcrib.search.weights import DamagedWeights, Weights, open_weights
from toolcrib.search.wordpiece import WordPiece

VOCABULARY = ["[PAD]", "[UNK]", "file", "##s", "read", "un", "##able", "weather", "rain", "-", "cafe", "天", "气"]


def written(folder: Path, model_id: str = "toy") -> Path:
    """A folder of toy weights: `weather` and `rain` point one way, `file` and `read` another."""
    rows = np.zeros((len(VOCABULARY), 2), np.int8)
    for token, row in {"weather": (100, 0), "rain": (90, 10), "file": (0, 100), "read": (10, 90)}.items():
        rows[VOCABULARY.index(token)] = row
    ones = np.ones(len(VOCABULARY), np.float16)
    np.savez(folder / "table.npz", rows=rows, scale=ones, out=np.eye(2, dtype=np.float16), query_weight=ones,
             tool_weight=ones)  # fmt: skip
    (folder / "vocabulary.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    hashes = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("table.npz", "vocabulary.txt")
    }
    (folder / "weights.json").write_text(json.dumps({"model_id": model_id, "sha256": hashes}))
    return folder


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Read files", ["read", "file", "##s"]),
        ("unable-file", ["un", "##able", "-", "file"]),
        ("CAFÉ zzz", ["cafe", "[UNK]"]),
        ("天气file", ["天", "气", "file"]),
        ("file\x00\u200b", ["file"]),
        ("x" * 500, ["[UNK]"]),
        ("", []),
    ],
)
def test_wordpiece_takes_the_longest_piece_from_the_left(text: str, tokens: list[str]) -> None:
    assert WordPiece(VOCABULARY).ids(text, 20) == [VOCABULARY.index(token) for token in tokens]


def test_wordpiece_stops_at_its_limit() -> None:
    assert len(WordPiece(VOCABULARY).ids("file " * 5000, 7)) == 7


def test_the_table_ranks_by_meaning_where_words_are_silent(tmp_path: Path) -> None:
    encoder = StaticEncoder(Table(open_weights(written(tmp_path))))
    index = ToolIndex.build([{"name": "weather"}, {"name": "read"}], encoder=encoder)
    assert [hit.name for hit in index.search("rain")][:1] == ["weather"]
    assert [hit.name for hit in index.search("file")][:1] == ["read"]


def test_a_query_the_model_cannot_read_has_no_vector(tmp_path: Path) -> None:
    table = Table(open_weights(written(tmp_path)))
    assert table.query("ξένος") is None
    assert np.isfinite(table.tools(["ξένος", "rain"])).all()


@pytest.mark.parametrize("name", ["table.npz", "vocabulary.txt"])
def test_weights_that_changed_are_refused(tmp_path: Path, name: str) -> None:
    file = written(tmp_path) / name
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(DamagedWeights, match=name):
        Table(open_weights(tmp_path))


def test_weights_that_are_missing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedWeights):
        open_weights(tmp_path)
    (written(tmp_path) / "table.npz").unlink()
    with pytest.raises(DamagedWeights, match=r"table\.npz"):
        Table(open_weights(tmp_path))


class Session:
    """Stands where onnxruntime's session stands and counts."""

    def __init__(self) -> None:
        self.rows = 0

    def run(self, _: None, batch: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.rows += len(batch["input_ids"])
        out = np.zeros((len(batch["input_ids"]), 384), np.float32)
        out[:, 0] = batch["attention_mask"].sum(1)
        return [out]


@pytest.fixture
def transformer(monkeypatch: pytest.MonkeyPatch) -> Transformer:
    monkeypatch.setattr(Transformer, "_open", lambda _: Session())
    return Transformer(Weights(Path(), "toy", {}), WordPiece(VOCABULARY), idle_s=60)


def test_texts_come_back_in_their_order_however_they_were_batched(transformer: Transformer) -> None:
    lengths = transformer.embed(["file " * n for n in (9, 1, 200, 3)], 126)[:, 0]
    assert lengths.tolist() == [11, 3, 128, 5]


def test_an_idle_session_is_let_go(transformer: Transformer) -> None:
    assert not transformer.is_open
    transformer.embed(["file"], 10)
    assert not transformer.release_if_idle()
    assert transformer.release_if_idle(now=lambda: float("inf"))
    assert not transformer.is_open
    transformer.embed(["file"], 10)
    assert transformer.is_open


def test_no_tool_opens_no_session(transformer: Transformer) -> None:
    assert transformer.embed([], 10).shape == (0, 384)
    assert not transformer.is_open


def test_two_towers_never_share_an_id_with_the_table(tmp_path: Path, transformer: Transformer) -> None:
    table = Table(open_weights(written(tmp_path)))
    assert TwoTowers(transformer, table).model_id != StaticEncoder(table).model_id


def test_importing_search_loads_no_model_runtime() -> None:
    code = "import sys, toolcrib.search; print({'onnxruntime', 'tokenizers', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
