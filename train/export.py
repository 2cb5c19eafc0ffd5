"""Makes what is shipped out of trained parts: `python train/export.py --parts DIR --start DIR --name NAME`.

Writes the table into the wheel's own folder and the transformer, as ONNX with int8 weights, into the data package, each
with a list of hashes. It trains nothing.
"""

import argparse
import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn

from towers import VOCABULARY, Transformer

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path("src/toolcrib/search/table")
TOWER = Path("packages/toolcrib-weights/src/toolcrib_weights")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--parts", type=Path, required=True)
    asked.add_argument("--start", type=Path, required=True, help="folder with vocab.txt of the starting weights")
    asked.add_argument("--name", required=True, help="model name, such as crib-1")
    asked.add_argument("--root", type=Path, default=ROOT, help="where to write; this repository unless you only try")
    options = asked.parse_args()
    table, tower = options.root / TABLE, options.root / TOWER
    export_table(options.parts, options.start, table)
    export_tower(options.parts, tower)
    model_id = f"{options.name}-{digest(options.parts / 'tower-0.npz')[:8]}"
    for folder in (table, tower):
        list_hashes(folder, model_id)


def export_table(parts: Path, start: Path, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(start / "vocab.txt", to / "vocabulary.txt")
    table = dict(np.load(parts / "table.npz"))
    table["scale"] = table["scale"].astype(np.float16)
    np.savez(to / "table.npz", **table)


class Int8Rows(nn.Module):
    """Word embeddings kept as int8 with one scale a row, which one scale for all of them would blur."""

    def __init__(self, rows: np.ndarray, scale: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("rows", torch.from_numpy(rows))
        self.register_buffer("scale", torch.from_numpy(scale.astype(np.float32)))

    def forward(self, ids: Tensor) -> Tensor:
        return self.rows[ids].float() * self.scale[ids]


def export_tower(parts: Path, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    words = np.load(parts / "tower-embeddings.npz")
    state = {name: torch.from_numpy(array.astype(np.float32))
             for part in range(2) for name, array in np.load(parts / f"tower-{part}.npz").items()}  # fmt: skip
    state["embeddings.word_embeddings.weight"] = torch.zeros(VOCABULARY, words["rows"].shape[1])
    model = Transformer(state).eval()
    model.bert.set_attn_implementation("eager")
    model.bert.embeddings.word_embeddings = Int8Rows(words["rows"], words["scale"])
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "tower.onnx"
        ids = torch.ones(2, 16, dtype=torch.long)
        axes = {
            "input_ids": {0: "texts", 1: "tokens"},
            "attention_mask": {0: "texts", 1: "tokens"},
            "vector": {0: "texts"},
        }
        torch.onnx.export(model, (ids, ids), str(plain), input_names=["input_ids", "attention_mask"],
                          output_names=["vector"], dynamic_axes=axes, opset_version=17, dynamo=False)  # fmt: skip
        quantize_dynamic(plain, to / "tower.onnx", weight_type=QuantType.QInt8, per_channel=True,
                         op_types_to_quantize=["MatMul"])  # fmt: skip


def list_hashes(folder: Path, model_id: str) -> None:
    files = sorted(f for f in folder.iterdir() if f.suffix in {".npz", ".onnx", ".txt"})
    listed = {"model_id": model_id, "sha256": {file.name: digest(file) for file in files}}
    (folder / "weights.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
