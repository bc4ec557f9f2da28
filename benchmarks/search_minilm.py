"""Our searches by meaning, with the stock embedding model."""

from collections.abc import Iterable
from pathlib import Path

from search_ours import build

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, HybridSearcher, OnnxEmbedder
from toolcrib.discovery.evaluation import IndexFinder
from toolcrib.model import Tool

__all__ = ["build_embedding", "build_hybrid"]

MODEL = Path(__file__).parents[1] / ".models" / "minilm"
"""What training/export.py writes."""


def build_embedding(tools: Iterable[Tool]) -> IndexFinder:
    """Index the vectors of the stock model."""
    return build(tools, EmbeddingSearcher(OnnxEmbedder(MODEL)))


def build_hybrid(tools: Iterable[Tool]) -> IndexFinder:
    """Index words and the vectors of the stock model."""
    return build(tools, HybridSearcher(Bm25Searcher(), EmbeddingSearcher(OnnxEmbedder(MODEL))))
