"""Lookups among the tools of an index or of a part of it."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Filter
from toolcrib.discovery.index.names import Named, Names


class Lookup(ABC):
    """Entries by id, in order, by name and by facet; callers hold the lock of the index."""

    names: Names
    """The names of all tools of the index."""

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
    def listed(self, conditions: Filter = ()) -> list[str]:
        """Return the ids that pass a filter, in order; to be read at once, since it changes."""

    @abstractmethod
    def selected(self, conditions: Filter = ()) -> frozenset[str] | None:
        """Return the ids that pass a filter, the same set until others do; None where all there are do."""

    @abstractmethod
    def answering(self, name: str) -> Named:
        """Return the tools that answer to a name, and how directly."""

    def __len__(self) -> int:
        return len(self.listed())

    def __contains__(self, tool_id: str) -> bool:
        return self.get(tool_id) is not None

    def entries(self, ids: Iterable[str]) -> list[Entry]:
        """Return the entries with those of the ids that are there."""
        return [entry for tool_id in ids if (entry := self.get(tool_id)) is not None]

    def starting(self, prefix: str) -> Iterator[str]:
        """Yield the ids that begin with a text, in order."""
        for tool_id in self.following(prefix):
            if not tool_id.startswith(prefix):
                return
            yield tool_id

    def following(self, text: str, *, before: int = 0) -> Iterator[str]:
        """Yield the ids from the place of a text on, and some of those before it."""
        order = self.listed()
        for at in range(max(0, bisect_left(order, text) - before), len(order)):
            yield order[at]
