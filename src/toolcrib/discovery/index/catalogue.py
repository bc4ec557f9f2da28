"""Entry table of an index, with ids in order and cached filter results.

A filter that is used again, such as that of a view, costs as much as the tools that changed since: its result
is kept, changed ids are noted as stale, and the next use tests these ids alone. Result sets are replaced, not
modified, so that searchers can cache by the identity of the set.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

from toolcrib.concurrency.lru import LruCache
from toolcrib.discovery.index.definitions import Definitions
from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import ID, NAMESPACE, NONE_OF, Admission, Filter
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.index.names import Named, Names
from toolcrib.discovery.keys import is_exact
from toolcrib.model.toolid import without_version

_MAX_INSERTED_SINGLY = 1_000
"""Up to this many changes the sorted list is updated by insertion; for more it is sorted again."""
_BLOCK = 1_000
"""Definitions in memory at a time while all are moved."""
_MAX_ADMISSIONS = 64
"""The number of admissions whose facets are kept up to date."""
_MAX_SELECTIONS = 64
_MAX_KEPT_FILTER_LENGTH = 4_096
"""Results of longer filters are not kept: callers write filters, and must not fill the memory."""
_MAX_STALE = 1_000
"""Up to this many changed ids a kept result is updated; with more it is computed again."""


class EntryTable(Lookup):
    """All entries of an index; the cost of a change depends on the changed entries alone."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._order: list[str] = []
        self._versions: dict[str, set[str]] = {}
        """The ids of tools that have a version, by the id without it."""
        self._made_selections: Selections | None = None
        self.names = Names(self._entries.get)
        self._admissions: LruCache[str, Admission] = LruCache(_MAX_ADMISSIONS)

    def get(self, tool_id: str) -> Entry | None:
        """Return an entry, or None."""
        return self._entries.get(tool_id)

    def content_hashes(self) -> set[str]:
        """Return the content content_hashes of all entries."""
        return {entry.content_hash for entry in self._entries.values()}

    def replace(self, put: Iterable[Entry], drop: Iterable[str] = ()) -> None:
        """Remove and add entries; an entry whose id is known is replaced."""
        entries = {entry.id: entry for entry in put}
        gone = [tool_id for tool_id in drop if tool_id in self._entries and tool_id not in entries]
        fresh = [tool_id for tool_id in entries if tool_id not in self._entries]
        for tool_id in (*gone, *(tool_id for tool_id in entries if tool_id in self._entries)):
            self._delete(self._entries.pop(tool_id))
        self._insert(entries)
        self._reorder(fresh, gone)
        if self._made_selections is not None:
            self._made_selections.mark_stale([*gone, *entries])

    def move_definitions(self, definitions: Definitions) -> None:
        """Move the definitions of all tools to another file, a block at a time."""
        remaining = iter(list(self._entries.values()))
        while block := list(islice(remaining, _BLOCK)):
            places = definitions.append([entry.definition for entry in block])
            for entry, place in zip(block, places, strict=True):
                self._entries[entry.id] = entry.moved_to(definitions, place)

    @property
    def _selections(self) -> "Selections":
        """The tools by facet, made when the first filter needs them."""
        if self._made_selections is None:
            self._made_selections = Selections(self._expand_id)
            for entry in self._entries.values():
                self._made_selections.add(entry.id, self._facets_of(entry))
        return self._made_selections

    def namespaces(self) -> list[str]:
        """Return the namespaces, sorted; an empty text stands for tools without a namespace."""
        return self._selections.namespaces

    def versions(self, name: str) -> list[str]:
        """Return the ids of all versions of a tool, given as `namespace:name` or `name`."""
        return sorted(self._expand_id(name)) if not is_exact(name) else []

    def sorted_ids(self, conditions: Filter = ()) -> list[str]:
        """Return the ids that pass a filter, sorted; the list is live, so read it under the lock."""
        return self._selections.select(conditions).order if conditions else self._order

    def matching_ids(self, conditions: Filter = ()) -> frozenset[str] | None:
        """Return the ids that pass a filter, the same set until another tool passes; None for no filter."""
        return self._selections.select(conditions).ids if conditions else None

    def namespaces_of(self, ids: frozenset[str]) -> list[str]:
        """Return the namespaces of some tools, sorted."""
        return self._selections.namespaces_of(ids)

    def find_by_name(self, name: str, among: frozenset[str] | None = None) -> Named:
        """Return the tools with a name; tools that are not in `among` are treated as absent."""
        return self.names.find_by_name(name, among)

    def admit(self, admission: Admission) -> None:
        """Give the facet of an admission to the tools that it admits, unless that is done already."""
        if self._admissions.get(admission.key) is not None:
            return
        for dropped in self._admissions.put(admission.key, admission):
            for tool_id in self._selections.ids_with(dropped.facet):
                self._selections.remove(tool_id, [dropped.facet])
        for entry in self._entries.values():
            if admission.admits(entry.id, entry.keys):
                self._selections.add(entry.id, [admission.facet])
        self._selections.forget(admission.facet)

    def _facets_of(self, entry: Entry) -> list[str]:
        """Return all facets of an entry, those of admissions included."""
        admitting = (one for one in self._admissions.values() if one.admits(entry.id, entry.keys))
        return [*entry.keys, *(one.facet for one in admitting)]

    def _expand_id(self, tool_id: str) -> Collection[str]:
        """Return the tools that an id stands for: all versions if it has no version."""
        exact = (tool_id,) if tool_id in self._entries else ()
        return (*exact, *self._versions[tool_id]) if tool_id in self._versions else exact

    def _insert(self, entries: Mapping[str, Entry]) -> None:
        self._entries.update(entries)
        if self._made_selections is not None:
            for entry in entries.values():
                self._made_selections.add(entry.id, self._facets_of(entry))
        for tool_id in filter(is_exact, entries):
            self._versions.setdefault(without_version(tool_id), set()).add(tool_id)
        self.names.add(list(entries.values()))

    def _delete(self, entry: Entry) -> None:
        if self._made_selections is not None:
            self._made_selections.remove(entry.id, self._facets_of(entry))
        if is_exact(entry.id):
            name = without_version(entry.id)
            self._versions[name].discard(entry.id)
            if not self._versions[name]:
                del self._versions[name]
        self.names.remove(entry)

    def _reorder(self, fresh: list[str], gone: list[str]) -> None:
        if len(fresh) + len(gone) > _MAX_INSERTED_SINGLY:
            self._order = sorted(self._entries)
            return
        for tool_id in gone:
            del self._order[bisect_left(self._order, tool_id)]
        for tool_id in fresh:
            insort(self._order, tool_id)


