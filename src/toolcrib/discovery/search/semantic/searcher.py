"""Search by meaning: the tools whose vectors lie nearest to the question's."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from anyio import CapacityLimiter, from_thread, to_thread

from toolcrib.concurrency.loop import LoopEndedError, LoopThread
from toolcrib.concurrency.lru import LruCache
from toolcrib.discovery.protocols import Derived, Embedder, Hit, Indexed, LocalEmbedder, Ranking
from toolcrib.discovery.records import ScoreType
from toolcrib.discovery.search.confidence import confidence_by_meaning
from toolcrib.discovery.search.relevance import RelevanceClassifier
from toolcrib.discovery.search.semantic.documents import DocumentVectors, Method
from toolcrib.discovery.search.semantic.live import LiveVectors
from toolcrib.discovery.search.semantic.marks import MarkIndex
from toolcrib.discovery.search.semantic.source import CallerHooks, TextOf, VectorSource
from toolcrib.discovery.search.semantic.text import MAX_QUERY, clean, document_text, errands
from toolcrib.discovery.search.semantic.vectors import Floats, Precision
from toolcrib.errors import EmbeddingError

T = TypeVar("T")
Progress = Callable[[int, int], object]
"""Called with how many documents of how many have their vectors."""

_MAX_QUERIES = 256
"""How many questions' vectors are remembered."""


