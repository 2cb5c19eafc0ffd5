"""Makes toolcrib's retrieval model: `python train/train.py --start DIR --data DIR --evaluation DIR --out DIR`.

Fine-tunes the transformer, teaches the table from it, lets both settle together, and writes the weights in parts. The
evaluation folder gives pool tools and the queries to keep out of training, and is measured after each stage; it never
teaches. `train/export.py` makes what is shipped out of the parts.
"""

import argparse
import hashlib
import json
import random
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from corpus import fingerprint, metatool, operations, written_requests
from learning import Recipe, fine_tune, fit_static
from measure import Bench, show
from reduced import fine_tune_top
from towers import (
    DEVICE,
    PASSAGE_TOKENS,
    QUERY_TOKENS,
    Static,
    Transformer,
    first_table,
    static_vectors,
    token_weights,
    vectors,
)

# all-MiniLM-L6-v2 as published, and the same rounded to half precision so that it fits through a narrow door
START_SHA256 = {
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "406fde1c93f3a70217dc815ba729b88b02c632de8bc1a469ad770f25bb91b0c6",
}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    for name in ("start", "data", "evaluation", "out"):
        asked.add_argument(f"--{name}", type=Path, required=True)
    asked.add_argument("--without-metatool", action="store_true", help="leave MetaTool's labelled queries out")
    asked.add_argument("--reduced", action="store_true", help="the schedule for a machine without an accelerator")
    asked.add_argument("--quick", action="store_true", help="a few steps on the CPU, to see that the script runs")
    options = asked.parse_args()
    if options.reduced:
        run_reduced(options.start, options.data, options.evaluation, options.out)
        return
    run(options.start, options.data, options.evaluation, options.out, not options.without_metatool, options.quick)


def run(start: Path, data: Path, evaluation: Path, out: Path, with_metatool: bool, quick: bool) -> None:
    clock = time.perf_counter()
    random.seed(17)
    out.mkdir(parents=True, exist_ok=True)
    state = starting_weights(start)
    tokenizer = Tokenizer.from_file(str(start / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    requests, mined = written_requests(data, evaluation), operations(data)
    labelled = metatool(data, evaluation)
    texts = list(dict.fromkeys(pair.query for pair in [*requests, *mined, *labelled]))
    if quick:
        requests, mined, labelled, texts = requests[:16], mined[:16], labelled[:16], texts[:64]
    sources = [(requests, 3), (mined, 1), *([(labelled, 1)] if with_metatool else [])]
    bench = Bench(
        evaluation, cap=5 if quick else 300, modes=("own",) if quick else ("own", "full"), sets=1 if quick else 0
    )

    def told(stage: str) -> None:
        print(f"[{time.perf_counter() - clock:6.1f} s] {stage}", flush=True)

    def tools_of(texts: list[str]) -> Tensor:
        return vectors(model, texts, tokenizer, PASSAGE_TOKENS)

    def measured(stage: str, table: Static | None) -> None:
        told(stage)
        show("transformer both sides", bench.report(tools_of, lambda t: vectors(model, t, tokenizer, QUERY_TOKENS)))
        if table is not None:
            show("two towers", bench.report(tools_of, lambda t: static_vectors(table, t, tokenizer)))
            show("table both sides", bench.report(lambda t: static_vectors(table, t, tokenizer, tool=True),
                                                  lambda t: static_vectors(table, t, tokenizer)))  # fmt: skip

    small = {"batch": 16, "epochs": 1} if quick else {}
    guide = Transformer(state).to(DEVICE).eval()
    model = Transformer(state).to(DEVICE)
    told(f"{len(requests)} requests, {len(mined)} operations, {len(labelled)} MetaTool queries, {len(texts)} texts")
    fine_tune(model, sources, tokenizer, Recipe(**small), guide)
    measured("fine-tuned", None)
    static = Static(*first_table(model), token_weights(texts, tokenizer)).to(DEVICE)
    write(out, model, static)
    fit_static(static, model, texts, [*requests, *mined], tokenizer, steps=11 if quick else 2000)
    measured("table taught", static)
    write(out, model, static)
    settle = Recipe(**{"epochs": 1, "rate": 3e-5, "seed": 18, **small})
    fine_tune(model, sources, tokenizer, settle, guide, static)
    measured("settled together", static)
    fit_static(static, model, texts, [*requests, *mined], tokenizer, steps=11 if quick else 1000, rate=5e-4, seed=19)
    measured("table taught again", static)
    write(out, model, static)
    inputs = [*sorted(data.glob("*.gz")), evaluation / "pool.jsonl.gz", evaluation / "queries.jsonl.gz"]
    (out / "inputs.json").write_text(json.dumps(fingerprint(inputs), indent=1))
    told("done")


def run_reduced(start: Path, data: Path, evaluation: Path, out: Path) -> None:
    """The last two layers on the written requests, then the table; about an hour on two cores."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(start / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    requests = written_requests(data, evaluation)
    model = Transformer(starting_weights(start))
    fine_tune_top(model, requests, tokenizer, Recipe(epochs=3, batch=256, rate=2e-4))
    static = teach_reduced(model, data, evaluation, tokenizer)
    write(out, model, static)


def teach_reduced(model: Transformer, data: Path, evaluation: Path, tokenizer: Tokenizer) -> Static:
    """The table from the requests, a quarter of the operations, and MetaTool's queries without their labels."""
    requests, mined = written_requests(data, evaluation), operations(data)[::4]
    texts = list(dict.fromkeys(pair.query for pair in [*requests, *mined, *metatool(data, evaluation)[::2]]))
    static = Static(*first_table(model), token_weights(texts, tokenizer))
    return fit_static(static, model, texts, [*requests, *mined[::3]], tokenizer, steps=1000, batch=512, rate=4e-3)


def starting_weights(start: Path) -> dict[str, Tensor]:
    """The one safetensors file of the folder, if it is the one we know."""
    file = next(start.glob("*.safetensors"))
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found not in START_SHA256:
        raise SystemExit(f"{file.name} has SHA-256 {found}, which is not that of all-MiniLM-L6-v2")
    return {name: tensor for name, tensor in load_file(str(file)).items() if "pooler" not in name}


def write(out: Path, model: Transformer, static: Static) -> None:
    """Weights in parts below 16 MB: token rows as int8 with a scale each, the rest in half precision."""
    state = model.bert.state_dict()
    embeddings = state.pop("embeddings.word_embeddings.weight")
    np.savez(out / "tower-embeddings.npz", **rows_as_int8(embeddings))
    names = sorted(name for name in state if state[name].is_floating_point())
    for part, late in enumerate((False, True)):
        chosen = [name for name in names if any(f"layer.{n}." in name for n in (3, 4, 5)) == late]
        np.savez(out / f"tower-{part}.npz", **{name: half(state[name]) for name in chosen})
    weights = {name: half(torch.nn.functional.softplus(weight).squeeze(-1)) for name, weight in
               (("query_weight", static.query_weight), ("tool_weight", static.tool_weight))}  # fmt: skip
    np.savez(out / "table.npz", **rows_as_int8(static.rows), out=half(static.out), **weights)


def rows_as_int8(rows: Tensor) -> dict[str, np.ndarray]:
    scale = rows.detach().abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
    return {"rows": (rows.detach() / scale).round().to(torch.int8).cpu().numpy(), "scale": scale.float().cpu().numpy()}


def half(tensor: Tensor) -> np.ndarray:
    return tensor.detach().half().cpu().numpy()


if __name__ == "__main__":
    main()
