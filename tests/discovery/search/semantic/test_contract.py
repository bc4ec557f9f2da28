"""The embedding searcher keeps the contract of searchers, with either kind of embedder."""

from contracts.searcher import SearcherContract
from discovery.support import RemoteEmbedder, WordEmbedder

from toolcrib.discovery import EmbeddingSearcher


class TestLocal(SearcherContract):
    def make(self) -> EmbeddingSearcher:
        return EmbeddingSearcher(WordEmbedder())


class TestRemote(SearcherContract):
    def make(self) -> EmbeddingSearcher:
        return EmbeddingSearcher(RemoteEmbedder())


class TestWide(SearcherContract):
    def make(self) -> EmbeddingSearcher:
        return EmbeddingSearcher(WordEmbedder(), dtype="int16", batch=1)