class EmbeddingSearcher:
    """Ranks tools by the cosine of their vectors to the question's.

    Where the question names a tag, the category or a mode of a tool, its cosine is raised; that of a
    deprecated tool is lowered.

    A question that asks for several things has a vector for each of them, beside its own: a tool's score is
    the mean of its cosine to the whole and of the highest to a part.

    An update is only noted. The vectors it asks for are made by the first search after it, or by `prepare`
    ahead of any; each content hash is embedded once, by whichever thread comes first, and the others wait for
    it. With a `cache` and an embedder that has a `key`, vectors outlive the process. When the embedder fails,
    so does the search that needed it, and the next one tries again for what is still missing.

    The synchronous methods call a `LocalEmbedder` in the calling thread, and any other on a private event
    loop, which `close` ends. The asynchronous ones await it in the caller's event loop and can be cancelled.
    """

    score_type: ScoreType = "embedding"

    def __init__(  # noqa: PLR0913 - options, each with a default
        self,
        embedder: Embedder,
        *,
        cache: Derived | None = None,
        batch: int = 256,
        dtype: Precision = "int8",
        exact_limit: int = 50_000,
        text: TextOf = document_text,
        calibration: tuple[float, float] = (0.63, 10.2),
    ) -> None:
        """Search with an embedder.

        Args:
            embedder: makes vectors of texts.
            cache: keeps vectors by content hash; a `Store` does.
            batch: how many texts the embedder is given at once, 1,000 at most.
            dtype: how the numbers of a vector are kept.
            exact_limit: above so many tools `prepare` builds a graph of neighbours, if usearch is installed.
            text: the text of a tool that is embedded; vectors of it are cached if it has a `key`.
            calibration: the cosine of a tool that is as likely to fit as not, and how steeply that changes.
        """
        if not callable(getattr(embedder, "embed", None)):
            raise EmbeddingError(f"{type(embedder).__name__} has no method `async embed(texts)`")
        self._embedder = embedder
        self._encode = embedder.encode if isinstance(embedder, LocalEmbedder) else None
        self._source = VectorSource(embedder, text=text, cache=cache, batch=batch)
        self._live = LiveVectors(self._source, precision=dtype, exact_limit=exact_limit)
        self._marks = MarkIndex(cache)
        self._midpoint, self._slope = calibration
        self._loop = LoopThread()
        self._hooks = CallerHooks(self._encode or self._embed_in_loop)
        """How the synchronous methods wait."""
        self._queries: LruCache[str, Floats] = LruCache(_MAX_QUERIES)
        """The vectors of the latest questions."""

    @property
    def judge(self) -> RelevanceClassifier | None:
        """What tells whether a tool does what is asked, where the embedder brings it."""
        judge = getattr(self._embedder, "judge", None)
        return judge if isinstance(judge, RelevanceClassifier) else None

    @property
    def pending(self) -> int:
        """How many tools have changed, and wait for `prepare` or for the next search."""
        return self._live.pending

    @property
    def method(self) -> Method:
        """How a search among all tools goes about it: by looking at each, or by a graph of neighbours."""
        return self._live.method

    def update(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Forget the removed ids and learn the added tools; an id known already is replaced."""
        self._marks.note(added, removed)  # first, so that no vector is seen without them
        self.update_vectors(added, removed)

    def update_vectors(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Do what `update` does, without topics: for a caller that asks for cosines alone."""
        self._live.note(added, removed)

    def prepare(self, progress: Progress | None = None) -> None:
        """Make the vectors that are missing, and build the graph of neighbours where there should be one."""
        self._prepare(self._hooks if progress is None else replace(self._hooks, report=progress))

    async def aprepare(self, progress: Progress | None = None) -> None:
        """Do what `prepare` does, while the event loop goes on; `progress` is called in it."""
        await _in_thread(self._prepare, self._hooks_for_async(progress))

    def search(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
    ) -> Ranking:
        """Return the tools nearest to a query, among these ids where given, without the excluded ones.

        Raises:
            EmbeddingError: the embedder gave something that is no vector.
        """
        return self._search(self._hooks, query, limit, among, exclude)

    async def asearch(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
    ) -> Ranking:
        """Do what `search` does, while the event loop goes on."""
        return await _in_thread(self._search, self._hooks_for_async(), query, limit, among, exclude)

    async def awarm(self, query: str) -> None:
        """Embed a query and what else is missing, so that the synchronous methods need not wait for it."""
        await _in_thread(self.embed_query, query, self._hooks_for_async())

    def embed_query(self, query: str, hooks: CallerHooks | None = None) -> Floats | None:
        """Return the vectors of a query, once the vectors of the tools show every update before the call.

        They are a row, or several: see `VectorTable.cosines`. None if nothing is asked or known.
        """
        hooks = hooks or self._hooks
        key = query[:MAX_QUERY]
        vector = self._queries.get(key)
        if vector is None:
            text = clean(query, MAX_QUERY)
            if not text or not self._live:
                return None
            vectors = self._source.vectors(hooks, [text, *errands(text)])
            vector = vectors if len(vectors) > 1 and vectors.any(axis=1).all() else vectors[0]
            self._queries.put(key, vector)
        self._live.settle(hooks)
        return vector if vector.any() else None

    def consult(self, question: Callable[[DocumentVectors], T]) -> T | None:
        """Return what a function makes of the tools' vectors, as of the last update; None without tools.

        The vectors do not change while the function runs. A caller that has embedded its query before waits
        only for the updates that came between.
        """
        self._live.settle(self._hooks)
        return self._live.read(question)

    def cosines(self, query: str, ids: Iterable[str]) -> Floats:
        """Return the cosine of a query to each of these tools, and 0 for one that is unknown."""
        wanted, vector = list(ids), self.embed_query(query)
        if vector is None:
            return np.zeros(len(wanted), np.float32)
        found = self._live.read(lambda documents: documents.cosines(vector, wanted))
        return np.zeros(len(wanted), np.float32) if found is None else found

    def confidence(self, cosine: float) -> float:
        """Return how likely a tool with this cosine is to fit, in [0, 1]."""
        return confidence_by_meaning(self.exponent(cosine))

    def exponent(self, cosine: float) -> float:
        """Return the logarithm of the odds that a tool with this cosine fits."""
        return self._slope * (cosine - self._midpoint)

    def close(self) -> None:
        """End the private event loop, if it runs; the searcher can still be used."""
        loop, self._loop = self._loop, LoopThread()
        loop.close()

    def _prepare(self, hooks: CallerHooks) -> None:
        self._live.settle(hooks)
        self._live.link(hooks)

    def _search(
        self,
        hooks: CallerHooks,
        query: str,
        limit: int,
        among: AbstractSet[str] | None,
        exclude: AbstractSet[str],
    ) -> Ranking:
        if limit <= 0 or (among is not None and not among):
            return Ranking()

        self._marks.settle()  # not while vectors are being read, since it may take long
        vector = self.embed_query(query, hooks)
        if vector is None:
            return Ranking()

        def rank(documents: DocumentVectors) -> Ranking:
            marked = self._marks.marked(query)
            # Lowering some lets as many others move up.
            count = limit + len(marked.deprecated)
            near = documents.near(vector, count, among, exclude)
            cosines = dict(near.found)
            for ids in marked.groups.values():
                inside = ids if among is None else ids & among
                cosines |= documents.near(vector, count, inside, exclude).found
            adjusted = sorted((-marked.adjust(name, cosine), name) for name, cosine in cosines.items())
            hits = [Hit(name, -score, self.confidence(-score)) for score, name in adjusted[:limit]]
            return Ranking(hits, near.total)

        return self._live.read(rank) or Ranking()

    def _hooks_for_async(self, progress: Progress | None = None) -> CallerHooks:
        """Return how a thread waits that works for an asynchronous caller."""
        embed = self._encode or partial(_embed_in_caller_loop, self._embedder)
        if progress is None:
            return CallerHooks(embed, from_thread.check_cancelled)
        return CallerHooks(
            embed, from_thread.check_cancelled, lambda *counts: from_thread.run_sync(progress, *counts)
        )

    def _embed_in_loop(self, texts: Sequence[str]) -> Any:
        try:
            return self._loop.call(lambda: self._embedder.embed(texts))
        except LoopEndedError as error:
            raise EmbeddingError("the searcher was closed while it waited for the embedder") from error


def _embed_in_caller_loop(embedder: Embedder, texts: Sequence[str]) -> Any:
    try:
        return from_thread.run(embedder.embed, texts)
    finally:
        from_thread.check_cancelled()  # says it in the way that the event loop understands


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    """Return what a function returns that may have to wait, without using up the threads that all share."""
    return await to_thread.run_sync(partial(function, *args), limiter=CapacityLimiter(1))
