"""Search by words and by meaning at once."""

import logging
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from threading import Lock
from time import monotonic
from typing import Literal

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
from toolcrib.errors import EmbeddingError, Problem, ValidationError

__all__ = ["HybridSearcher", "default_searcher"]

_DEPTH = 200
"""How many of the best of either way are compared."""
_FOREIGN_SHARE = 0.3
_READ = 10_000
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-z\u00aa-\u024f\u1e00-\u1eff]")

_PAUSE = 30.0
"""For how many seconds an embedder that failed is left alone."""
_LOG = logging.getLogger("toolcrib.discovery")

Floats = NDArray[np.float32]
_NONE: Floats = np.zeros(0, np.float32)


class HybridSearcher:
    """Ranks tools by their words and by their meaning together.

    Either way's scores are measured in standard deviations above its average over the catalogue, which makes
    them comparable, and added up. Words decide more the more of the question they cover, so that a question
    in the catalogue's own words is answered as by words alone; and they decide everything where many letters
    are of a script that the embedder is not known to read. What shares no word with the question, and is not
    near to it either, is not found.
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

        Where the embedder fails, that is logged, and words alone decide until it has had time to recover.
        """
        if limit > 0 and monotonic() >= self._resumes and (self._reads_every_script or _is_latin(query)):
            try:
                self._meaning.warm(query)  # what takes long happens before the lock is held
                with self._lock:
                    return self._search(query, limit, among, exclude)
            except EmbeddingError as error:
                self._resumes = monotonic() + _PAUSE
                _LOG.warning("searching by words alone for %d s: %s", _PAUSE, error)
        return self._words.search(query, limit=limit, among=among, exclude=exclude)

    def evidence(self, query: str, ids: Sequence[str]) -> Evidence | None:
        """Return what is known of some tools and a question; nothing if that says nothing."""
        with self._lock:
            look = self._words.look(query, limit=0, others=ids)
            words = np.array([look.others.get(one, 0.0) for one in ids], np.float32)
            return self._evidence(query, look, Candidates(ids, words, self._meaning.cosines(query, ids)))

    def _search(
        self, query: str, limit: int, among: AbstractSet[str] | None, exclude: AbstractSet[str]
    ) -> Ranking:
        near = self._meaning.search(query, limit=max(limit, _DEPTH), among=among, exclude=exclude)
        if not near:
            return self._words.search(query, limit=limit, among=among, exclude=exclude)
        listed = [hit.id for hit in near]
        look = self._words.look(query, limit=_DEPTH, among=among, exclude=exclude, others=listed)
        first = set(listed[:_DEPTH])
        extra = [one for one, _ in look.best if one not in first]
        typical = self._sample.ids or listed[:_DEPTH]  # none, if the searchers were filled before
        cosines = self._meaning.cosines(query, [*extra, *typical])
        blend = Blend.of(look, cosines[len(extra) :])
        both = _candidates(look, [*listed[:_DEPTH], *extra], [hit.score for hit in near[:_DEPTH]], cosines)
        both = both.worth_telling()
        ranked = blend.order(both)
        # What is far down both lists follows by its cosine alone, so that every page continues the last.
        taken = first.union(extra)
        tail = [hit for hit in near[_DEPTH:] if hit.id not in taken]
        rest = _candidates(look, [hit.id for hit in tail], [hit.score for hit in tail]).worth_telling()
        below = (ranked[-1][0] if ranked else 0.0) - 1.0
        scores = [score for score, _ in ranked] + [below + cosine for cosine in rest.cosines.tolist()]
        told = both.take([at for _, at in ranked]).followed_by(rest)
        unsaid = int((told.words == 0).sum())
        ended = len(near) == near.total or near[-1].score < FLOOR
        total = look.total + unsaid if ended else near.total
        return Ranking(self._hits(query, look, told.take(range(limit)), scores), total)

    def _hits(self, query: str, look: Look, told: Candidates, scores: Sequence[float]) -> list[Hit]:
        """Return candidates with their scores, and how far each can be trusted to fit."""
        judge = self._meaning.judge
        evidence = self._evidence(query, look, told)
        if judge is None or evidence is None:
            trust = [
                by_words_and_meaning(
                    matched=look.matched(words),
                    coverage=look.coverage(words),
                    meaning=self._meaning.exponent(cosine),
                )
                for words, cosine in zip(told.words.tolist(), told.cosines.tolist(), strict=True)
            ]
        else:
            trust = judge.confidences(evidence)
        return list(map(Hit, told.ids, scores, trust))

    def _evidence(self, query: str, look: Look, told: Candidates) -> Evidence | None:
        vectors = self._meaning.vectors(query, told.ids) if told.ids else None
        if vectors is None:
            return None
        matched, coverage = look.matched(told.words), look.coverage(told.words)
        return Evidence(matched, coverage, told.cosines, *vectors)


def default_searcher(cache: Derived | None = None) -> HybridSearcher:
    """Return what an index searches with unless told otherwise: words, and the table that is built in."""
    return HybridSearcher(Bm25Searcher(cache=cache), EmbeddingSearcher(load_embedder(), cache=cache))


def _candidates(look: Look, ids: Sequence[str], cosines: Sequence[float], more: Floats = _NONE) -> Candidates:
    """Return tools with their scores by words; their cosines may be in two pieces."""
    known = look.others | dict(look.best)
    words = np.array([known.get(one, 0.0) for one in ids], np.float32)
    return Candidates(ids, words, np.concatenate((np.array(cosines, np.float32), more))[: len(ids)])


def _is_latin(query: str) -> bool:
    """Return whether most letters of a question are Latin."""
    letters = _LETTER.findall(query[:_READ])
    foreign = sum(not _LATIN.match(letter) for letter in letters)
    return foreign <= _FOREIGN_SHARE * len(letters)
