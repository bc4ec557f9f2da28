"""Hybrid search: BM25 scores and embedding cosines, blended.

1. The embedding searcher finds the 64 tools nearest to the question, the BM25 searcher the 64 with the most
   telling words. Every candidate gets both scores. Tools with a topic that the question names are raised, and
   deprecated ones lowered, in both.
2. The two scores have different scales, so each is turned into standard deviations above its mean: for words
   over all tools, for meaning over a fixed sample of 256 tools (`Sample`), since the mean over all cosines
   would need a pass over every vector. Then they are added with weights (`word_share`).
3. Tools for which similar questions were learned are raised (`_LEARNED_GAIN`), those that may destroy
   something only where no tool that shares a word with the question stands above them.
4. Each of the candidates gets a confidence (`confidence`), by itself. The first five are
   reordered by score and confidence together (`_rerank_first`), and confidences that contradict the order are
   pooled (`order_confidences`).

Pages must not overlap or skip tools, so nothing in the order of the first results may depend on `limit`. And
a view must give the same scores as an index of its tools alone, so every mean is taken over the tools in
`within`.
"""

import logging
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import log
from threading import Lock
from time import monotonic
from typing import Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.protocols import Derived, Hit, Indexed, Lifts, Ranking
from toolcrib.discovery.records import Reason
from toolcrib.discovery.search.confidence import (
    RERANKED,
    Features,
    adjust_confidence,
    confidence_by_both,
    order_confidences,
)
from toolcrib.discovery.search.lexical import Bm25Searcher
from toolcrib.discovery.search.lexical.bm25 import LexicalScores
from toolcrib.discovery.search.lexical.reasons import learned_reasons
from toolcrib.discovery.search.semantic import EmbeddingSearcher, load_embedder
from toolcrib.discovery.search.semantic.documents import DocumentVectors
from toolcrib.discovery.search.semantic.languages import is_english, is_latin, is_readable
from toolcrib.discovery.search.semantic.marks import adjust_cosine
from toolcrib.errors import EmbeddingError, Problem, StoreError, ValidationError

FLOOR = 0.1
"""The minimum cosine of a result that shares no word with the question."""

# The weights were chosen on labelled questions; docs/search-decisions.md has the comparisons.
_MIN_WORD_SHARE = 0.15
"""Weight of the BM25 score if its best hit covers at most `_LITTLE_COVERED` of the question."""
_MAX_WORD_SHARE = 0.35
"""Weight of the BM25 score if its best hit covers at least `_MUCH_COVERED` of the question."""
_LITTLE_COVERED = 0.2
_MUCH_COVERED = 0.6
_LIST_PARTS = 2
"""A question with more parts asks for several things, of which BM25 misses fewer than one vector does."""
_LIST_WORD_SHARE = 0.4
_CANDIDATES_EACH = 64
"""The number of candidates from each of the two searches."""
_CONFIDENCE_WEIGHT = 0.4
"""Standard deviations that a factor of e in confidence is worth when the first results are reordered."""
_MIN_LIFT = 1e-6
_LEARNED_GAIN = 4.0
"""Standard deviations by which learned questions raise a tool at most."""
_LEARNED_CONFIDENCE = 0.4
"""The confidence of a tool without other evidence that is raised by so much."""
_IMPOSSIBLE_COSINE = 2.0
"""A floor that no cosine reaches; its negative is one that every cosine passes."""
_OWN_LANGUAGE = 0.5
"""The share of a question in another language that words cover from which on they decide alone."""
_RETRY_AFTER = 30.0
"""Seconds until an embedder that failed is tried again."""
_LOG = logging.getLogger("toolcrib.discovery")
Floats = NDArray[np.float32]
_SAMPLE_SIZE = 256
_MAX_INSERTED_SINGLY = 1_000
"""Up to this many changed ids the sorted list is updated by insertion; for more it is sorted again."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidate tools with their two scores."""

    ids: Sequence[str]
    words: Floats
    """The BM25 score of each."""
    cosines: Floats
    """The cosine of each to the question."""

    @classmethod
    def of(
        cls,
        cosines: Mapping[str, float],
        words: Mapping[str, float],
        floor: float = FLOOR,
        keep: Collection[str] = (),
    ) -> "Candidates":
        """Return the tools to keep, and those with a word of the question or at least the cosine `floor`."""
        kept = [
            one
            for one, cosine in cosines.items()
            if cosine >= floor or words.get(one, 0.0) > 0 or one in keep
        ]
        return cls(
            kept,
            np.array([words.get(one, 0.0) for one in kept], np.float32),
            np.array([cosines[one] for one in kept], np.float32),
        )

    def take(self, places: Sequence[int]) -> "Candidates":
        """Return the candidates at these positions, in this order."""
        return Candidates([self.ids[place] for place in places], self.words[places], self.cosines[places])

    def followed_by(self, others: "Candidates") -> "Candidates":
        """Return these candidates, followed by the others."""
        return Candidates(
            [*self.ids, *others.ids],
            np.concatenate((self.words, others.words)),
            np.concatenate((self.cosines, others.cosines)),
        )


