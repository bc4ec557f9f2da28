"""Search by words and by meaning at once."""

import logging
import re
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import log
from threading import Lock
from time import monotonic
from typing import Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.protocols import Derived, Hit, Indexed, Ranking
from toolcrib.discovery.search.confidence import (
    JUDGED,
    adjust_confidence,
    by_words_and_meaning,
    order_confidences,
)
from toolcrib.discovery.search.lexical import Bm25Searcher
from toolcrib.discovery.search.lexical.bm25 import Look
from toolcrib.discovery.search.relevance import Features
from toolcrib.discovery.search.semantic import EmbeddingSearcher, load_embedder
from toolcrib.discovery.search.semantic.documents import DocumentVectors
from toolcrib.discovery.search.semantic.marks import adjust_cosine
from toolcrib.errors import EmbeddingError, Problem, StoreError, ValidationError

FLOOR = 0.1
"""The cosine below which a tool that shares no word with the question is not returned at all."""

_MIN_WORD_SHARE = 0.15
"""Weight of the words' score where words cover little of the question."""
_MAX_WORD_SHARE = 0.35
"""Weight of the words' score where words cover much of the question."""
_LITTLE_COVERED = 0.2
_MUCH_COVERED = 0.6
_PARTS = 2
"""A question of more parts than this is a list of errands, of which words miss fewer."""
_PARTS_SHARE = 0.4
_DEPTH = 64
"""How many of the best of either way are compared."""
_VERDICT = 0.4
"""How many standard deviations a tool is ahead of one with a confidence e times lower."""
_ABOVE = 1e-6
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
_SIZE = 256
_FEW = 1_000
"""Up to how many ids are put in their places one by one; more are sorted in."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidate tools, with what is known of each."""

    ids: Sequence[str]
    words: Floats
    """Their scores by words."""
    cosines: Floats

    @classmethod
    def of(
        cls, cosines: Mapping[str, float], words: Mapping[str, float], floor: float = FLOOR
    ) -> "Candidates":
        """Return those of some tools that share a word with the question, or are faintly near to it."""
        kept = [one for one, cosine in cosines.items() if cosine >= floor or words.get(one, 0.0) > 0]
        return cls(
            kept,
            np.array([words.get(one, 0.0) for one in kept], np.float32),
            np.array([cosines[one] for one in kept], np.float32),
        )

    def take(self, places: Sequence[int]) -> "Candidates":
        """Return those at these places, in this order."""
        return Candidates([self.ids[place] for place in places], self.words[places], self.cosines[places])

    def followed_by(self, others: "Candidates") -> "Candidates":
        """Return these, and then the others."""
        return Candidates(
            [*self.ids, *others.ids],
            np.concatenate((self.words, others.words)),
            np.concatenate((self.cosines, others.cosines)),
        )


def word_share(look: Look) -> float:
    """Return the weight of the words' scores: the more of the question words cover, the more they decide."""
    covered = look.coverage(look.best[0][1]) if look.best else 0.0
    rise = min(max((covered - _LITTLE_COVERED) / (_MUCH_COVERED - _LITTLE_COVERED), 0.0), 1.0)
    share = _MIN_WORD_SHARE + (_MAX_WORD_SHARE - _MIN_WORD_SHARE) * rise
    return max(share, _PARTS_SHARE) if look.parts > _PARTS else share


def _blend(look: Look, candidates: Candidates, typical: Floats, limit: int) -> tuple[list[int], list[float]]:
    """Return the places of the best candidates by both scores, equal ones by id, and their blended scores.

    Each score is measured in standard deviations from its mean: over all tools for words, over the cosines of
    typical tools for meaning.
    """
    share = word_share(look)
    by_words = (candidates.words.astype(np.float64) - look.mean) / (look.deviation or 1.0)
    mean, deviation = float(typical.mean()), float(typical.std())
    by_meaning = (candidates.cosines.astype(np.float64) - mean) / (deviation or 1.0)
    scores = share * by_words + (1 - share) * by_meaning
    last = np.partition(scores, -limit)[-limit] if limit < len(scores) else -np.inf
    top = np.flatnonzero(scores >= last).tolist()
    order = sorted(top, key=lambda place: (-scores[place], candidates.ids[place]))[:limit]
    return order, scores[order].tolist()


