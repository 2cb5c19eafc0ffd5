"""The same lesson for a machine without an accelerator: only the last layers learn, from the written requests alone.

What the lower layers make of each text is worked out once and kept, so a step costs two layers instead of six, forwards
and back. It trains worse than `learning.fine_tune`; see the model card for by how much.
"""

import time
from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from corpus import Pair
from learning import Recipe, contrast, planned
from towers import PASSAGE_TOKENS, QUERY_TOKENS, Texts, Transformer


class Halfway:
    """Texts as the fixed lower layers leave them."""

    def __init__(self, model: Transformer, texts: Texts, layers: int) -> None:
        self.texts = texts
        self.hidden: list[Tensor] = [torch.empty(0)] * len(texts.texts)
        for part in torch.argsort(texts.lengths).split(256):
            ids, mask = texts.framed(part)
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                hidden = passed(model, model.bert.embeddings(input_ids=ids), mask, 0, layers)
            for i, row, length in zip(part.tolist(), hidden.bfloat16(), mask.sum(1).tolist(), strict=True):
                self.hidden[i] = row[:length].clone()

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        rows = [self.hidden[i] for i in index.tolist()]
        lengths = torch.tensor([len(row) for row in rows])
        padded = pad_sequence(rows, batch_first=True).float()
        return padded, (torch.arange(padded.shape[1]) < lengths[:, None]).long()


def passed(model: Transformer, hidden: Tensor, mask: Tensor, first: int, last: int) -> Tensor:
    """Hidden states after the layers from `first` up to `last`."""
    away = (1.0 - mask[:, None, None, :].to(hidden.dtype)) * -1e4
    for layer in model.bert.encoder.layer[first:last]:
        out = layer(hidden, away)
        hidden = out[0] if isinstance(out, tuple) else out
    return hidden


def finished(model: Transformer, halfway: tuple[Tensor, Tensor], first: int) -> Tensor:
    hidden, mask = halfway
    hidden = passed(model, hidden, mask, first, 6)
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return nn.functional.normalize(((hidden * weight).sum(1) / weight.sum(1)).float(), dim=-1)


def fine_tune_top(model: Transformer, pairs: Sequence[Pair], tokenizer: Tokenizer, recipe: Recipe,
                  *, fixed: int = 4) -> Transformer:  # fmt: skip
    """Teaches the layers above `fixed`; negatives that the starting weights prefer are left out, as in the full run."""
    torch.manual_seed(recipe.seed)
    model.eval()
    queries = Halfway(model, Texts([pair.query for pair in pairs], tokenizer, QUERY_TOKENS), fixed)
    passages = Halfway(model, Texts([pair.passage for pair in pairs], tokenizer, PASSAGE_TOKENS), fixed)
    before = [finished_all(model, half, fixed) for half in (queries, passages)]
    print(f"{len(queries.hidden)} queries, {len(passages.hidden)} passages half way", flush=True)
    layers = model.bert.encoder.layer[fixed:]
    plan = planned([(pairs, 1)], recipe)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=recipe.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=len(plan), pct_start=0.1)
    start = time.perf_counter()
    for step, batch in enumerate(plan):
        asked = queries.texts.where([pair.query for pair in batch])
        owner = passages.texts.where([pair.passage for pair in batch])
        judged = before[0][asked] @ before[1][owner].T
        false = (judged > judged.diagonal()[:, None]).fill_diagonal_(False)
        with torch.autocast("cpu", torch.bfloat16):
            left, right = finished(model, queries.take(asked), fixed), finished(model, passages.take(owner), fixed)
        loss = contrast(left.float(), right.float(), owner, recipe.temperature, false)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(
                f"step {step} of {len(plan)}, loss {loss.item():.3f}, {time.perf_counter() - start:.0f} s", flush=True
            )
    return model


@torch.no_grad()
def finished_all(model: Transformer, half: Halfway, fixed: int) -> Tensor:
    out = torch.empty(len(half.hidden), 384)
    for part in torch.argsort(half.texts.lengths).split(256):
        with torch.autocast("cpu", torch.bfloat16):
            out[part] = finished(model, half.take(part), fixed)
    return out