def word_share(lexical: LexicalScores) -> float:
    """Return the weight of the BM25 scores, which grows with the share of the question that they cover."""
    covered = lexical.coverage(lexical.best[0][1]) if lexical.best else 0.0
    rise = min(max((covered - _LITTLE_COVERED) / (_MUCH_COVERED - _LITTLE_COVERED), 0.0), 1.0)
    share = _MIN_WORD_SHARE + (_MAX_WORD_SHARE - _MIN_WORD_SHARE) * rise
    return max(share, _LIST_WORD_SHARE) if lexical.parts > _LIST_PARTS else share


def _blend(
    lexical: LexicalScores, candidates: Candidates, typical: Floats, lifts: Lifts, limit: int
) -> tuple[list[int], list[float]]:
    """Return the positions of the best candidates, and their blended scores; ties are ordered by id.

    Each score is measured in standard deviations from its mean: BM25 over all tools, the cosines over those
    of the `typical` tools.
    """
    share = word_share(lexical)
    by_words = (candidates.words.astype(np.float64) - lexical.mean) / (lexical.deviation or 1.0)
    mean, deviation = float(typical.mean()), float(typical.std())
    by_meaning = (candidates.cosines.astype(np.float64) - mean) / (deviation or 1.0)
    scores = share * by_words + (1 - share) * by_meaning
    if lifts:
        scores += [_LEARNED_GAIN * lifts[one].strength if one in lifts else 0.0 for one in candidates.ids]
    last = np.partition(scores, -limit)[-limit] if limit < len(scores) else -np.inf
    top = np.flatnonzero(scores >= last).tolist()
    order = sorted(top, key=lambda place: (-scores[place], candidates.ids[place]))[:limit]
    return order, scores[order].tolist()


