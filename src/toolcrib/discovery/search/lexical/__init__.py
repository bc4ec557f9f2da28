"""Search by words."""

from toolcrib.discovery.search.lexical.bm25 import Bm25Searcher

__all__ = ["Bm25Searcher"]
