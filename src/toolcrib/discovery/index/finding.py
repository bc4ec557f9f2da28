"""A question put to a searcher: tools called by name first, then what the searcher finds."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolcrib.discovery.protocols import Hit, Ranking, Searcher

__all__ = ["Search"]

_DEEPEST = 500
"""How many hits are looked at for those that are sure enough."""


@dataclass(frozen=True, slots=True)
class Search:
    """One question, and where to look."""

    searcher: Searcher
    query: str
    named: frozenset[str]
    """The tools that the question calls by name."""
    among: frozenset[str] | None

    def find(self, count: int, min_confidence: float) -> Ranking:
        """Return the best `count` hits that are sure enough, and how many there are."""
        if min_confidence <= 0:
            return self._ranked(count)
        sure = [hit for hit in self._ranked(_DEEPEST) if hit.confidence >= min_confidence]
        return Ranking(sure[:count], len(sure))

    def _ranked(self, count: int) -> Ranking:
        named = self.named if self.among is None else self.named & self.among
        if not named:
            return self.searcher.search(self.query, limit=count, among=self.among)
        rest = self.searcher.search(self.query, limit=count, among=self.among, exclude=named)
        first = self._by_name(named, above=rest[0].score if rest else 0.0)
        return Ranking([*first, *rest][:count], len(first) + rest.total)

    def _by_name(self, named: frozenset[str], above: float) -> Sequence[Hit]:
        """Return the named tools, the likeliest first, each with a score above that of every other."""
        found = self.searcher.search(self.query, limit=len(named), among=named)
        missing = sorted(named.difference(hit.id for hit in found))
        scored = [*((hit.id, max(hit.score, 0.0)) for hit in found), *((tool_id, 0.0) for tool_id in missing)]
        return [Hit(tool_id, above + 1.0 + score, 1.0) for tool_id, score in scored]
