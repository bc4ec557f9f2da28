"""The tools of an index that a filter lets pass, as if there were no others."""

from toolcrib.discovery.index.catalogue import Catalogue
from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Filter, combined
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.names import Named

__all__ = ["FilteredLookup"]


class FilteredLookup(Lookup):
    """A part of a catalogue; it follows the catalogue at the cost of the tools that have changed."""

    def __init__(self, whole: Catalogue, conditions: Filter) -> None:
        self._whole = whole
        self._conditions = conditions
        self._spaces: tuple[frozenset[str], list[str]] | None = None

    def get(self, tool_id: str) -> Entry | None:
        """Return an entry, or None."""
        inside = self.selected()
        return self._whole.get(tool_id) if inside is None or tool_id in inside else None

    def namespaces(self) -> list[str]:
        """Return the namespaces that its tools are in."""
        inside = self.selected()
        if inside is None:
            return self._whole.namespaces()
        if self._spaces is None or self._spaces[0] is not inside:
            self._spaces = inside, self._whole.namespaces_of(inside)
        return self._spaces[1]

    def versions(self, name: str) -> list[str]:
        """Return the ids of those versions of a tool that are inside."""
        inside, found = self.selected(), self._whole.versions(name)
        return found if inside is None else [tool_id for tool_id in found if tool_id in inside]

    def listed(self, conditions: Filter = ()) -> list[str]:
        """Return the ids that pass a further filter."""
        return self._whole.listed(self._both(conditions))

    def selected(self, conditions: Filter = ()) -> frozenset[str] | None:
        """Return the ids that pass a further filter; None where all there are do, inside and out."""
        return self._whole.selected(self._both(conditions))

    def answering(self, name: str) -> Named:
        """Return the tools that answer to a name."""
        return self._whole.answering(name, self.selected())

    def named_in(self, question: str, among: frozenset[str] | None) -> Named:
        """Return those among some of its tools that a question names."""
        return self._whole.named_in(question, among)

    def _both(self, conditions: Filter) -> Filter:
        return combined((*self._conditions, *conditions)) if conditions else self._conditions
