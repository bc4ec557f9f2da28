"""Our searches by meaning: with our own models, and with the stock one."""

from collections.abc import Iterable
from pathlib import Path

from search_ours import build

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, HybridSearcher, OnnxEmbedder, load_embedder
from toolcrib.discovery.evaluation import IndexFinder
from toolcrib.model import Tool

STOCK = Path(__file__).parents[1] / ".models" / "minilm"
"""The output of training/export.py."""


def build_table(tools: Iterable[Tool]) -> IndexFinder:
    """Index the vectors of the built-in table."""
    return build(tools, EmbeddingSearcher(load_embedder()))


def build_minilm(tools: Iterable[Tool]) -> IndexFinder:
    """Index the vectors of our MiniLM."""
    return build(tools, EmbeddingSearcher(load_embedder("minilm")))


def build_words_and_minilm(tools: Iterable[Tool]) -> IndexFinder:
    """Index words and the vectors of our MiniLM."""
    return build(tools, HybridSearcher(Bm25Searcher(), EmbeddingSearcher(load_embedder("minilm"))))


def build_words_and_stock(tools: Iterable[Tool]) -> IndexFinder:
    """Index words and the vectors of the stock MiniLM."""
    return build(tools, HybridSearcher(Bm25Searcher(), EmbeddingSearcher(OnnxEmbedder(STOCK))))