class HybridSearcher:
    """Ranks tools by BM25 and by embeddings together; the default searcher.

    Both scores are measured in standard deviations above their mean, and added. The more of the question the
    words of a tool cover, the more they count, so a question in the catalogue's own words is answered as if
    by words alone. Words decide alone if many letters of the question are in a script that the embedder is
    not known to read. A tool that neither shares a word with the question nor is near to it is not returned,
    except at the end of a long list.

    A tool with a tag, a category or a mode that the question names is ranked higher, a deprecated one lower.
    No result has a higher confidence than the one before it.
    """

    score_type: Literal["hybrid"] = "hybrid"
    searches_within = True
    takes_lifts = True
    explains = True

    def __init__(
        self, words: Bm25Searcher, meaning: EmbeddingSearcher, *, reads_every_script: bool = False
    ) -> None:
        """Combine two searchers, which from then on must be updated through this one.

        Args:
            words: the searcher by words.
            meaning: the searcher by meaning.
            reads_every_script: whether the embedder was trained on texts in every script, not in Latin alone.
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
        """The time, by `monotonic`, when the embedder is tried again after a failure."""
        self._lock = Lock()

    def update(self, added: Sequence[Indexed], removed: Sequence[str] = ()) -> None:
        """Remove ids and add tools; a tool whose id is already there is replaced."""
        with self._lock:
            self._words.update(added, removed)
            self._meaning.update_vectors(added, removed)
            self._sample.update([entry.id for entry in added], removed)

    def search(  # noqa: PLR0913 - options, each with a default
        self,
        query: str,
        *,
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
        within: AbstractSet[str] | None = None,
        lifts: Lifts | None = None,
        explain: bool = False,
    ) -> Ranking:
        """Return the tools that fit a question best in words and meaning.

        A failure of the embedder, or of the store that caches its vectors, is logged; for the next 30 seconds
        searches use words alone.
        """
        if limit > 0 and monotonic() >= self._resumes and self._reads(query, among, exclude, within):
            try:
                # Embedding may take long, so it is done before the lock is taken.
                vector = self._meaning.embed_query(query)
                if vector is not None:
                    raised = {one: lift for one, lift in lifts.items() if one not in exclude} if lifts else {}
                    asked = _Question(query, vector, limit, among, exclude, within, raised, explain)
                    with self._lock:
                        found = self._meaning.read_vectors(partial(self._search, asked))
                    if found is not None:
                        return found
            except (EmbeddingError, StoreError) as error:
                self._resumes = monotonic() + _RETRY_AFTER
                _LOG.warning("searching by words alone for %d s: %s", _RETRY_AFTER, error)
        return self._words.search(
            query, limit=limit, among=among, exclude=exclude, within=within, lifts=lifts, explain=explain
        )

    def _reads(
        self,
        query: str,
        among: AbstractSet[str] | None,
        exclude: AbstractSet[str],
        within: AbstractSet[str] | None,
    ) -> bool:
        """Return whether vectors can tell which tools fit a question.

        The vector of a tool means nothing if its texts are not in English. So a question in another language
        is left to words where these cover much of it: then the tools are in that language too.
        """
        if self._reads_every_script or is_english(query):
            return True
        if not self._meaning.reads_languages:
            return is_latin(query)
        if not is_readable(query):
            return False
        lexical = self._words.score_query(query, limit=1, among=among, exclude=exclude, within=within)
        return not lexical.best or lexical.coverage(lexical.best[0][1]) < _OWN_LANGUAGE

    def compute_features(self, query: str, ids: Sequence[str]) -> Features | None:
        """Return the features of some tools for a question; None if the question has no vector."""
        vector = self._meaning.embed_query(query)
        if vector is None:
            return None

        def gather(documents: DocumentVectors) -> Features:
            lexical = self._words.score_query(query, limit=0, others=ids)
            found = dict(zip(ids, documents.cosines(vector, ids).tolist(), strict=True))
            candidates = Candidates.of(_adjust_cosines(found, lexical), lexical.others, -_IMPOSSIBLE_COSINE)
            return _features(lexical, candidates, documents, vector)

        with self._lock:
            return self._meaning.read_vectors(gather)

    def _search(self, asked: "_Question", documents: DocumentVectors) -> Ranking | None:
        limit, among, exclude, within = asked.limit, asked.among, asked.exclude, asked.within
        lifts = asked.lifts
        if lifts and any(lift.may_destroy for lift in lifts.values()):
            lifts = self._permitted_lifts(asked, documents)
        near = documents.nearest(asked.vector, _CANDIDATES_EACH, among, exclude, approximate=True)
        if not near.found:
            return None
        # With few tools near, only those that share a word or reach the floor are results. With many, a long
        # list was asked for, and all remaining tools follow by cosine.
        few = near.total <= _CANDIDATES_EACH or near.found[_CANDIDATES_EACH - 1][1] < FLOOR
        first, left = dict(near.found), {}
        if limit > _CANDIDATES_EACH:
            count = near.total if few else limit
            left = dict(documents.nearest(asked.vector, count, among, exclude).found)
        listed = [*(first | left), *lifts] if lifts else list(first | left)
        lexical = self._words.score_query(
            asked.query, limit=_CANDIDATES_EACH, among=among, exclude=exclude, others=listed, within=within
        )
        words = lexical.others | dict(lexical.best)
        extra = [one for one, _ in lexical.best if one not in first]
        if lifts:
            extra += [one for one in lifts if one not in first and one not in extra]
        # The sample is empty if the searchers were filled before they were combined.
        typical = self._sample.ids_within(within) or list(first)
        cosines = documents.cosines(asked.vector, [*extra, *typical])
        first.update(zip(extra, cosines[: len(extra)].tolist(), strict=True))
        both = Candidates.of(_adjust_cosines(first, lexical), words, keep=lifts)
        # Reranking looks at the first few, so these must be the same for every limit.
        depth = max(limit, RERANKED)
        order, scores = _blend(lexical, both, cosines[len(extra) :], lifts, depth)
        chosen = both.take(order)
        blended = dict(zip(chosen.ids, scores, strict=True))
        if left:
            # Beyond the candidates, the order is by cosine alone: blended scores would change with the limit.
            left = {one: cosine for one, cosine in left.items() if one not in first}
            rest = Candidates.of(left, words, _IMPOSSIBLE_COSINE if few else -1.0)
            rest = rest.take(range(min(depth - len(order), len(rest.ids))))
            below = (scores[-1] if scores else 0.0) - 2.0  # so that even a cosine of 1 stays below
            scores += [below + cosine for cosine in rest.cosines.tolist()]
            chosen = chosen.followed_by(rest)
        hits = list(map(Hit, chosen.ids, scores, self._confidences(asked, lifts, documents, lexical, chosen)))
        ranked = [*_rerank_first(hits[:RERANKED]), *hits[RERANKED:]]
        ordered = order_confidences([hit.confidence for hit in ranked])
        final: Iterator[Hit] = (
            hit._replace(confidence=one) for hit, one in zip(ranked, ordered, strict=True)
        )
        if asked.explain:
            parts = _Parts(lexical, cosines[len(extra) :], lifts, left | first, blended)
            final = self._explain(asked, parts, islice(final, limit))
        total = lexical.total + int((both.words == 0).sum()) if few else near.total
        return Ranking(islice(final, limit), total)

    def _explain(self, asked: "_Question", parts: "_Parts", hits: Iterable[Hit]) -> Iterator[Hit]:
        """Yield hits with the reasons for their scores."""
        found = list(hits)
        by_words = self._words.explain(asked.query, [hit.id for hit in found], asked.within)
        for hit in found:
            reasons = parts.explain(hit.id, by_words[hit.id])
            moved = hit.score - parts.blended.get(hit.id, parts.cosines[hit.id])
            order = Reason.from_valid(kind="order", score=moved, value=hit.confidence)
            yield hit._replace(why=(*reasons, order))

    def _permitted_lifts(self, asked: "_Question", documents: DocumentVectors) -> Lifts:
        """Return the lifts without tools that may destroy something and stand below a match of words."""
        harmless = {one: lift for one, lift in asked.lifts.items() if not lift.may_destroy}
        ranked = self._search(replace(asked, lifts=harmless, limit=_CANDIDATES_EACH), documents) or Ranking()
        ids = [hit.id for hit in ranked]
        scored = self._words.score_query(asked.query, limit=0, others=ids, within=asked.within).others
        matched = next((place for place, one in enumerate(ids) if scored.get(one, 0.0) > 0), len(ids))
        permitted = asked.lifts.keys() & set(ids[: matched + 1])
        return harmless | {one: asked.lifts[one] for one in permitted}

    def _confidences(
        self,
        asked: "_Question",
        lifts: Lifts,
        documents: DocumentVectors,
        lexical: LexicalScores,
        candidates: Candidates,
    ) -> list[float]:
        """Return the confidence of each tool by itself, independent of the other candidates."""
        judge = self._meaning.judge
        if judge is not None:
            found = judge.confidences(_features(lexical, candidates, documents, asked.vector))
        else:
            found = [
                confidence_by_both(
                    matched=lexical.matched(words),
                    coverage=lexical.coverage(words),
                    meaning=self._meaning.log_odds(cosine),
                )
                for words, cosine in zip(candidates.words.tolist(), candidates.cosines.tolist(), strict=True)
            ]
        adjusted = [
            adjust_confidence(one, share=lexical.topics.get(name, 0.0), deprecated=name in lexical.deprecated)
            for name, one in zip(candidates.ids, found, strict=True)
        ]
        if not lifts:
            return adjusted
        raised = (
            _LEARNED_CONFIDENCE * lifts[one].strength if one in lifts else 0.0 for one in candidates.ids
        )
        return [one + more * (1 - one) for one, more in zip(adjusted, raised, strict=True)]


@dataclass(frozen=True, slots=True)
class _Question:
    """The arguments of one search."""

    query: str
    vector: Floats
    limit: int
    among: AbstractSet[str] | None
    exclude: AbstractSet[str]
    within: AbstractSet[str] | None
    lifts: Lifts
    explain: bool


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of the blended scores of one search."""

    lexical: LexicalScores
    typical: Floats
    """The cosines of the typical tools."""
    lifts: Lifts
    cosines: Mapping[str, float]
    """The cosine of each tool, without topics and deprecation."""
    blended: Mapping[str, float]
    """The blended score of each candidate; the tools below these are ranked by cosine alone."""

    def explain(self, tool_id: str, by_words: Iterable[Reason]) -> list[Reason]:
        """Return the reasons for the blended score of a tool, given those for its score by words."""
        cosine = self.cosines[tool_id]
        if tool_id not in self.blended:
            return [Reason.from_valid(kind="meaning", score=cosine, value=cosine)]
        share, lexical = word_share(self.lexical), self.lexical
        mean, deviation = float(self.typical.mean()), float(self.typical.std()) or 1.0
        factor = (1 - share) / deviation
        topic, is_deprecated = lexical.topics.get(tool_id, 0.0), tool_id in lexical.deprecated
        raised = adjust_cosine(cosine, share=topic, deprecated=False)
        adjusted = adjust_cosine(cosine, share=topic, deprecated=is_deprecated)
        more = {"topic": factor * (raised - cosine), "deprecated": factor * (adjusted - raised)}
        scale = share / (lexical.deviation or 1.0)
        reasons = [
            reason.model_copy(update={"score": scale * reason.score + more.get(reason.kind, 0.0)})
            for reason in by_words
        ]
        reasons.append(Reason.from_valid(kind="meaning", score=factor * (cosine - mean), value=cosine))
        reasons.append(Reason.from_valid(kind="average", score=-scale * lexical.mean))
        if tool_id in self.lifts:
            strength = self.lifts[tool_id].strength
            reasons += learned_reasons(_LEARNED_GAIN * strength, strength)
        return reasons


