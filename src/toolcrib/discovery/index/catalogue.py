"""All tools of an index, and the ways to them."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import Filter
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.names import Named, Names
from toolcrib.discovery.index.selections import Selections
from toolcrib.discovery.keys import is_exact, without_version

__all__ = ["Catalogue"]

_FEW = 1_000
"""Up to how many ids are put in their places one by one; more are sorted in."""


class Catalogue(Lookup):
    """All entries; each change costs what the changed entries cost."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._order: list[str] = []
        self._versions: dict[str, set[str]] = {}
        self._selections = Selections(self._meant)
        self._names = Names()

    def get(self, tool_id: str) -> Entry | None:
        """Return an entry, or None."""
        return self._entries.get(tool_id)

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

    def listed(self, conditions: Filter = ()) -> list[str]:
        """Return the ids that pass a filter, in order; to be read at once, since it changes."""
        return self._selections.of(conditions).order if conditions else self._order

    def selected(self, conditions: Filter = ()) -> frozenset[str] | None:
        """Return the ids that pass a filter, the same set until others do; None where all do."""
        return self._selections.of(conditions).ids if conditions else None

    def namespaces_of(self, ids: frozenset[str]) -> list[str]:
        """Return the namespaces that some tools are in, in order."""
        return self._selections.namespaces_of(ids)

    def answering(self, name: str, among: frozenset[str] | None = None) -> Named:
        """Return the tools that answer to a name, as if there were only those among which to look."""
        return self._names.answering(name, among)

    def named_in(self, question: str, among: frozenset[str] | None) -> Named:
        """Return those among some tools that a question names, and how directly."""
        return self._names.named_in(question, among)

    def _meant(self, tool_id: str) -> Collection[str]:
        """Return the tools that an id stands for: all versions, where it has none."""
        if is_exact(tool_id):
            return (tool_id,) if tool_id in self._entries else ()
        return self._versions.get(tool_id, ())

    def _put_in(self, entry: Entry) -> None:
        self._entries[entry.id] = entry
        self._selections.add(entry.id, entry.keys)
        self._versions.setdefault(without_version(entry.id), set()).add(entry.id)
        self._names.add(entry)

    def _take_out(self, entry: Entry) -> None:
        name = without_version(entry.id)
        self._selections.remove(entry.id, entry.keys)
        self._versions[name].discard(entry.id)
        if not self._versions[name]:
            del self._versions[name]
        self._names.remove(entry)

    def _reorder(self, fresh: list[str], gone: list[str]) -> None:
        if len(fresh) + len(gone) > _FEW:
            self._order = sorted(self._entries)
            return
        for tool_id in gone:
            del self._order[bisect_left(self._order, tool_id)]
        for tool_id in fresh:
            insort(self._order, tool_id)
