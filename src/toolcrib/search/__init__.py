"""A small retrieval library for tools: MCP-style definitions in, ranked names out.

It stands alone: nothing of toolcrib is imported here, and the bare install needs numpy only. Models load when an index
first asks for them, never at import.
"""

from toolcrib.search.dense import Encoder, MemoryCache, VectorCache
from toolcrib.search.documents import Document
from toolcrib.search.engine import Explanation, Hit, ToolIndex
from toolcrib.search.models import WordsOnly, best_installed, full_transformer, quickest, static_table, two_towers
from toolcrib.search.storing import UnreadableIndex

__all__ = [
    "Document",
    "Encoder",
    "Explanation",
    "Hit",
    "MemoryCache",
    "ToolIndex",
    "UnreadableIndex",
    "VectorCache",
    "WordsOnly",
    "best_installed",
    "full_transformer",
    "quickest",
    "static_table",
    "two_towers",
]
