"""Search by words and by meaning at once."""

import logging
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.blend import FLOOR, Blend, Candidates
from toolcrib.discovery.confidence import by_words_and_meaning
from toolcrib.discovery.judge import Evidence
from toolcrib.discovery.lexical import Bm25Searcher
from toolcrib.discovery.lexical.look import Look
from toolcrib.discovery.protocols import Derived, Hit, Indexed, Ranking
from toolcrib.discovery.sample import Sample
from toolcrib.discovery.semantic import EmbeddingSearcher, load_embedder
from toolcrib.discovery.semantic.documents import DocumentVectors
from toolcrib.errors import EmbeddingError, Problem, StoreError, ValidationError

__all__ = ["HybridSearcher", "default_searcher"]

_DEPTH = 64
"""How many of the best of either way are compared."""
_NEVER = 2.0
"""A cosine that none has."""
_FOREIGN_SHARE = 0.3
_READ = 10_000
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-z\u00aa-\u024f\u1e00-\u1eff]")

_PAUSE = 30.0
"""For how many seconds an embedder that failed is left alone."""
_LOG = logging.getLogger("toolcrib.discovery")

Floats = NDArray[np.float32]


class HybridSearcher:
    """Ranks tools by their words and by their meaning together.

    Either way's scores are measured in standard deviations above its average over the catalogue, which makes
    them comparable, and added up. Words decide more the more of the question they cover, so that a question
    in the catalogue's own words is answered as by words alone; and they decide everything where many letters
    are of a script that the embedder is not known to read. What shares no word with the question, and is not
    near to it either, is not found, unless so many tools are near that it only ends a long list.
    """

    score_type: Literal["hybrid"] = "hybrid"

    def __init__(
        self, words: Bm25Searcher, meaning: EmbeddingSearcher, *, reads_every_script: bool = False
    ) -> None:
        """Combine two searchers, which from then on are updated through this one.

        Args:
            words: searches by words.
            meaning: searches by meaning.
            reads_every_script: whether the embedder was made for texts in any script, not in Latin alone.
        """
        given = (("words", Bm25Searcher, words), ("meaning", EmbeddingSearcher, meaning))
        problems = tuple(
            Problem(f"/{name}", "type", f"must be a {kind.__name__}, not {type(one).__name__}")
            for name, kind, one in given
            if not isinstance(one, kind)
        )
        if problems:
            raise ValidationError(problems)
        self._words = words
        self._meaning = meaning
        self._reads_every_script = reads_every_script
        self._sample = Sample()
        self._resumes = 0.0
        """When the embedder is asked again."""
        self._lock = Lock()

    def update(self, added: Sequence[Indexed], removed: Sequence[str] = ()) -> None:
        """Forget the removed ids and learn the added tools; an id known already is replaced."""
        with self._lock:
            self._words.update(added, removed)
            self._meaning.update(added, removed)
            self._sample.update([entry.id for entry in added], removed)

    def search(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
    ) -> Ranking:
        """Return the tools that fit a question best in words and meaning.

        Where the embedder fails, or the store that keeps its vectors, that is logged, and words alone decide
        until it has had time to recover.
        """
        if limit > 0 and monotonic() >= self._resumes and (self._reads_every_script or _is_latin(query)):
            try:
                self._meaning.warm(query)  # what takes long happens before the lock is held
                with self._lock:
                    found = self._meaning.consult(
                        query, lambda *vectors: self._search(_Asked(query, *vectors), limit, among, exclude)
                    )
                if found is not None:
                    return found
            except (EmbeddingError, StoreError) as error:  # a store that cannot keep vectors, or is closed
                self._resumes = monotonic() + _PAUSE
                _LOG.warning("searching by words alone for %d s: %s", _PAUSE, error)
        return self._words.search(query, limit=limit, among=among, exclude=exclude)

    def evidence(self, query: str, ids: Sequence[str]) -> Evidence | None:
        """Return what is known of some tools and a question; nothing if that says nothing."""

        def found(*vectors: Any) -> Evidence:
            asked = _Asked(query, *vectors)
            look = self._words.look(query, limit=0, others=ids)
            cosines = asked.documents.cosines(asked.vector, ids)
            words = np.array([look.others.get(one, 0.0) for one in ids], np.float32)
            return asked.evidence(look, Candidates(ids, words, cosines))

        with self._lock:
            return self._meaning.consult(query, found)

    def _search(
        self, asked: "_Asked", limit: int, among: AbstractSet[str] | None, exclude: AbstractSet[str]
    ) -> Ranking | None:
        near = asked.documents.near(asked.vector, _DEPTH, among, exclude, roughly=True)
        if not near.found:
            return None
        # Where few are near, what shares a word may be anywhere; where many are, all that is left follows.
        few = near.total <= _DEPTH or near.found[_DEPTH - 1][1] < FLOOR
        first, left = dict(near.found), {}
        if limit > _DEPTH:
            count = near.total if few else limit
            left = dict(asked.documents.near(asked.vector, count, among, exclude).found)
        listed = list(first | left)
        look = self._words.look(asked.query, limit=_DEPTH, among=among, exclude=exclude, others=listed)
        words = look.others | dict(look.best)
        extra = [one for one, _ in look.best if one not in first]
        typical = self._sample.ids or list(first)  # none, if the searchers were filled before
        cosines = asked.documents.cosines(asked.vector, [*extra, *typical])
        first.update(zip(extra, cosines[: len(extra)].tolist(), strict=True))
        both = Candidates.of(first, words)
        # What is far down both lists follows by its cosine alone, so that every page continues the last.
        left = {one: cosine for one, cosine in left.items() if one not in first}
        rest = Candidates.of(left, words, _NEVER if few else -1.0)
        told, scores = Blend.of(look, cosines[len(extra) :]).best(both, rest, limit)
        total = look.total + both.unsaid if few else near.total
        return Ranking(map(Hit, told.ids, scores, self._confidences(asked, look, told)), total)

    def _confidences(self, asked: "_Asked", look: Look, told: Candidates) -> list[float]:
        """Return how far each of some tools can be trusted to fit."""
        judge = self._meaning.judge
        if judge is not None:
            return judge.confidences(asked.evidence(look, told))
        return [
            by_words_and_meaning(
                matched=look.matched(words),
                coverage=look.coverage(words),
                meaning=self._meaning.exponent(cosine),
            )
            for words, cosine in zip(told.words.tolist(), told.cosines.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, and the vectors that it is compared with."""

    query: str
    documents: DocumentVectors
    vector: Floats

    def evidence(self, look: Look, told: Candidates) -> Evidence:
        """Return what is known of some tools."""
        return Evidence(
            look.matched(told.words),
            look.coverage(told.words),
            told.cosines,
            np.atleast_2d(self.vector)[0],
            self.documents.vectors(told.ids),
        )


def default_searcher(cache: Derived | None = None) -> HybridSearcher:
    """Return what an index searches with unless told otherwise: words, and the table that is built in."""
    return HybridSearcher(Bm25Searcher(cache=cache), EmbeddingSearcher(load_embedder(), cache=cache))


def _is_latin(query: str) -> bool:
    """Return whether most letters of a question are Latin."""
    letters = _LETTER.findall(query[:_READ])
    foreign = sum(not _LATIN.match(letter) for letter in letters)
    return foreign <= _FOREIGN_SHARE * len(letters)
