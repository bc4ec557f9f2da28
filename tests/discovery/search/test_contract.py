"""Every searcher keeps the one contract."""

from contracts.searcher import SearcherContract
from discovery.support import WordEmbedder

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, HybridSearcher
from toolcrib.discovery.search.hybrid import default_searcher


class TestBm25Searcher(SearcherContract):
    def make(self) -> Bm25Searcher:
        return Bm25Searcher()


class TestHybridSearcher(SearcherContract):
    def make(self) -> HybridSearcher:
        return HybridSearcher(Bm25Searcher(), EmbeddingSearcher(WordEmbedder()))


class TestDefaultSearcher(SearcherContract):
    def make(self) -> HybridSearcher:
        return default_searcher()
