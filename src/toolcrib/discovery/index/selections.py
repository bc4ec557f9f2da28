"""Which tools have which facet, and which of them pass a filter."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable

from toolcrib.discovery.index.filters import NAMESPACE, Filter

__all__ = ["Selection", "Selections"]

_KEPT = 64
_FEW = 1_000
"""Up to how many changes a selection is mended; after more it is made anew."""


class Selection:
    """The tools that pass a filter; the set is never changed, but replaced where another tool passes."""

    __slots__ = ("_order", "ids", "stale")

    def __init__(self, ids: frozenset[str]) -> None:
        self.ids = ids
        self.stale: set[str] = set()
        """The tools that have changed since."""
        self._order: list[str] | None = None

    @property
    def order(self) -> list[str]:
        """The ids in order; to be read at once, since it changes with the selection."""
        if self._order is None:
            self._order = sorted(self.ids)
        return self._order

    def change(self, come: Collection[str], gone: Collection[str]) -> None:
        """Let tools in and out."""
        self.ids = (self.ids.difference(gone) if gone else self.ids).union(come)
        if self._order is not None:
            for tool_id in gone:
                del self._order[bisect_left(self._order, tool_id)]
            for tool_id in come:
                insort(self._order, tool_id)


class Selections:
    """Tools by facet; a filter that was asked for before is mended where tools changed, not made anew."""

    def __init__(self) -> None:
        self._by_facet: dict[str, set[str]] = {}
        self._namespaces: set[str] = set()
        self._kept: dict[Filter, Selection] = {}

    @property
    def namespaces(self) -> list[str]:
        """The namespaces in order; an empty one stands for the tools without."""
        return sorted(self._namespaces)

    def add(self, tool_id: str, facets: Iterable[str]) -> None:
        """File a tool under its facets."""
        for facet in facets:
            if facet not in self._by_facet:
                self._by_facet[facet] = set()
                if facet.startswith(NAMESPACE):
                    self._namespaces.add(facet.removeprefix(NAMESPACE))
            self._by_facet[facet].add(tool_id)

    def remove(self, tool_id: str, facets: Iterable[str]) -> None:
        """Take a tool from under its facets."""
        for facet in facets:
            self._by_facet[facet].discard(tool_id)
            if not self._by_facet[facet]:
                del self._by_facet[facet]
                if facet.startswith(NAMESPACE):
                    self._namespaces.remove(facet.removeprefix(NAMESPACE))

    def note(self, changed: Collection[str]) -> None:
        """Remember that tools were added, removed or filed anew."""
        for conditions, selection in list(self._kept.items()):
            selection.stale.update(changed)
            if len(selection.stale) > _FEW:
                del self._kept[conditions]

    def of(self, conditions: Filter) -> Selection:
        """Return the tools that pass a filter of at least one condition."""
        selection = self._kept.get(conditions)
        if selection is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            selection = self._kept[conditions] = Selection(self._found(conditions))
        elif selection.stale:
            passing = {tool_id for tool_id in selection.stale if self._passes(tool_id, conditions)}
            gone = selection.ids & selection.stale - passing
            come = passing - selection.ids
            if come or gone:
                selection.change(come, gone)
            selection.stale.clear()
        return selection

    def _found(self, conditions: Filter) -> frozenset[str]:
        first, *others = sorted(map(self._having, conditions), key=len)
        return frozenset(first.intersection(*others) if others else first)

    def _having(self, facets: frozenset[str]) -> set[str]:
        """Return the tools that have one of some facets, not to be changed."""
        groups = [self._by_facet[facet] for facet in facets if facet in self._by_facet]
        return groups[0] if len(groups) == 1 else set().union(*groups)

    def _passes(self, tool_id: str, conditions: Filter) -> bool:
        return all(any(tool_id in self._by_facet.get(facet, ()) for facet in facets) for facets in conditions)
