"""Development measurement while training: dense alone and fused with our words, per set, on the training device.

Uses the engine's own documents, postings and scores; the numbers that count are those of `bench/retrieval.py`, which
goes through the public face.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from toolcrib.search.documents import Document, read_document
from toolcrib.search.evaluation import Dataset, Question, judge
from toolcrib.search.fusion import words_share
from toolcrib.search.lexical import Postings
from toolcrib.search.words import query_terms
from towers import DEVICE

SHARES = (0.25, 0.35)


class Bench:
    """The development sets with their word scores, worked out once."""

    def __init__(self, folder: Path, cap: int = 300, modes: Sequence[str] = ("own", "full"), sets: int = 0) -> None:
        data = Dataset.read(folder).capped(cap)
        self.parts: list[tuple[str, list[Document], list[str], list[Question], Tensor, Tensor]] = []
        for mode in modes:
            for tools, questions in data.corpora(mode):
                documents = [read_document(tool) for tool in tools]
                ids = [tool["id"] for tool in tools]
                words, shares = self._words(documents, questions)
                self.parts.append((mode, documents, ids, questions, words, shares))
        self.parts = self.parts[-sets:]
        self.passages = list(dict.fromkeys(d.passage() for part in self.parts for d in part[1]))
        self.queries = list(dict.fromkeys(q.query for part in self.parts for q in part[3]))

    @staticmethod
    def _words(documents: Sequence[Document], questions: Sequence[Question]) -> tuple[Tensor, Tensor]:
        postings = Postings.build(documents)
        rows, shares = [], []
        for question in questions:
            asked = query_terms(question.query)
            row = postings.scores(postings.understood(asked))
            shares.append(words_share(len(asked)))
            rows.append(row / max(float(row.max()), 1e-9))
        return torch.tensor(np.stack(rows), device=DEVICE), torch.tensor(shares, device=DEVICE)

    @torch.no_grad()
    def report(
        self, embed_tools: Callable[[list[str]], Tensor], embed_queries: Callable[[list[str]], Tensor]
    ) -> dict[str, dict[str, dict[str, float]]]:
        """mode → column → set → nDCG@10; columns are dense alone and some fusion shares."""
        tools = dict(zip(self.passages, embed_tools(self.passages), strict=True))
        asked = dict(zip(self.queries, embed_queries(self.queries), strict=True))
        table: dict[str, dict[str, dict[str, list[float]]]] = {}
        for mode, documents, ids, questions, words, shares in self.parts:
            matrix = torch.stack([tools[d.passage()] for d in documents])
            cosines = torch.stack([asked[q.query] for q in questions]) @ matrix.T
            floor = cosines.min(1, keepdim=True).values.clamp(min=0)
            dense = (cosines - floor).clamp(min=0) / (cosines.max(1, keepdim=True).values - floor)
            columns = {"dense": dense, "fused": shares[:, None] * words + (1 - shares[:, None]) * dense}
            columns |= {f"words {share}": share * words + (1 - share) * dense for share in SHARES}
            for column, scores in columns.items():
                for question, best in zip(questions, scores.topk(10, 1).indices.tolist(), strict=True):
                    gain = judge([ids[i] for i in best], question.gold)[3]
                    table.setdefault(mode, {}).setdefault(column, {}).setdefault(question.set, []).append(gain)
        return {m: {c: {s: float(np.mean(v)) for s, v in sets.items()} for c, sets in cols.items()}
                for m, cols in table.items()}  # fmt: skip


def show(title: str, report: dict[str, dict[str, dict[str, float]]]) -> None:
    for mode, columns in report.items():
        line = [f"{column} {np.mean(list(sets.values())):.4f}" for column, sets in columns.items()]
        print(f"{title:28s} {mode:5s}", " | ".join(line), flush=True)
    best = report["own"]["fused"]
    print(" " * 28, " ".join(f"{name[:8]} {100 * value:.1f}" for name, value in best.items()), flush=True)
