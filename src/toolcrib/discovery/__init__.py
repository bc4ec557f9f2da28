"""The catalogue of tools, search in it, and documentation of a tool in three levels of detail."""

from toolcrib.discovery.docs import DetailLevel, DetailName, DocEntry, DocStore
from toolcrib.discovery.facade import Discovery
from toolcrib.discovery.facts import document_of, summarize
from toolcrib.discovery.index import Change, Index, IndexView, Scope
from toolcrib.discovery.protocols import Embedder, Hit, Indexed, LocalEmbedder, Ranking, Searcher
from toolcrib.discovery.records import (
    MAX_SHORT_DESCRIPTION_LEN,
    Document,
    Page,
    Reason,
    Result,
    ScoreType,
    SearchDoc,
    Summary,
)
from toolcrib.discovery.search.confidence import LOW_CONFIDENCE
from toolcrib.discovery.search.hybrid import HybridSearcher
from toolcrib.discovery.search.lexical import Bm25Searcher
from toolcrib.discovery.search.no_match import NoMatch, explain_no_match, similar_names
from toolcrib.discovery.search.semantic import (
    EmbeddingSearcher,
    HttpEmbedder,
    JoinedEmbedder,
    OnnxEmbedder,
    StaticEmbedder,
    load_embedder,
)
from toolcrib.discovery.search.text import search_doc
from toolcrib.discovery.store import MemoryStore, PostgresStore, SqliteStore, Store, StoredTool, StoreStatus
from toolcrib.model import CanonicalProvider, SchemaInfo, ToolDoc, ToolExample

__all__ = [
    "LOW_CONFIDENCE",
    "MAX_SHORT_DESCRIPTION_LEN",
    "Bm25Searcher",
    "CanonicalProvider",
    "Change",
    "DetailLevel",
    "DetailName",
    "Discovery",
    "DocEntry",
    "DocStore",
    "Document",
    "Embedder",
    "EmbeddingSearcher",
    "Hit",
    "HttpEmbedder",
    "HybridSearcher",
    "Index",
    "IndexView",
    "Indexed",
    "JoinedEmbedder",
    "LocalEmbedder",
    "MemoryStore",
    "NoMatch",
    "OnnxEmbedder",
    "Page",
    "PostgresStore",
    "Ranking",
    "Reason",
    "Result",
    "SchemaInfo",
    "Scope",
    "ScoreType",
    "SearchDoc",
    "Searcher",
    "SqliteStore",
    "StaticEmbedder",
    "Store",
    "StoreStatus",
    "StoredTool",
    "Summary",
    "ToolDoc",
    "ToolExample",
    "document_of",
    "explain_no_match",
    "load_embedder",
    "search_doc",
    "similar_names",
    "summarize",
]
