"""Other search engines behind one shape, so that each gets the same tools and the same questions.

Every one is given the whole text that we read of a tool. What it makes of that is its own: each is used as
its documentation shows.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import bm25s
import rank_bm25
import Stemmer
import tantivy
from search_ours import query_tokens, tool_tokens

from toolcrib.discovery.protocols import Hit
from toolcrib.discovery.search.text import search_doc
from toolcrib.model import Tool

WORD = re.compile(r"\w+")

Tokens = list[str]


def text_of(tool: Tool) -> str:
    """Return everything that we read of a tool, as one text."""
    return " ".join(text for _, text in search_doc(tool).fields)


def hits(ids: Sequence[str], found: Iterable[tuple[int, float]]) -> list[Hit]:
    """Return hits; the confidence is the score squeezed into [0, 1], in the same order."""
    return [Hit(ids[place], score, score / (1 + score)) for place, score in found if score > 0]


@dataclass(frozen=True, slots=True)
class Bm25s:
    """The engine bm25s, with some way to make tokens."""

    ids: list[str]
    engine: bm25s.BM25
    tokens_of: Callable[[str], Tokens]

    def search(self, query: str, *, limit: int) -> list[Hit]:
        """Return the best hits."""
        tokens = self.tokens_of(query)
        if not tokens:
            return []
        best = min(limit, len(self.ids))
        places, scores = self.engine.retrieve([tokens], k=best, show_progress=False, n_threads=0)
        return hits(self.ids, zip(places[0].tolist(), scores[0].tolist(), strict=True))


def build_bm25s(tools: Iterable[Tool], **options: Any) -> Bm25s:
    """Index with bm25s' own tokenizer and these options of it."""
    ids, texts = ids_and_texts(tools)
    engine = bm25s.BM25()
    engine.index(bm25s.tokenize(texts, show_progress=False, **options), show_progress=False)

    def tokens_of(query: str) -> Tokens:
        found: list[Tokens] = bm25s.tokenize([query], return_ids=False, show_progress=False, **options)
        return found[0]

    return Bm25s(ids, engine, tokens_of)


def build_bm25s_stemmed(tools: Iterable[Tool]) -> Bm25s:
    """Index with stems, and with the longer of bm25s' lists of English stop words."""
    return build_bm25s(tools, stopwords="english_plus", stemmer=Stemmer.Stemmer("english"))


def build_bm25s_ours(tools: Iterable[Tool]) -> Bm25s:
    """Index with our tokens."""
    ids, tokens = [], []
    for tool in tools:
        ids.append(str(tool.id))
        tokens.append(tool_tokens(tool))
    engine = bm25s.BM25()
    engine.index(tokens, show_progress=False)
    return Bm25s(ids, engine, query_tokens)


@dataclass(frozen=True, slots=True)
class RankBm25:
    """The engine rank-bm25."""

    ids: list[str]
    engine: rank_bm25.BM25Okapi

    def search(self, query: str, *, limit: int) -> list[Hit]:
        """Return the best hits."""
        scores = self.engine.get_scores(words(query))
        best = scores.argsort()[::-1][:limit]
        return hits(self.ids, [(int(place), float(scores[place])) for place in best])


def build_rank_bm25(tools: Iterable[Tool]) -> RankBm25:
    """Index lower-case words."""
    ids, texts = ids_and_texts(tools)
    return RankBm25(ids, rank_bm25.BM25Okapi([words(text) for text in texts]))


@dataclass(frozen=True, slots=True)
class Tantivy:
    """The engine tantivy."""

    ids: list[str]
    index: tantivy.Index
    searcher: tantivy.Searcher

    def search(self, query: str, *, limit: int) -> list[Hit]:
        """Return the best hits."""
        parsed = self.index.parse_query(" ".join(words(query)), ["text"])
        found = self.searcher.search(parsed, limit).hits
        return hits(self.ids, [(self.searcher.doc(place)["key"][0], score) for score, place in found])


def build_tantivy(tools: Iterable[Tool]) -> Tantivy:
    """Index one text field with English stems."""
    ids, texts = ids_and_texts(tools)
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", tokenizer_name="en_stem")
    schema.add_unsigned_field("key", stored=True)
    index = tantivy.Index(schema.build())
    writer = index.writer(heap_size=128_000_000, num_threads=1)
    for key, text in enumerate(texts):
        writer.add_document(tantivy.Document(text=text, key=key))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return Tantivy(ids, index, index.searcher())


@dataclass(frozen=True, slots=True)
class Fts5:
    """SQLite's full-text search."""

    ids: list[str]
    database: sqlite3.Connection

    def search(self, query: str, *, limit: int) -> list[Hit]:
        """Return the best hits."""
        wanted = " OR ".join(f'"{word}"' for word in words(query))
        if not wanted:
            return []
        rows = self.database.execute(
            "SELECT rowid, -rank FROM tools WHERE tools MATCH ? ORDER BY rank LIMIT ?", (wanted, limit)
        )
        return hits(self.ids, rows)


def build_fts5(tools: Iterable[Tool]) -> Fts5:
    """Index in memory, with Porter's stems."""
    ids, texts = ids_and_texts(tools)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE tools USING fts5(text, content='', tokenize='porter unicode61')")
    database.executemany("INSERT INTO tools(rowid, text) VALUES (?, ?)", enumerate(texts))
    return Fts5(ids, database)


def words(text: str) -> Tokens:
    """Return the words of a text in lower case."""
    return WORD.findall(text.lower())


def ids_and_texts(tools: Iterable[Tool]) -> tuple[list[str], list[str]]:
    """Return the ids of tools, and their texts."""
    pairs: Iterator[tuple[str, str]] = ((str(tool.id), text_of(tool)) for tool in tools)
    ids, texts = zip(*pairs, strict=True)
    return list(ids), list(texts)
