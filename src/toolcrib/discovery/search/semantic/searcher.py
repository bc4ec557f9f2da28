"""Search by meaning: tools ranked by the cosine of their embeddings to the question's."""

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
from toolcrib.discovery.search.confidence import RelevanceClassifier, confidence_by_meaning
from toolcrib.discovery.search.semantic.documents import DocumentVectors, LiveVectors, Method
from toolcrib.discovery.search.semantic.languages import ForeignQuestions, is_english
from toolcrib.discovery.search.semantic.marks import MarkIndex
from toolcrib.discovery.search.semantic.source import CallerHooks, TextOf, VectorSource
from toolcrib.discovery.search.semantic.text import MAX_QUERY, clean, document_text, split_errands
from toolcrib.discovery.search.semantic.vectors import Floats, Precision
from toolcrib.errors import EmbeddingError

T = TypeVar("T")
Progress = Callable[[int, int], object]
"""Called with the number of documents that have vectors, and the number of all documents."""

_MAX_CACHED_QUERIES = 256
"""The number of questions whose vectors are cached."""


class EmbeddingSearcher:
    """Ranks tools by the cosine similarity of their embeddings to the question's.

    The cosine of a tool is raised if the question names one of its tags, its category or one of its modes,
    and lowered if the tool is deprecated.

    A question that asks for several things has a vector for each part and one for the whole. The score of a
    tool is then the mean of its cosine to the whole and its highest cosine to a part.

    An update is only queued. The vectors it needs are computed by the next search, or earlier by `prepare`.
    Each distinct text is embedded once, by one thread, and the others wait for it. With a `cache` and an
    embedder that has a `key`, vectors are kept across restarts. If the embedder fails, the search fails too;
    the next one tries again.

    The synchronous methods call a `LocalEmbedder` in the calling thread, and any other embedder on a private
    event loop, which `close` ends. The asynchronous ones await the embedder in the caller's event loop and
    can be cancelled.
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
            embedder: the embedding model.
            cache: a persistent cache of vectors by content hash, such as a `Store`.
            batch: the number of texts embedded at once, at most 1,000.
            dtype: the type of the stored numbers.
            exact_limit: above this many tools `prepare` builds a neighbour graph, if usearch is installed.
            text: returns the text of a tool that is embedded; its vectors are cached if it has a `key`.
            calibration: the cosine at which a tool is as likely to fit as not, and the slope of the log-odds.
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
        """The hooks of the synchronous methods."""
        self._queries: LruCache[str, Floats] = LruCache(_MAX_CACHED_QUERIES)
        """The vectors of recent questions."""

    @property
    def judge(self) -> RelevanceClassifier | None:
        """The relevance classifier of the embedder; None if it has none."""
        judge = getattr(self._embedder, "judge", None)
        return judge if isinstance(judge, RelevanceClassifier) else None

    @property
    def _languages(self) -> ForeignQuestions | None:
        found = getattr(self._embedder, "languages", None)
        return found if isinstance(found, ForeignQuestions) else None

    @property
    def reads_languages(self) -> bool:
        """Whether questions in languages other than English have vectors near those of English tools."""
        return self._languages is not None

    @property
    def pending(self) -> int:
        """The number of changed tools whose vectors `prepare` or the next search will compute."""
        return self._live.pending

    @property
    def method(self) -> Method:
        """The method of a search among all tools: comparing each, or a neighbour graph."""
        return self._live.method

    def update(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Remove ids and add tools; a tool whose id is already there is replaced."""
        self._marks.queue(added, removed)  # first, so that no search sees a vector without its topics
        self.update_vectors(added, removed)

    def update_vectors(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Do the same as `update`, without topics, for a caller that needs cosines alone."""
        self._live.queue(added, removed)

    def prepare(self, progress: Progress | None = None) -> None:
        """Compute the missing vectors, and build the neighbour graph if there are enough tools for one."""
        self._prepare(self._hooks if progress is None else replace(self._hooks, report=progress))

    async def aprepare(self, progress: Progress | None = None) -> None:
        """Do the same as `prepare` without blocking the event loop; `progress` is called in the loop."""
        await _in_thread(self._prepare, self._hooks_for_async(progress))

    def search(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
    ) -> Ranking:
        """Return the tools nearest to a query: only ids in `among`, if given, and none in `exclude`.

        Raises:
            EmbeddingError: the embedder failed.
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
        """Do the same as `search` without blocking the event loop."""
        return await _in_thread(self._search, self._hooks_for_async(), query, limit, among, exclude)

    async def awarm(self, query: str) -> None:
        """Embed a query and the changed tools in advance, so that the synchronous methods need not wait."""
        await _in_thread(self.embed_query, query, self._hooks_for_async())

    def embed_query(self, query: str, hooks: CallerHooks | None = None) -> Floats | None:
        """Embed a query, and apply all updates that were queued before the call.

        Return one row, or several for a query in parts (see `VectorTable.cosines`); None if the query is
        blank or there are no tools.
        """
        hooks = hooks or self._hooks
        key = query[:MAX_QUERY]
        vector = self._queries.get(key)
        if vector is None:
            text = clean(query, MAX_QUERY)
            if not text or not self._live:
                return None
            texts = [text, *split_errands(text)]
            if is_english(text) or (languages := self._languages) is None:
                vectors = self._source.embed(hooks, texts)
            else:
                vectors = languages.encode(texts)
            vector = vectors if len(vectors) > 1 and vectors.any(axis=1).all() else vectors[0]
            self._queries.put(key, vector)
        self._live.apply_updates(hooks)
        return vector if vector.any() else None

    def read_vectors(self, question: Callable[[DocumentVectors], T]) -> T | None:
        """Return the result of a function on the current vectors of the tools; None without tools.

        The vectors do not change while the function runs. A caller that has just embedded its query
        waits only for updates that were queued in between.
        """
        self._live.apply_updates(self._hooks)
        return self._live.read(question)

    def cosines(self, query: str, ids: Iterable[str]) -> Floats:
        """Return the cosine of a query to each tool; 0 for an unknown one."""
        wanted, vector = list(ids), self.embed_query(query)
        if vector is None:
            return np.zeros(len(wanted), np.float32)
        found = self._live.read(lambda documents: documents.cosines(vector, wanted))
        return np.zeros(len(wanted), np.float32) if found is None else found

    def confidence(self, cosine: float) -> float:
        """Return the confidence of a tool with this cosine, in [0, 1]."""
        return confidence_by_meaning(self.log_odds(cosine))

    def log_odds(self, cosine: float) -> float:
        """Return the log-odds that a tool with this cosine fits."""
        return self._slope * (cosine - self._midpoint)

    def close(self) -> None:
        """Stop the private event loop; the searcher can still be used and starts another if it needs one."""
        loop, self._loop = self._loop, LoopThread()
        loop.close()

    def _prepare(self, hooks: CallerHooks) -> None:
        self._live.apply_updates(hooks)
        self._live.link_graph(hooks)

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
        self._marks.apply_updates()  # before the lock of the vectors is taken, since it may take long
        vector = self.embed_query(query, hooks)
        if vector is None:
            return Ranking()

        def rank(documents: DocumentVectors) -> Ranking:
            marked = self._marks.find_marked(query)
            # Lowering n deprecated tools can move n others into the first `limit`.
            count = limit + len(marked.deprecated)
            near = documents.nearest(vector, count, among, exclude)
            cosines = dict(near.found)
            for ids in marked.groups.values():
                inside = ids if among is None else ids & among
                cosines |= documents.nearest(vector, count, inside, exclude).found
            adjusted = sorted((-marked.adjust(name, cosine), name) for name, cosine in cosines.items())
            hits = [Hit(name, -score, self.confidence(-score)) for score, name in adjusted[:limit]]
            return Ranking(hits, near.total)

        return self._live.read(rank) or Ranking()

    def _hooks_for_async(self, progress: Progress | None = None) -> CallerHooks:
        """Return the hooks of a worker thread that works for an asynchronous caller."""
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
        from_thread.check_cancelled()  # raises the cancellation in the form that the event loop expects


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run a blocking function in a thread outside anyio's shared limit, since it may wait for long."""
    return await to_thread.run_sync(partial(function, *args), limiter=CapacityLimiter(1))
