"""Protocol of search systems that can be evaluated, and its implementation by an index."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from toolcrib.discovery.index import Index
from toolcrib.discovery.protocols import Hit
from toolcrib.errors import ToolNotFoundError
from toolcrib.model import Tool, ToolBackend


@runtime_checkable
class Finder(Protocol):
    """A search system to evaluate.

    The confidence of a hit is in [0, 1]; a finder without confidences has 0 for all.
    """

    def search(self, query: str, *, limit: int) -> Sequence[Hit]:
        """Return at most `limit` hits, best first."""
        ...


@runtime_checkable
class Removable(Finder, Protocol):
    """A finder whose tools can be removed temporarily."""

    def without(self, ids: Collection[str], /) -> AbstractContextManager[None]:
        """Search without these tools until the context ends; unknown ids are ignored."""
        ...


@dataclass(frozen=True, slots=True)
class IndexFinder:
    """An index as a finder.

    `without` unregisters tools and registers them again, with their backends, so the index should not be used
    by others at the same time.
    """

    index: Index
    """The index that is searched."""

    def search(self, query: str, *, limit: int) -> list[Hit]:
        """Return the best results."""
        results = self.index.search(query, limit=limit)
        return [Hit(result.summary.id, result.score, result.confidence) for result in results]

    @contextmanager
    def without(self, ids: Collection[str], /) -> Iterator[None]:
        """Search without these tools until the context ends."""
        taken = [pair for tool_id in dict.fromkeys(ids) for pair in self._take(tool_id)]
        try:
            yield
        finally:
            self.index.register_many(taken)

    def _take(self, tool_id: str) -> list[tuple[Tool, ToolBackend | None]]:
        """Unregister a tool, and return the pairs that register it again."""
        try:
            tool = self.index.get(tool_id)
        except ToolNotFoundError:
            return []
        backends: Sequence[ToolBackend | None] = self.index.backends(tool_id) or (None,)
        self.index.unregister(tool_id)
        return [(tool, backend) for backend in backends]


def finder_of(index: Index) -> IndexFinder:
    """Return an index as a finder that can be measured."""
    return IndexFinder(index)