class Selection:
    """The tools that pass a filter; the set is replaced, never modified, when another tool passes."""

    __slots__ = ("_order", "ids", "stale")

    def __init__(self, ids: frozenset[str]) -> None:
        self.ids = ids
        self.stale: set[str] = set()
        """The tools that have changed since the set was computed."""
        self._order: list[str] | None = None

    @property
    def order(self) -> list[str]:
        """The sorted ids; the list is live, so read it under the lock."""
        if self._order is None:
            self._order = sorted(self.ids)
        return self._order

    def change(self, come: Collection[str], gone: Collection[str]) -> None:
        """Add and remove tools."""
        self.ids = (self.ids.difference(gone) if gone else self.ids).union(come)
        if self._order is not None:
            for tool_id in gone:
                del self._order[bisect_left(self._order, tool_id)]
            for tool_id in come:
                insort(self._order, tool_id)


class Selections:
    """Tools by facet, and the results of recent filters."""

    def __init__(self, expand_id: Callable[[str], Collection[str]]) -> None:
        """Begin without tools; `expand_id` returns the tools that an id stands for."""
        self._expand_id = expand_id
        self._by_facet: dict[str, set[str]] = {}
        self._namespaces: set[str] = set()
        self._kept: dict[Filter, Selection] = {}

    @property
    def namespaces(self) -> list[str]:
        """The namespaces, sorted; an empty text stands for tools without a namespace."""
        return sorted(self._namespaces)

    def namespaces_of(self, ids: frozenset[str]) -> list[str]:
        """Return the namespaces of some tools, sorted."""
        return [one for one in self.namespaces if not self._by_facet[NAMESPACE + one].isdisjoint(ids)]

    def add(self, tool_id: str, facets: Iterable[str]) -> None:
        """Add a tool under its facets."""
        for facet in facets:
            if facet not in self._by_facet:
                self._by_facet[facet] = set()
                if facet.startswith(NAMESPACE):
                    self._namespaces.add(facet.removeprefix(NAMESPACE))
            self._by_facet[facet].add(tool_id)

    def remove(self, tool_id: str, facets: Iterable[str]) -> None:
        """Remove a tool from under its facets."""
        for facet in facets:
            self._by_facet[facet].discard(tool_id)
            if not self._by_facet[facet]:
                del self._by_facet[facet]
                if facet.startswith(NAMESPACE):
                    self._namespaces.remove(facet.removeprefix(NAMESPACE))

    def ids_with(self, facet: str) -> frozenset[str]:
        """Return the tools with a facet."""
        return frozenset(self._by_facet.get(facet, ()))

    def forget(self, facet: str) -> None:
        """Drop the results of filters that contain a facet."""
        for conditions in [
            conditions for conditions in self._kept if any(facet in one for one in conditions)
        ]:
            del self._kept[conditions]

    def mark_stale(self, changed: Collection[str]) -> None:
        """Note that tools were added, removed or changed."""
        for conditions, selection in list(self._kept.items()):
            selection.stale.update(changed)
            if len(selection.stale) > _MAX_STALE:
                del self._kept[conditions]

    def select(self, conditions: Filter) -> Selection:
        """Return the tools that pass a filter with at least one condition."""
        selection = self._kept.get(conditions)
        if selection is None:
            selection = Selection(self._select(conditions))
            if sum(len(facet) for facets in conditions for facet in facets) > _MAX_KEPT_FILTER_LENGTH:
                return selection
            if len(self._kept) >= _MAX_SELECTIONS:
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
        first, *others = sorted(wanted, key=len)  # the smallest set first keeps the intersections small
        found = first.intersection(*others) if others else first
        return frozenset(found.difference(*unwanted) if unwanted else found)

    def _all_ids(self) -> set[str]:
        return self._ids_with_any(frozenset(NAMESPACE + one for one in self._namespaces))

    def _ids_with_any(self, facets: frozenset[str]) -> set[str]:
        """Return the tools with at least one of some facets; the set must not be modified."""
        groups = [self._by_facet[facet] for facet in facets if facet in self._by_facet]
        named = [self._expand_id(facet.removeprefix(ID)) for facet in facets if facet.startswith(ID)]
        return groups[0] if len(groups) == 1 and not named else set().union(*groups, *named)

    def _passes(self, tool_id: str, conditions: Filter) -> bool:
        return tool_id in self._expand_id(tool_id) and all(
            self._has_any(tool_id, facets) != (NONE_OF in facets) for facets in conditions
        )

    def _has_any(self, tool_id: str, facets: frozenset[str]) -> bool:
        is_named = not facets.isdisjoint((ID + tool_id, ID + without_version(tool_id)))
        return is_named or any(tool_id in self._by_facet.get(facet, ()) for facet in facets)
