"""Interface to look up tools of an index or of a view."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Filter
from toolcrib.discovery.index.names import Named, Names


class Lookup(ABC):
    """Entries by id, in order, by name and by facet; callers hold the lock of the index."""

    names: Names
    """The names of all tools of the index, also of those outside a view."""

    @abstractmethod
    def get(self, tool_id: str) -> Entry | None:
        """Return an entry, or None."""

    @abstractmethod
    def namespaces(self) -> list[str]:
        """Return the namespaces in order; an empty one stands for the tools without."""

    @abstractmethod
    def versions(self, name: str) -> list[str]:
        """Return the ids of all versions of a tool, given as `namespace:name` or `name`."""

    @abstractmethod
    def sorted_ids(self, conditions: Filter = ()) -> list[str]:
        """Return the ids that pass a filter, sorted; the list is live, so read it under the lock."""

    @abstractmethod
    def matching_ids(self, conditions: Filter = ()) -> frozenset[str] | None:
        """Return the ids that pass a filter; None if no filter applies and all tools match.

        The same set object is returned until another tool passes, so that callers can cache by its identity.
        """

    @abstractmethod
    def find_by_name(self, name: str) -> Named:
        """Return the tools with a name, each with its directness."""

    def __len__(self) -> int:
        return len(self.sorted_ids())

    def __contains__(self, tool_id: str) -> bool:
        return self.get(tool_id) is not None

    def entries(self, ids: Iterable[str]) -> list[Entry]:
        """Return the entries of those ids that exist."""
        return [entry for tool_id in ids if (entry := self.get(tool_id)) is not None]

    def ids_with_prefix(self, prefix: str) -> Iterator[str]:
        """Yield the ids that begin with a prefix, sorted."""
        for tool_id in self.ids_from(prefix):
            if not tool_id.startswith(prefix):
                return
            yield tool_id

    def ids_from(self, text: str, *, before: int = 0) -> Iterator[str]:
        """Yield the sorted ids from the position of a text on, preceded by `before` earlier ones."""
        order = self.sorted_ids()
        for at in range(max(0, bisect_left(order, text) - before), len(order)):
            yield order[at]
