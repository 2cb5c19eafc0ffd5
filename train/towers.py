"""The two towers: a small transformer for tools, a static token table for queries, and texts as they read them.

Knows tensors and tokens; how the towers learn is in `learning`, how their weights are shipped in `export`.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertModel

WIDTH = 384
TABLE_WIDTH = 256
VOCABULARY = 30522
QUERY_TOKENS = 64
PASSAGE_TOKENS = 128
CLS, SEP = 101, 102
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Transformer(nn.Module):
    """MiniLM-L6 with mean pooling, as the starting weights were trained."""

    def __init__(self, state: dict[str, Tensor]) -> None:
        super().__init__()
        config = BertConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=6, num_attention_heads=12,
                            intermediate_size=1536, max_position_embeddings=512)  # fmt: skip
        self.bert = BertModel(config, add_pooling_layer=False)
        missing = self.bert.load_state_dict({k: v.float() for k, v in state.items()}, strict=False).missing_keys
        assert not [key for key in missing if "position_ids" not in key], missing

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize(((hidden * weight).sum(1) / weight.sum(1)).float(), dim=-1)


class Static(nn.Module):
    """A row and a weight per token: a text is the weighted sum of its tokens, mapped into the transformer's space."""

    def __init__(self, rows: Tensor, out: Tensor, weights: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows.clone())
        self.out = nn.Parameter(out.clone())
        self.query_weight = nn.Parameter(weights[:, None].clone())
        self.tool_weight = nn.Parameter(weights[:, None].clone())

    def forward(self, ids: Tensor, mask: Tensor, *, tool: bool = False) -> Tensor:
        # F.embedding skips the padding going back; indexing would add up thousands of its gradients one by one
        weight = F.embedding(ids, self.tool_weight if tool else self.query_weight, padding_idx=0).squeeze(-1)
        pooled = torch.einsum("bt,btw->bw", F.softplus(weight) * mask, F.embedding(ids, self.rows, padding_idx=0))
        return F.normalize(F.normalize(pooled, dim=-1) @ self.out, dim=-1)


class Texts:
    """Tokenised texts in one padded block on the device; special tokens go around them on request."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> None:
        self.texts = list(dict.fromkeys(texts))
        self.place = {text: i for i, text in enumerate(self.texts)}
        rows = [e.ids[: limit - 2] for e in tokenizer.encode_batch(self.texts, add_special_tokens=False)]
        self.lengths = torch.tensor([len(row) for row in rows], device=DEVICE)
        block = torch.zeros(len(rows), limit, dtype=torch.int32)
        for i, row in enumerate(rows):
            block[i, 0] = CLS
            block[i, 1 : len(row) + 1] = torch.tensor(row, dtype=torch.int32)
            block[i, len(row) + 1] = SEP
        self.block = block.to(DEVICE)

    def where(self, texts: Sequence[str]) -> Tensor:
        return torch.tensor([self.place[text] for text in texts], device=DEVICE)

    def framed(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens between [CLS] and [SEP], for the transformer."""
        lengths = self.lengths[index] + 2
        ids = self.block[index, : int(lengths.max())].long()
        return ids, (torch.arange(ids.shape[1], device=DEVICE) < lengths[:, None]).long()

    def bare(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens alone, for the table."""
        lengths = self.lengths[index]
        ids = self.block[index, 1 : max(2, int(lengths.max()) + 1)].long()
        return ids, (torch.arange(ids.shape[1], device=DEVICE) < lengths[:, None]).float()


@torch.no_grad()
def vectors(model: Transformer, texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> Tensor:
    """The transformer's vectors of many texts, by length to spare padding."""
    model.eval()
    block = Texts(texts, tokenizer, limit)
    order = torch.argsort(block.lengths)
    out = torch.empty(len(block.texts), WIDTH, device=DEVICE)
    for part in order.split(2048):
        with torch.autocast(DEVICE, torch.bfloat16):
            out[part] = model(*block.framed(part))
    return out[block.where(texts)]


@torch.no_grad()
def first_table(model: Transformer) -> tuple[Tensor, Tensor]:
    """Each token's own vector, as the transformer sees it alone, in the space's main directions."""
    rows: list[Tensor] = []
    model.eval()
    for ids in torch.arange(VOCABULARY, device=DEVICE).split(2048):
        text = torch.stack([torch.full_like(ids, CLS), ids, torch.full_like(ids, SEP)], 1)
        with torch.autocast(DEVICE, torch.bfloat16):
            rows.append(model(text, torch.ones_like(text)))
    table = torch.cat(rows)
    _, _, directions = torch.linalg.svd(table[1000:], full_matrices=False)
    out = directions[:TABLE_WIDTH]
    return table @ out.T, out


def token_weights(texts: Sequence[str], tokenizer: Tokenizer) -> Tensor:
    """Rare tokens say more; the table may learn better."""
    counts = torch.zeros(VOCABULARY)
    for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        counts.index_add_(0, torch.tensor(encoding.ids, dtype=torch.long), torch.ones(len(encoding.ids)))
    share = counts / counts.sum()
    return torch.log(torch.expm1((1e-3 / (1e-3 + share)).clamp(min=0.05))).to(DEVICE)


@torch.no_grad()
def static_vectors(static: Static, texts: Sequence[str], tokenizer: Tokenizer, *, tool: bool = False) -> Tensor:
    block = Texts(texts, tokenizer, PASSAGE_TOKENS if tool else QUERY_TOKENS)
    return torch.cat([static(*block.bare(part), tool=tool) for part in block.where(texts).split(4096)])
