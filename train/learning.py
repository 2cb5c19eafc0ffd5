"""How the towers learn from pairs: contrast for the transformer, soft labels for the table, then both together.

Knows losses and batches; where the pairs come from is not its business.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from corpus import Pair
from towers import DEVICE, PASSAGE_TOKENS, QUERY_TOKENS, Static, Texts, Transformer, vectors

Sources = Sequence[tuple[Sequence[Pair], int]]


@dataclass(frozen=True)
class Recipe:
    """What one fine-tuning run does."""

    epochs: int = 3
    batch: int = 1024
    rate: float = 1e-4
    temperature: float = 0.02
    grouped: int = 8
    brief: float = 0.25
    table_rate: float = 5e-4
    table_temperature: float = 0.04
    seed: int = 17


def epoch(pairs: Sequence[Pair], recipe: Recipe, seed: int) -> Iterator[list[Pair]]:
    """Shuffled batches in which tools of one family often meet, since telling siblings apart is the task."""
    shuffle = random.Random(seed)
    families: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        families[pair.family].append(pair)
    groups: list[list[Pair]] = []
    for members in families.values():
        shuffle.shuffle(members)
        groups += [members[i : i + recipe.grouped] for i in range(0, len(members), recipe.grouped)]
    shuffle.shuffle(groups)
    flat = [pair for group in groups for pair in group]
    for start in range(0, len(flat) - recipe.batch // 2, recipe.batch):
        yield flat[start : start + recipe.batch]


def contrast(queries: Tensor, tools: Tensor, owner: Tensor, temperature: float, false: Tensor | None = None) -> Tensor:
    """InfoNCE both ways; another request of the same tool, or what a guide calls false, is no negative."""
    same = (owner[:, None] == owner[None, :]).fill_diagonal_(False)
    logits = (queries @ tools.T / temperature).masked_fill(same if false is None else same | false, -1e4)
    target = torch.arange(len(owner), device=logits.device)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def planned(sources: Sources, recipe: Recipe) -> list[list[Pair]]:
    """All batches of a run in order; each source is passed `times` per epoch."""
    plan: list[list[Pair]] = []
    for turn in range(recipe.epochs):
        seeds = [(pairs, recipe.seed + 1000 * turn + 100 * n + t) for n, (pairs, times) in enumerate(sources)
                 for t in range(times)]  # fmt: skip
        batches = [batch for pairs, seed in seeds for batch in epoch(pairs, recipe, seed)]
        random.Random(recipe.seed + turn).shuffle(batches)
        plan += batches
    return plan


def fine_tune(model: Transformer, sources: Sources, tokenizer: Tokenizer, recipe: Recipe, guide: Transformer,
              static: Static | None = None) -> Transformer:  # fmt: skip
    """Teaches one transformer both sides and, where a table is given, each to meet the other's tools."""
    torch.manual_seed(recipe.seed)
    queries, passages = text_blocks([pair for pairs, _ in sources for pair in pairs], tokenizer)
    plan = planned(sources, recipe)
    groups = [{"params": list(model.parameters()), "lr": recipe.rate}]
    if static is not None:
        groups.append({"params": list(static.parameters()), "lr": recipe.table_rate})
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, fused=DEVICE == "cuda")
    peaks = [group["lr"] for group in groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peaks, total_steps=len(plan), pct_start=0.1)
    chance = random.Random(recipe.seed)
    model.train()
    for batch in plan:
        asked = queries.where([pair.query for pair in batch])
        told = passages.where([pair.brief if chance.random() < recipe.brief else pair.passage for pair in batch])
        owner = passages.where([pair.passage for pair in batch])
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            false = misleading(guide, queries.framed(asked), passages.framed(owner))
            tools = model(*passages.framed(told))
            loss = contrast(model(*queries.framed(asked)), tools, owner, recipe.temperature, false)
        if static is not None:
            looked_up = static(*thinned(queries.bare(asked)))
            loss = loss + contrast(looked_up, tools.float(), owner, recipe.table_temperature, false)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def text_blocks(pairs: Sequence[Pair], tokenizer: Tokenizer) -> tuple[Texts, Texts]:
    told = [text for pair in pairs for text in (pair.passage, pair.brief)]
    return Texts([pair.query for pair in pairs], tokenizer, QUERY_TOKENS), Texts(told, tokenizer, PASSAGE_TOKENS)


@torch.no_grad()
def misleading(guide: Transformer, q: tuple[Tensor, Tensor], p: tuple[Tensor, Tensor]) -> Tensor:
    """Negatives that the guide holds for at least as right as the labelled tool: copies and near copies."""
    judged = guide(*q) @ guide(*p).T
    return (judged > judged.diagonal()[:, None]).fill_diagonal_(False)


def fit_static(static: Static, teacher: Transformer, texts: Sequence[str], pairs: Sequence[Pair], tokenizer: Tokenizer,
               *, steps: int = 3000, batch: int = 2048, rate: float = 2e-3, hard: float = 0.25,
               seed: int = 17) -> Static:  # fmt: skip
    """Teaches the table to see queries, and tools, where the transformer sees them.

    Soft labels do the work: how the teacher spreads a text over a bank of tools says more than which tool is right, and
    a table taught by hard labels alone memorises them.
    """
    torch.manual_seed(seed)
    passages = Texts([pair.passage for pair in pairs], tokenizer, PASSAGE_TOKENS)
    bank = vectors(teacher, passages.texts, tokenizer, PASSAGE_TOKENS)
    queries = Texts([*texts, *(pair.query for pair in pairs)], tokenizer, QUERY_TOKENS)
    seen = vectors(teacher, queries.texts, tokenizer, QUERY_TOKENS)
    asks = queries.where([pair.query for pair in pairs])
    owns = passages.where([pair.passage for pair in pairs])
    optimizer = torch.optim.Adam(static.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        some = torch.randint(len(bank), (4096,), device=DEVICE)
        text = torch.randint(len(seen), (batch,), device=DEVICE)
        tool = torch.randint(len(bank), (batch // 4,), device=DEVICE)
        label = torch.randint(len(asks), (batch // 4,), device=DEVICE)
        loss = toward(static(*thinned(queries.bare(text))), seen[text], bank[some])
        loss = loss + toward(static(*thinned(passages.bare(tool)), tool=True), bank[tool], bank[some])
        asked, owner = static(*thinned(queries.bare(asks[label]))), owns[label]
        offered = static(*passages.bare(owner), tool=True)
        loss = loss + hard * (contrast(asked, bank[owner], owner, 0.05) + contrast(asked, offered, owner, 0.05))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"table: step {step} of {steps}, loss {loss.item():.3f}", flush=True)
    return static.eval()


def toward(ours: Tensor, theirs: Tensor, bank: Tensor, temperature: float = 0.05) -> Tensor:
    """How far our vectors are from the teacher's, by angle and by how both spread over a bank of tools."""
    angle = (1 - (ours * theirs).sum(1)).mean()
    said, meant = F.log_softmax(ours @ bank.T / temperature, 1), F.softmax(theirs @ bank.T / temperature, 1)
    return 2 * angle + F.kl_div(said, meant, reduction="batchmean")


def thinned(tokens: tuple[Tensor, Tensor], share: float = 0.1) -> tuple[Tensor, Tensor]:
    """The same texts with a few tokens missing."""
    ids, mask = tokens
    return ids, mask * (torch.rand_like(mask) > share)