def _features(
    lexical: LexicalScores, candidates: Candidates, documents: DocumentVectors, vector: Floats
) -> Features:
    """Return the features that the relevance classifier reads."""
    return Features(
        lexical.matched(candidates.words),
        lexical.coverage(candidates.words),
        candidates.cosines,
        np.atleast_2d(vector)[0],
        documents.vectors(candidates.ids),
    )


def _adjust_cosines(cosines: dict[str, float], lexical: LexicalScores) -> dict[str, float]:
    """Return cosines, raised for tools whose topics the question names and lowered for deprecated tools."""
    marked = (lexical.topics.keys() | lexical.deprecated) & cosines.keys()
    return cosines | {
        name: adjust_cosine(
            cosines[name], share=lexical.topics.get(name, 0.0), deprecated=name in lexical.deprecated
        )
        for name in marked
    }


def _rerank_first(first: Sequence[Hit]) -> list[Hit]:
    """Reorder the first hits by score and confidence together, with scores above those of all later hits."""
    scores = [hit.score + _CONFIDENCE_WEIGHT * log(hit.confidence) for hit in first]
    lift = first[-1].score - min(scores) + _MIN_LIFT if first else 0.0
    judged = [hit._replace(score=score + lift) for hit, score in zip(first, scores, strict=True)]
    return sorted(judged, key=lambda hit: (-hit.score, hit.id))


