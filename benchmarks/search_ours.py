"""Our own ways of searching, in the shape that the benchmark measures."""

from collections.abc import Iterable
from dataclasses import dataclass

from toolcrib.discovery import Bm25Searcher, Index, Searcher
from toolcrib.discovery.evaluation import IndexFinder, finder_of
from toolcrib.discovery.search.text import FIELD_WEIGHTS, index_terms, question_terms, search_doc, words
from toolcrib.model import Tool


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool as an index hands it to its searcher."""

    id: str
    tool: Tool
    content_hash: str
    examples: tuple[str, ...] = ()


def tool_tokens(tool: Tool) -> list[str]:
    """Return the terms that we file a tool under, each as often as its field counts, and at least once."""
    return [
        term
        for field, text in search_doc(tool).fields
        for word in words(text)
        for term in index_terms(word)
        for _ in range(max(1, round(FIELD_WEIGHTS[field])))
    ]


def query_tokens(query: str) -> list[str]:
    """Return the terms that we look a question up by."""
    return [term for word in words(query) for term, _ in question_terms(word)]


def build(tools: Iterable[Tool], searcher: Searcher | None = None) -> IndexFinder:
    """Index with one searcher, or with the default one of an index."""
    index = Index() if searcher is None else Index(searcher=searcher)
    index.register_many((tool, None) for tool in tools)
    return finder_of(index)


def build_words(tools: Iterable[Tool]) -> IndexFinder:
    """Index words, and no vectors."""
    return build(tools, Bm25Searcher())


def build_searcher(tools: Iterable[Tool]) -> Bm25Searcher:
    """File tools with the searcher of an index, without the index around it."""
    searcher = Bm25Searcher()
    searcher.update([Entry(str(tool.id), tool, str(tool.id)) for tool in tools])
    return searcher
