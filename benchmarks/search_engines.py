"""The engines that are measured, by name, and where each is built; none is imported before it is needed."""

from collections.abc import Callable, Iterable
from importlib import import_module

from toolcrib.discovery.evaluation import Finder
from toolcrib.model import Tool

OURS = {
    "toolcrib": "search_ours.build",
    "toolcrib, Bm25Searcher alone": "search_ours.build_searcher",
    "toolcrib, words alone": "search_ours.build_words",
    "toolcrib, table alone": "search_models.build_table",
    "toolcrib, MiniLM alone": "search_models.build_minilm",
    "toolcrib, words and MiniLM": "search_models.build_words_and_minilm",
    "toolcrib, words and stock MiniLM": "search_models.build_words_and_stock",
}
"""Our own engines; the first is that of `Index()`."""
ENGINES = OURS | {
    "bm25s as installed": "search_peers.build_bm25s",
    "bm25s, stems and stop words": "search_peers.build_bm25s_stemmed",
    "bm25s, our tokens": "search_peers.build_bm25s_ours",
    "rank-bm25": "search_peers.build_rank_bm25",
    "tantivy": "search_peers.build_tantivy",
    "SQLite FTS5": "search_peers.build_fts5",
    "FastMCP search": "search_fastmcp.build_fastmcp",
}


def builder(engine: str) -> Callable[[Iterable[Tool]], Finder]:
    """Return the function that indexes tools with an engine."""
    module, _, function = ENGINES[engine].partition(".")
    found: Callable[[Iterable[Tool]], Finder] = getattr(import_module(module), function)
    return found