def default_searcher(cache: Derived | None = None) -> HybridSearcher:
    """Return the default searcher of an index: BM25 and the built-in static embeddings."""
    return HybridSearcher(Bm25Searcher(cache=cache), EmbeddingSearcher(load_embedder(), cache=cache))


class Sample:
    """A fixed sample of the tools, by which typical cosines are measured: those with the lowest checksums.

    A checksum is independent of the meaning of an id and of the order of registration, so the sample is
    unbiased and the same in every process, and a change of one tool changes at most one member.
    """

    def __init__(self) -> None:
        self._order: list[str] = []
        """All ids, sorted by their checksums."""
        self._lock = Lock()

    @property
    def ids(self) -> list[str]:
        """The ids in the sample, at most 256."""
        return self.ids_within(None)

    def ids_within(self, within: AbstractSet[str] | None) -> list[str]:
        """Return the sample, at most 256 ids, of all tools or of those in a set."""
        with self._lock:
            if within is None:
                return self._order[:_SAMPLE_SIZE]
            if len(within) <= _SAMPLE_SIZE:
                return [one for one in sorted(within, key=_sort_key) if self._is_known(one, self._find(one))]
            return list(islice(filter(within.__contains__, self._order), _SAMPLE_SIZE))

    def update(self, added: Sequence[str], removed: Sequence[str]) -> None:
        """Remove and add ids."""
        with self._lock:
            if len(added) + len(removed) > _MAX_INSERTED_SINGLY:
                self._order = _sort_by_checksum(set(self._order).difference(removed).union(added))
                return
            for tool_id in removed:
                if self._is_known(tool_id, at := self._find(tool_id)):
                    del self._order[at]
            for tool_id in added:
                if not self._is_known(tool_id, at := self._find(tool_id)):
                    self._order.insert(at, tool_id)

    def _find(self, tool_id: str) -> int:
        return bisect_left(self._order, _sort_key(tool_id), key=_sort_key)

    def _is_known(self, tool_id: str, at: int) -> bool:
        return self._order[at : at + 1] == [tool_id]


def _sort_by_checksum(ids: Iterable[str]) -> list[str]:
    """Return ids sorted as by `_sort_key`; with many, arrays take less time and memory than pairs."""
    listed = sorted(ids)
    sums = (crc32(tool_id.encode(errors="surrogatepass")) for tool_id in listed)
    order = np.argsort(np.fromiter(sums, np.uint32, len(listed)), kind="stable")
    return [listed[at] for at in order.tolist()]


def _sort_key(tool_id: str) -> tuple[int, str]:
    return crc32(tool_id.encode(errors="surrogatepass")), tool_id
