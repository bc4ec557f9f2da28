"""All tools of an index, and the ways to them."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable

from toolcrib.concurrency.lru import LruCache
from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import ID, NAMESPACE, NONE_OF, Admission, Filter
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.names import Named, Names
from toolcrib.discovery.keys import is_exact, without_version

_FEW = 1_000
"""Up to how many ids are put in their places one by one; more are sorted in."""
_ADMISSIONS = 64
"""How many admissions are kept up with; one that is used again is filed anew."""
_KEPT = 64
_LONGEST_KEPT = 4_096
"""How many selections are kept, and the characters of the longest filter of one: callers write filters."""
_MENDED = 1_000
"""Up to how many changes a selection is mended; after more it is made anew."""


class EntryTable(Lookup):
    """All entries; each change costs what the changed entries cost."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._order: list[str] = []
        self._versions: dict[str, set[str]] = {}
        self._selections = Selections(self._expand_id)
        self.names = Names()
        self._admissions: LruCache[str, Admission] = LruCache(_ADMISSIONS)

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
        return self.names.answering(name, among)

    def admit(self, admission: Admission) -> None:
        """File the tools that an admission lets pass under its facet, if that is not done yet."""
        if self._admissions.get(admission.key) is not None:
            return
        for dropped in self._admissions.put(admission.key, admission):
            for tool_id in self._selections.having(dropped.facet):
                self._selections.remove(tool_id, [dropped.facet])
        for entry in self._entries.values():
            if admission.admits(entry.id, entry.keys):
                self._selections.add(entry.id, [admission.facet])
        self._selections.forget(admission.facet)

    def _keys(self, entry: Entry) -> list[str]:
        """Return what an entry is filed under."""
        admitting = (one for one in self._admissions.values() if one.admits(entry.id, entry.keys))
        return [*entry.keys, *(one.facet for one in admitting)]

    def _expand_id(self, tool_id: str) -> Collection[str]:
        """Return the tools that an id stands for: all versions, where it has none."""
        if is_exact(tool_id):
            return (tool_id,) if tool_id in self._entries else ()
        return self._versions.get(tool_id, ())

    def _put_in(self, entry: Entry) -> None:
        self._entries[entry.id] = entry
        self._selections.add(entry.id, self._keys(entry))
        self._versions.setdefault(without_version(entry.id), set()).add(entry.id)
        self.names.add(entry)

    def _take_out(self, entry: Entry) -> None:
        name = without_version(entry.id)
        self._selections.remove(entry.id, self._keys(entry))
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

    def __init__(self, expand_id: Callable[[str], Collection[str]]) -> None:
        """File nothing yet; `expand_id` says which tools an id stands for."""
        self._expand_id = expand_id
        self._by_facet: dict[str, set[str]] = {}
        self._namespaces: set[str] = set()
        self._kept: dict[Filter, Selection] = {}

    @property
    def namespaces(self) -> list[str]:
        """The namespaces in order; an empty one stands for the tools without."""
        return sorted(self._namespaces)

    def namespaces_of(self, ids: frozenset[str]) -> list[str]:
        """Return the namespaces that some tools are in, in order."""
        return [one for one in self.namespaces if not self._by_facet[NAMESPACE + one].isdisjoint(ids)]

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

    def having(self, facet: str) -> frozenset[str]:
        """Return the tools that are filed under a facet."""
        return frozenset(self._by_facet.get(facet, ()))

    def forget(self, facet: str) -> None:
        """Make filters anew that ask for a facet."""
        for conditions in [
            conditions for conditions in self._kept if any(facet in one for one in conditions)
        ]:
            del self._kept[conditions]

    def note(self, changed: Collection[str]) -> None:
        """Remember that tools were added, removed or filed anew."""
        for conditions, selection in list(self._kept.items()):
            selection.stale.update(changed)
            if len(selection.stale) > _MENDED:
                del self._kept[conditions]

    def of(self, conditions: Filter) -> Selection:
        """Return the tools that pass a filter of at least one condition."""
        selection = self._kept.get(conditions)
        if selection is None:
            selection = Selection(self._select(conditions))
            if sum(len(facet) for facets in conditions for facet in facets) > _LONGEST_KEPT:
                return selection
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[conditions] = selection
        elif selection.stale:
            passing = {tool_id for tool_id in selection.stale if self._passes(tool_id, conditions)}
            gone = selection.ids & selection.stale - passing
            come = passing - selection.ids
            if come or gone:
                selection.change(come, gone)
            selection.stale.clear()
        return selection

    def _select(self, conditions: Filter) -> frozenset[str]:
        wanted = [self._ids_with_any(facets) for facets in conditions if NONE_OF not in facets] or [
            self._all_ids()
        ]
        unwanted = [self._ids_with_any(facets) for facets in conditions if NONE_OF in facets]
        first, *others = sorted(wanted, key=len)
        found = first.intersection(*others) if others else first
        return frozenset(found.difference(*unwanted) if unwanted else found)

    def _all_ids(self) -> set[str]:
        return self._ids_with_any(frozenset(NAMESPACE + one for one in self._namespaces))

    def _ids_with_any(self, facets: frozenset[str]) -> set[str]:
        """Return the tools that have one of some facets, not to be changed."""
        groups = [self._by_facet[facet] for facet in facets if facet in self._by_facet]
        named = [self._expand_id(facet.removeprefix(ID)) for facet in facets if facet.startswith(ID)]
        return groups[0] if len(groups) == 1 and not named else set().union(*groups, *named)

    def _passes(self, tool_id: str, conditions: Filter) -> bool:
        return tool_id in self._expand_id(tool_id) and all(
            self._has_one(tool_id, facets) != (NONE_OF in facets) for facets in conditions
        )

    def _has_one(self, tool_id: str, facets: frozenset[str]) -> bool:
        is_named = not facets.isdisjoint((ID + tool_id, ID + without_version(tool_id)))
        return is_named or any(tool_id in self._by_facet.get(facet, ()) for facet in facets)
