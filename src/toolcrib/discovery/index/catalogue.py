"""The tools of an index, and the ways to them."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Filter
from toolcrib.discovery.index.names import Names
from toolcrib.discovery.index.selections import Selections
from toolcrib.discovery.keys import without_version

__all__ = ["Catalogue"]

_FEW = 1_000
"""Up to how many ids are put in their places one by one; more are sorted in."""


class Catalogue:
    """Entries by id, in order, by name and by facet; each change costs what the changed entries cost."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._order: list[str] = []
        self._versions: dict[str, set[str]] = {}
        self._selections = Selections()
        self.names = Names()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._entries

    def get(self, tool_id: str) -> Entry | None:
        """Return an entry, or None."""
        return self._entries.get(tool_id)

    def entries(self, ids: Iterable[str]) -> list[Entry]:
        """Return the entries with those of the ids that are there."""
        return [self._entries[tool_id] for tool_id in ids if tool_id in self._entries]

    def hashes(self) -> set[str]:
        """Return the content hashes of all entries."""
        return {entry.content_hash for entry in self._entries.values()}

    def replace(self, put: Iterable[Entry], drop: Iterable[str] = ()) -> None:
        """Take entries out and put others in."""
        entries = {entry.id: entry for entry in put}
        gone = [tool_id for tool_id in drop if tool_id in self._entries and tool_id not in entries]
        fresh = [tool_id for tool_id in entries if tool_id not in self._entries]
        for tool_id in (*gone, *(tool_id for tool_id in entries if tool_id in self._entries)):
            self._take_out(self._entries.pop(tool_id))
        for entry in entries.values():
            self._put_in(entry)
        self._reorder(fresh, gone)
        self._selections.note([*gone, *entries])

    def namespaces(self) -> list[str]:
        """Return the namespaces in order; an empty one stands for the tools without."""
        return self._selections.namespaces

    def versions(self, name: str) -> list[str]:
        """Return the ids of all versions of a tool, given as `namespace:name` or `name`."""
        return sorted(self._versions.get(name, ()))

    def listed(self, conditions: Filter) -> list[str]:
        """Return the ids that pass a filter, in order; to be read at once, since it changes."""
        return self._selections.of(conditions).order if conditions else self._order

    def selected(self, conditions: Filter) -> frozenset[str] | None:
        """Return the ids that pass a filter, the same set until others do; None where all do."""
        return self._selections.of(conditions).ids if conditions else None

    def starting(self, prefix: str) -> Iterator[str]:
        """Yield the ids that begin with a text, in order."""
        for tool_id in self.following(prefix):
            if not tool_id.startswith(prefix):
                return
            yield tool_id

    def following(self, text: str, *, before: int = 0) -> Iterator[str]:
        """Yield the ids from the place of a text on, and some of those before it."""
        for at in range(max(0, bisect_left(self._order, text) - before), len(self._order)):
            yield self._order[at]

    def _put_in(self, entry: Entry) -> None:
        self._entries[entry.id] = entry
        self._selections.add(entry.id, entry.keys)
        self._versions.setdefault(without_version(entry.id), set()).add(entry.id)
        self.names.add(entry)

    def _take_out(self, entry: Entry) -> None:
        name = without_version(entry.id)
        self._selections.remove(entry.id, entry.keys)
        self._versions[name].discard(entry.id)
        if not self._versions[name]:
            del self._versions[name]
        self.names.remove(entry)

    def _reorder(self, fresh: list[str], gone: list[str]) -> None:
        if len(fresh) + len(gone) > _FEW:
            self._order = sorted(self._entries)
            return
        for tool_id in gone:
            del self._order[bisect_left(self._order, tool_id)]
        for tool_id in fresh:
            insort(self._order, tool_id)
