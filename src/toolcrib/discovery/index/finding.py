"""A question put to a searcher: tools called by name first, then what the searcher finds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolcrib.discovery.index.filters import Filter, filter_text
from toolcrib.discovery.index.names import ALIAS
from toolcrib.discovery.protocols import Hit, Ranking, Searcher

__all__ = ["Asked", "Search"]

_DEPTH = 500
"""How many hits are looked at for those that are sure enough; more, where half of these still hold some."""
_DEEPER = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and which answers are wanted."""

    query: str
    conditions: Filter
    min_confidence: float

    @property
    def text(self) -> str:
        """Everything that the answers depend on, as one text."""
        return f"search {self.min_confidence!r} {filter_text(self.conditions)} {self.query}"


@dataclass(frozen=True, slots=True)
class Search:
    """One question, and where to look."""

    searcher: Searcher
    query: str
    named: Mapping[str, int]
    """The tools that the question calls by name, and how directly."""
    among: frozenset[str] | None

    def find(self, count: int, min_confidence: float) -> Ranking:
        """Return the best `count` hits that are sure enough, and how many there are."""
        if min_confidence <= 0:
            return self._ranked(count)
        depth = _DEPTH
        ranked: Sequence[Hit] = self._ranked(depth)
        while len(ranked) == depth and max(hit.confidence for hit in ranked[depth // 2 :]) >= min_confidence:
            depth *= _DEEPER
            ranked = self._ranked(depth)
        sure = [hit for hit in ranked if hit.confidence >= min_confidence]
        return Ranking(sure[:count], len(sure))

    def _ranked(self, count: int) -> Ranking:
        named = frozenset(self.named if self.among is None else self.among.intersection(self.named))
        if not named:
            return self.searcher.search(self.query, limit=count, among=self.among)
        rest = self.searcher.search(self.query, limit=count, among=self.among, exclude=named)
        first = self._by_name(named, above=rest[0].score if rest else 0.0)
        return Ranking([*first, *rest][:count], len(first) + rest.total)

    def _by_name(self, named: frozenset[str], above: float) -> Sequence[Hit]:
        """Return the named tools, the most directly named first, each with a score above every other's."""
        found = self.searcher.search(self.query, limit=len(named), among=named)
        scores = dict.fromkeys(named, 0.0) | {hit.id: max(hit.score, 0.0) for hit in found}
        step = max(scores.values()) + 1.0
        scored = [
            (above + 1.0 + step * (ALIAS - self.named[one]) + score, one) for one, score in scores.items()
        ]
        return [Hit(one, score, 1.0) for score, one in sorted(scored, key=lambda pair: (-pair[0], pair[1]))]
