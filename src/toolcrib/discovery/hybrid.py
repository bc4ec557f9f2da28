"""Search by words and by meaning at once."""

import logging
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.confidence import by_words_and_meaning
from toolcrib.discovery.lexical import Bm25Searcher
from toolcrib.discovery.lexical.look import Look
from toolcrib.discovery.protocols import Hit, Indexed, Ranking
from toolcrib.discovery.sample import Sample
from toolcrib.discovery.semantic import EmbeddingSearcher
from toolcrib.errors import EmbeddingError, Problem, ValidationError

__all__ = ["HybridSearcher"]

_DEPTH = 200
"""How many of the best of either way are compared."""
_LEAST_SHARE, _MOST_SHARE = 0.3, 0.55
"""What words decide where they cover little of the question, and where they cover much."""
_LITTLE, _MUCH = 0.2, 0.6
_PARTS = 2
"""A question of more parts than this is a list of errands, which one vector cannot stand for."""
_PARTS_SHARE = 0.5
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
    are of a script that the embedder is not known to read.
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

    def _search(
        self, query: str, limit: int, among: AbstractSet[str] | None, exclude: AbstractSet[str]
    ) -> Ranking:
        near = self._meaning.search(query, limit=max(limit, _DEPTH), among=among, exclude=exclude)
        if not near:
            return self._words.search(query, limit=limit, among=among, exclude=exclude)
        others = [hit.id for hit in near]
        look = self._words.look(query, limit=_DEPTH, among=among, exclude=exclude, others=others)
        scores = look.others | dict(look.best)
        cosines = {hit.id: hit.score for hit in near[:_DEPTH]}
        missing = [tool_id for tool_id, _ in look.best if tool_id not in cosines]
        sampled = self._sample.ids or list(cosines)  # none, if the searchers were filled before
        found = self._meaning.cosines(query, [*missing, *sampled])
        cosines.update(zip(missing, found.tolist(), strict=False))
        blend = _Blend.of(look, found[len(missing) :])
        blended = sorted((-blend.score(scores.get(one, 0.0), cosines[one]), one) for one in cosines)
        # What is far down both lists follows by its cosine alone, so that every page continues the last.
        rest = [hit for hit in near[_DEPTH:] if hit.id not in cosines]
        below = -blended[-1][0] - 1.0
        ranked = [*((one, -score) for score, one in blended), *((hit.id, below + hit.score) for hit in rest)]
        cosines.update((hit.id, hit.score) for hit in rest)
        hits = [
            Hit(one, score, self._confidence(look, scores.get(one, 0.0), cosines[one]))
            for one, score in ranked[:limit]
        ]
        return Ranking(hits, near.total)

    def _confidence(self, look: Look, score: float, cosine: float) -> float:
        return by_words_and_meaning(
            matched=look.matched(score),
            coverage=look.coverage(score),
            meaning=self._meaning.exponent(cosine),
        )


@dataclass(frozen=True, slots=True)
class _Blend:
    """How the scores of one question are made comparable and added up."""

    look: Look
    share: float
    """What words decide."""
    mean: float
    deviation: float
    """Of the cosines."""

    @classmethod
    def of(cls, look: Look, cosines: Floats) -> "_Blend":
        covered = look.coverage(look.best[0][1]) if look.best else 0.0
        rise = min(max((covered - _LITTLE) / (_MUCH - _LITTLE), 0.0), 1.0)
        share = _LEAST_SHARE + (_MOST_SHARE - _LEAST_SHARE) * rise
        if look.parts > _PARTS:
            share = max(share, _PARTS_SHARE)
        return cls(look, share, float(cosines.mean()), float(cosines.std()))

    def score(self, words: float, cosine: float) -> float:
        """Return what a tool scores."""
        by_words = (words - self.look.mean) / (self.look.deviation or 1.0)
        by_meaning = (cosine - self.mean) / (self.deviation or 1.0)
        return self.share * by_words + (1 - self.share) * by_meaning


def _is_latin(query: str) -> bool:
    """Return whether most letters of a question are Latin."""
    letters = _LETTER.findall(query[:_READ])
    foreign = sum(not _LATIN.match(letter) for letter in letters)
    return foreign <= _FOREIGN_SHARE * len(letters)