class HybridSearcher:
    """Ranks tools by their words and by their meaning together.

    Either way's scores are measured in standard deviations above its average over the catalogue, which makes
    them comparable, and added up. Words decide more the more of the question they cover, so that a question
    in the catalogue's own words is answered as by words alone; and they decide everything where many letters
    are of a script that the embedder is not known to read. What shares no word with the question, and is not
    near to it either, is not found, unless so many tools are near that it only ends a long list.

    A tool with a tag, a category or a mode that the question names is lifted both ways; a deprecated one is
    lowered. Confidences never contradict the order: no tool has more of it than the one before.
    """

    score_type: Literal["hybrid"] = "hybrid"
    searches_within = True

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
            self._meaning.update_vectors(added, removed)
            self._sample.update([entry.id for entry in added], removed)

    def search(
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
        within: AbstractSet[str] | None = None,
    ) -> Ranking:
        """Return the tools that fit a question best in words and meaning.

        Where the embedder fails, or the store that keeps its vectors, that is logged, and words alone decide
        until it has had time to recover.
        """
        if limit > 0 and monotonic() >= self._resumes and (self._reads_every_script or _is_latin(query)):
            try:
                vector = self._meaning.embed_query(query)  # before the lock is held, since it may take long
                if vector is not None:
                    asked = _Question(query, vector, limit, among, exclude, within)
                    with self._lock:
                        found = self._meaning.consult(partial(self._search, asked))
                    if found is not None:
                        return found
            except (EmbeddingError, StoreError) as error:  # a store that cannot keep vectors, or is closed
                self._resumes = monotonic() + _PAUSE
                _LOG.warning("searching by words alone for %d s: %s", _PAUSE, error)
        return self._words.search(query, limit=limit, among=among, exclude=exclude, within=within)

    def evidence(self, query: str, ids: Sequence[str]) -> Features | None:
        """Return what is known of some tools and a question; None if the question says nothing."""
        vector = self._meaning.embed_query(query)
        if vector is None:
            return None

        def gather(documents: DocumentVectors) -> Features:
            look = self._words.look(query, limit=0, others=ids)
            found = dict(zip(ids, documents.cosines(vector, ids).tolist(), strict=True))
            candidates = Candidates.of(_adjust(found, look), look.others, -_NEVER)
            return _features(look, candidates, documents, vector)

        with self._lock:
            return self._meaning.consult(gather)

    def _search(self, asked: "_Question", documents: DocumentVectors) -> Ranking | None:
        limit, among, exclude, within = asked.limit, asked.among, asked.exclude, asked.within
        near = documents.near(asked.vector, _DEPTH, among, exclude, roughly=True)
        if not near.found:
            return None
        # Where few are near, what shares a word may be anywhere; where many are, all that is left follows.
        few = near.total <= _DEPTH or near.found[_DEPTH - 1][1] < FLOOR
        first, left = dict(near.found), {}
        if limit > _DEPTH:
            count = near.total if few else limit
            left = dict(documents.near(asked.vector, count, among, exclude).found)
        listed = list(first | left)
        look = self._words.look(
            asked.query, limit=_DEPTH, among=among, exclude=exclude, others=listed, within=within
        )
        words = look.others | dict(look.best)
        extra = [one for one, _ in look.best if one not in first]
        typical = self._sample.ids_within(within) or list(first)  # none, if the searchers were filled before
        cosines = documents.cosines(asked.vector, [*extra, *typical])
        first.update(zip(extra, cosines[: len(extra)].tolist(), strict=True))
        both = Candidates.of(_adjust(first, look), words)
        # The first are the same however many are asked for, so that every page continues the last.
        depth = max(limit, JUDGED)
        order, scores = _blend(look, both, cosines[len(extra) :], depth)
        chosen = both.take(order)
        if left:
            # What is far down both lists follows by its cosine alone, so that every page continues the last.
            left = {one: cosine for one, cosine in left.items() if one not in first}
            rest = Candidates.of(left, words, _NEVER if few else -1.0)
            rest = rest.take(range(min(depth - len(order), len(rest.ids))))
            below = (scores[-1] if scores else 0.0) - 2.0  # so that even a cosine of 1 stays below
            scores += [below + cosine for cosine in rest.cosines.tolist()]
            chosen = chosen.followed_by(rest)
        hits = list(map(Hit, chosen.ids, scores, self._confidences(asked, documents, look, chosen)))
        ranked = [*_order_first(hits[:JUDGED]), *hits[JUDGED:]]
        ordered = order_confidences([hit.confidence for hit in ranked])
        final = (hit._replace(confidence=one) for hit, one in zip(ranked, ordered, strict=True))
        total = look.total + int((both.words == 0).sum()) if few else near.total
        return Ranking(islice(final, limit), total)

    def _confidences(
        self, asked: "_Question", documents: DocumentVectors, look: Look, candidates: Candidates
    ) -> list[float]:
        """Return how far each of some tools can be trusted to fit, each by itself."""
        judge = self._meaning.judge
        if judge is not None:
            found = judge.confidences(_features(look, candidates, documents, asked.vector))
        else:
            found = [
                by_words_and_meaning(
                    matched=look.matched(words),
                    coverage=look.coverage(words),
                    meaning=self._meaning.exponent(cosine),
                )
                for words, cosine in zip(candidates.words.tolist(), candidates.cosines.tolist(), strict=True)
            ]
        return [
            adjust_confidence(one, share=look.topics.get(name, 0.0), deprecated=name in look.deprecated)
            for name, one in zip(candidates.ids, found, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Question:
    """The arguments of one search."""

    query: str
    vector: Floats
    limit: int
    among: AbstractSet[str] | None
    exclude: AbstractSet[str]
    within: AbstractSet[str] | None


def _features(look: Look, candidates: Candidates, documents: DocumentVectors, vector: Floats) -> Features:
    """Return what the relevance classifier is given about some tools."""
    return Features(
        look.matched(candidates.words),
        look.coverage(candidates.words),
        candidates.cosines,
        np.atleast_2d(vector)[0],
        documents.vectors(candidates.ids),
    )


def _adjust(cosines: dict[str, float], look: Look) -> dict[str, float]:
    """Return cosines as they count: more where topics are named, less where a tool is deprecated."""
    marked = (look.topics.keys() | look.deprecated) & cosines.keys()
    return cosines | {
        name: adjust_cosine(
            cosines[name], share=look.topics.get(name, 0.0), deprecated=name in look.deprecated
        )
        for name in marked
    }


def _order_first(first: Sequence[Hit]) -> list[Hit]:
    """Return the first hits in the order of their scores and confidences together, above all that follow."""
    scores = [hit.score + _VERDICT * log(hit.confidence) for hit in first]
    lift = first[-1].score - min(scores) + _ABOVE if first else 0.0
    judged = [hit._replace(score=score + lift) for hit, score in zip(first, scores, strict=True)]
    return sorted(judged, key=lambda hit: (-hit.score, hit.id))


def default_searcher(cache: Derived | None = None) -> HybridSearcher:
    """Return what an index searches with by default: words, and the table that is built in."""
    return HybridSearcher(Bm25Searcher(cache=cache), EmbeddingSearcher(load_embedder(), cache=cache))


def _is_latin(query: str) -> bool:
    """Return whether most letters of a question are Latin."""
    letters = _LETTER.findall(query[:_READ])
    foreign = sum(not _LATIN.match(letter) for letter in letters)
    return foreign <= _FOREIGN_SHARE * len(letters)


class Sample:
    """The ids with the lowest checksums, which have nothing to do with what they mean."""

    def __init__(self) -> None:
        self._order: list[tuple[int, str]] = []
        self._lock = Lock()

    @property
    def ids(self) -> list[str]:
        """At most 256 of the ids."""
        return self.ids_within(None)

    def ids_within(self, within: AbstractSet[str] | None) -> list[str]:
        """Return at most 256 of the ids, of those in a set where one is given."""
        with self._lock:
            if within is None:
                return [tool_id for _, tool_id in self._order[:_SIZE]]
            if len(within) <= _SIZE:
                places = sorted(map(_place, within))
                return [place[1] for place in places if self._is_known(place)]
            return list(islice((tool_id for _, tool_id in self._order if tool_id in within), _SIZE))

    def _is_known(self, place: tuple[int, str]) -> bool:
        at = bisect_left(self._order, place)
        return at < len(self._order) and self._order[at] == place

    def update(self, added: Sequence[str], removed: Sequence[str]) -> None:
        """Forget the removed ids and learn the added ones."""
        with self._lock:
            if len(added) + len(removed) > _FEW:
                known = {tool_id for _, tool_id in self._order}
                self._order = sorted(map(_place, known.difference(removed).union(added)))
                return
            for place in map(_place, removed):
                at = bisect_left(self._order, place)
                if self._order[at : at + 1] == [place]:
                    del self._order[at]
            for place in map(_place, added):
                at = bisect_left(self._order, place)
                if self._order[at : at + 1] != [place]:
                    insort(self._order, place)


def _place(tool_id: str) -> tuple[int, str]:
    return crc32(tool_id.encode(errors="surrogatepass")), tool_id
