"""Vectors of documents: the table with its searches, and the queue of updates that threads share.

`LiveVectors` is what searchers hold. It keeps a queue of changed documents before `DocumentVectors`, which
does the searching and knows nothing of threads.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.protocols import Indexed
from toolcrib.discovery.search.semantic.graph import NeighbourGraph
from toolcrib.discovery.search.semantic.source import MAX_BATCH, CallerHooks, VectorSource, batched
from toolcrib.discovery.search.semantic.units import from_bytes
from toolcrib.discovery.search.semantic.vectors import Floats, Packed, Precision, Slots, VectorTable
from toolcrib.discovery.search.snapshot import SearchSnapshot, is_due

T = TypeVar("T")

Method = Literal["exact", "graph"]

_MIN_NEIGHBOURS = 64
"""The minimum number of neighbours requested from a graph: the more, the better the recall."""
_MAX_NEIGHBOURS = 1_000
"""If more are wanted, comparing every vector is as fast."""
_OVERSAMPLING = 4
"""Neighbours requested from the graph for each one wanted; the exact cosines decide among them."""
_MAX_STALE = 3
"""A graph with more than one stale vector to this many live ones is rebuilt."""


_LINK_BATCH = 16
"""The number of vectors added to the graph under one hold of the lock, which bounds the wait of readers."""
_POLL_INTERVAL = 0.05
"""Seconds between the checks for cancellation of a thread that waits for another one's update."""


@dataclass(frozen=True, slots=True)
class VectorUpdate:
    """A change of document vectors that is applied at once."""

    removed: Sequence[str]
    ids: Sequence[str]
    """The documents to put, without duplicates and disjoint from `removed`."""
    hashes: Sequence[str]
    """Their content hashes, in the same order."""
    packed: Packed
    """Their vectors, in the same order."""


class NearestDocuments(NamedTuple):
    """The documents nearest to a query."""

    found: list[tuple[str, float]]
    """Their ids and cosines, the nearest first."""
    total: int
    """The number of documents without the limit."""


class DocumentVectors:
    """Document vectors by id, each with the hash of the content that it was computed from.

    With up to `exact_limit` documents, and among given ids, a search compares every vector. Above the limit a
    graph proposes candidates; documents that `link` has not put into it yet are compared too. The cosines of
    the results always come from the table, so they are the same either way. Not thread-safe.
    """

    def __init__(self, dimensions: int, *, precision: Precision, exact_limit: int) -> None:
        self.table = VectorTable(dimensions, precision=precision)
        self._exact_limit = exact_limit
        self._slots: dict[str, int] = {}
        self._ids: list[str] = []
        self._hashes: list[str] = []
        self._slot_by_hash: dict[str, int] = {}
        """A slot with the vector of the content that has this hash."""
        self._graph: NeighbourGraph | None = None
        self._unlinked: set[int] = set()
        """The slots that are not in the graph."""

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def method(self) -> Method:
        """The method of a search among all documents."""
        # With most vectors outside the graph, they are all compared anyway.
        return "graph" if self._graph is not None and len(self._unlinked) * 2 < len(self) else "exact"

    def outdated(self, hashes: Mapping[str, str]) -> dict[str, str]:
        """Return those of the documents, each with the hash of its content, that have no vector of it."""
        slots, known = self._slots, self._hashes
        return {
            name: one
            for name, one in hashes.items()
            if (slot := slots.get(name)) is None or known[slot] != one
        }

    def slot_with_hash(self, content_hash: str) -> int | None:
        """Return a slot with the vector of a content; None if there is none."""
        return self._slot_by_hash.get(content_hash)

    def apply(self, change: VectorUpdate) -> None:
        """Remove documents and put others, replacing those with the same ids."""
        if not change.removed and not change.ids:
            return
        if not self._slots:  # without copies of the vectors, which take most of the time to open a catalogue
            self._assign_slots(self.table.add(change.packed).tolist(), change)
            return
        gone = [self._slots.pop(name) for name in change.removed if name in self._slots]
        self._detach_slots(gone)
        self.table.remove(np.array(gone, np.intp))
        places = self._find(change.ids)
        known = places >= 0
        self._detach_slots(places[known].tolist())
        self.table.replace(places[known], change.packed.take(np.flatnonzero(known)))
        places[~known] = self.table.add(change.packed.take(np.flatnonzero(~known)))
        self._assign_slots(places.tolist(), change)
        if self._graph is not None and self._graph.stale > len(self._graph):
            self._graph = None

    def snapshot(self) -> SearchSnapshot:
        """Return the documents with their vectors, except those whose vector says nothing."""
        slots = self.table.slots()
        slots = slots[self.table.copy_rows(slots).inverse_lengths > 0]
        packed = self.table.copy_rows(slots)
        places = slots.tolist()
        return SearchSnapshot(
            {"ids": [self._ids[slot] for slot in places], "hashes": [self._hashes[slot] for slot in places]},
            {"rows": packed.rows, "inverse_lengths": packed.inverse_lengths, "signs": packed.signs},
        )

    def cosines(self, query: NDArray[Any], ids: Iterable[str]) -> Floats:
        """Return the cosine of a query to each document; 0 for an unknown one."""
        slots = self._find(ids)
        known = slots >= 0
        found = np.zeros(len(slots), np.float32)
        found[known] = self.table.cosines(query, slots[known])
        return found

    def vectors(self, ids: Iterable[str]) -> Floats:
        """Return the unit vector of each document; zeros for an unknown one."""
        slots = self._find(ids)
        known = slots >= 0
        found = np.zeros((len(slots), self.table.dimensions), np.float32)
        packed = self.table.copy_rows(slots[known])
        found[known] = packed.rows * packed.inverse_lengths[:, None]
        return found

    def nearest(
        self,
        query: NDArray[Any],
        limit: int,
        among: AbstractSet[str] | None = None,
        exclude: AbstractSet[str] = frozenset(),
        *,
        approximate: bool = False,
    ) -> NearestDocuments:
        """Return the `limit` documents nearest to a query; ties are ordered by id.

        Only documents in `among`, if given, and not in `exclude` count; `approximate` may miss a few.
        """
        count = limit + len(exclude)  # excluded documents are dropped after the search
        slots = self._graph_candidates(query, count) if among is None else self._slots_of(among)
        found, cosines = self.table.nearest(query, count, slots, approximate=approximate)
        ids = self._ids
        pairs = sorted(
            (-cosine, ids[slot]) for slot, cosine in zip(found.tolist(), cosines.tolist(), strict=True)
        )
        nearest = [(name, -negative) for negative, name in pairs[:count] if name not in exclude]
        known = self._slots if among is None else self._slots.keys() & among
        return NearestDocuments(nearest[:limit], len(known) - sum(name in known for name in exclude))

    def unlinked(self) -> list[str]:
        """Return the sorted ids that `link` should add to the graph; drop the graph if it is not needed.

        A graph with too many stale vectors is replaced by an empty one, so that all ids are returned.
        """
        if len(self) <= self._exact_limit:
            self._graph = None
            return []
        if self._graph is None or self._graph.stale * _MAX_STALE > len(self._graph):
            self._graph = NeighbourGraph.of(self.table.dimensions)
            self._unlinked = set(self._slots.values())
        return [] if self._graph is None else sorted(self._ids[slot] for slot in self._unlinked)

    def link(self, ids: Sequence[str]) -> None:
        """Add documents to the graph, except those that were removed or are in it."""
        slots = np.array([slot for name in ids if (slot := self._slots.get(name)) in self._unlinked], np.intp)
        packed = self.table.copy_rows(slots)
        nonzero = packed.inverse_lengths > 0  # a vector of zeros has no direction
        if self._graph is not None:
            self._graph.add(slots[nonzero], packed.rows[nonzero])
            self._unlinked.difference_update(slots[nonzero].tolist())

    def _graph_candidates(self, query: NDArray[Any], count: int) -> Slots | None:
        """Return the slots that the graph proposes and those outside it; None if all must be compared."""
        wanted = max(_MIN_NEIGHBOURS, count * _OVERSAMPLING)
        if self._graph is None or self.method == "exact" or wanted > _MAX_NEIGHBOURS:
            return None
        near = self._graph.nearest(query, wanted)
        if len(near) < count:
            return None
        return np.concatenate((near, np.fromiter(self._unlinked, np.intp, len(self._unlinked))))

    def _slots_of(self, among: AbstractSet[str]) -> Slots:
        slots = self._find(among if len(among) <= len(self) else among & self._slots.keys())
        return np.sort(slots[slots >= 0])  # rows are read faster in their order

    def _find(self, ids: Iterable[str]) -> Slots:
        """Return the slot of each document; -1 for an unknown one."""
        return np.fromiter(map(self._slots.get, ids, repeat(-1)), np.intp)

    def _detach_slots(self, slots: Sequence[int]) -> None:
        """Forget the hashes and graph entries of slots whose vectors are about to go."""
        for slot in slots:
            if self._slot_by_hash.get(self._hashes[slot]) == slot:
                del self._slot_by_hash[self._hashes[slot]]
            self._unlinked.discard(slot)
            if self._graph is not None:
                self._graph.discard(slot)

    def _assign_slots(self, slots: Sequence[int], change: VectorUpdate) -> None:
        """Record the documents whose vectors are in these slots."""
        self._slots.update(zip(change.ids, slots, strict=True))
        self._slot_by_hash.update(zip(change.hashes, slots, strict=True))
        if slots == list(range(len(self._ids), len(self._ids) + len(slots))):
            self._ids += change.ids
            self._hashes += change.hashes
        else:
            extra = max(slots, default=-1) + 1 - len(self._ids)
            self._ids.extend([""] * extra)
            self._hashes.extend([""] * extra)
            for slot, name, content_hash in zip(slots, change.ids, change.hashes, strict=True):
                self._ids[slot] = name
                self._hashes[slot] = content_hash
        if self._graph is not None:
            self._unlinked.update(slots)


class LiveVectors:
    """Queues updates, and computes the vectors they need before the next search.

    Registering a tool must not wait for an embedding model, so an update is only queued. The first thread
    that needs current vectors applies the queue (`apply_updates`), and others wait for it. While it embeds,
    the lock is free: more updates can be queued, and searches that began earlier go on. Then the whole queue
    becomes visible at once. Every method may be called from any thread.
    """

    def __init__(self, source: VectorSource, *, precision: Precision, exact_limit: int) -> None:
        self._source = source
        self._precision = precision
        self._make_documents = partial(DocumentVectors, precision=precision, exact_limit=exact_limit)
        self._lock = threading.Lock()
        """Guards the attributes below; never held while texts are embedded."""
        self._documents: DocumentVectors | None = None
        self._changes: dict[str, Indexed | None] = {}
        """The queue: the latest entry of each changed id, None for a removed one."""
        self._queued_count = 0
        self._applied_count = 0
        """The number of updates so far, and of those that the vectors include."""
        self._unsaved = 0
        """The number of documents that have changed since the last snapshot."""
        self._turn: threading.Event | None = None
        """Set when the thread that is applying updates has finished; None if there is none."""

    @property
    def pending(self) -> int:
        """The number of documents in the queue."""
        return len(self._changes)

    @property
    def method(self) -> Method:
        """The method of a search among all documents."""
        documents = self._documents
        return "exact" if documents is None else documents.method

    def __bool__(self) -> bool:
        """Return whether there may be any document."""
        return bool(self._documents or self._changes)

    def queue(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Queue a change of documents; one that is both removed and added is added."""
        changes: dict[str, Indexed | None] = dict.fromkeys(removed)
        changes |= {one.id: one for one in added}
        with self._lock:
            self._changes |= changes
            self._queued_count += 1

    def read(self, question: Callable[[DocumentVectors], T]) -> T | None:
        """Return the result of a function on the documents, which do not change meanwhile; None if empty."""
        with self._lock:
            return question(self._documents) if self._documents else None

    def apply_updates(self, hooks: CallerHooks) -> None:
        """Apply, or wait for another thread to apply, every update that was queued before the call."""
        goal = self._queued_count
        while self._applied_count < goal and (turn := self._take_turn(goal)):
            mine, event = turn
            if mine:
                try:
                    self._apply_pending(hooks)
                finally:
                    self._end_turn(event)
            else:
                while not event.wait(_POLL_INTERVAL):
                    hooks.check()

    def link_graph(self, hooks: CallerHooks) -> None:
        """Add documents to the neighbour graph, a few at a time."""
        documents = self._documents
        if documents is None:
            return
        with self._lock:
            loose = documents.unlinked()
        for start in range(0, len(loose), _LINK_BATCH):
            hooks.check()
            with self._lock:
                documents.link(loose[start : start + _LINK_BATCH])
            time.sleep(0)  # yields to readers: a released lock would else be taken again at once

    def _take_turn(self, goal: int) -> tuple[bool, threading.Event] | None:
        """Return whether this thread shall apply the queue, and the event of its end; None if all is done."""
        with self._lock:
            if self._applied_count >= goal:
                return None
            if self._turn is not None:
                return False, self._turn
            self._turn = threading.Event()
            return True, self._turn

    def _end_turn(self, event: threading.Event) -> None:
        with self._lock:
            self._turn = None
        event.set()

    def _apply_pending(self, hooks: CallerHooks) -> None:
        with self._lock:
            goal = self._queued_count
            changes = dict(self._changes)
        opening = self._documents is None
        found = self._prepare_update(hooks, changes)
        kept = None
        with self._lock:
            if found is not None:
                self._documents, change = found
                self._documents.apply(change)
                self._unsaved += len(change.ids) + len(change.removed)
                if is_due(self._unsaved, len(self._documents), opening=opening):
                    kept, self._unsaved = self._documents.snapshot(), 0
            # Changes that were queued meanwhile stay for the next time.
            queued = self._changes.items()
            self._changes = {
                name: one for name, one in queued if name not in changes or changes[name] is not one
            }
            self._applied_count = goal
        self._source.clear()
        if kept is not None:
            self._source.save_snapshot(kept, self._precision)

    def _prepare_update(
        self, hooks: CallerHooks, changes: Mapping[str, Indexed | None]
    ) -> tuple[DocumentVectors, VectorUpdate] | None:
        """Compute the vectors of queued changes; return the update and the documents to apply it to.

        The documents can be read without the lock, because only the thread whose turn it is changes them.
        """
        put = {name: one for name, one in changes.items() if one is not None}
        hashes = {name: one.content_hash for name, one in put.items()}
        held = self._documents or self._restore(hooks, hashes)
        if held is not None:
            hashes = held.outdated(hashes)
        missing = {
            one: put[name] for name, one in hashes.items() if held is None or held.slot_with_hash(one) is None
        }
        made = self._source.fetch(hooks, missing)
        if held is None and self._source.dimensions is not None:
            held = self._make_documents(self._source.dimensions)
        if held is None:
            return None
        names = sorted(hashes, key=lambda name: hashes[name] not in made)
        listed = [hashes[name] for name in names]
        removed = [name for name, one in changes.items() if one is None]
        return held, VectorUpdate(removed, names, listed, _pack(held, made, listed))

    def _restore(self, hooks: CallerHooks, hashes: Mapping[str, str]) -> DocumentVectors | None:
        """Return those of the documents that the snapshot describes; None if it describes none."""
        kept = self._source.load_snapshot(hooks, self._precision) if hashes else None
        if kept is None:
            return None
        ids, described = kept.texts["ids"], kept.texts["hashes"]
        known = [
            at for at, pair in enumerate(zip(ids, described, strict=True)) if hashes.get(pair[0]) == pair[1]
        ]
        if not known:
            return None
        documents = self._make_documents(kept.arrays["rows"].shape[1])
        packed = Packed(kept.arrays["rows"], kept.arrays["inverse_lengths"], kept.arrays["signs"])
        own = {name: name for name in hashes}  # the same texts, not copies of them
        names = [own[ids[at]] for at in known]
        if len(known) < len(ids):
            packed = packed.take(np.array(known))
        documents.apply(VectorUpdate([], names, [hashes[name] for name in names], packed))
        self._unsaved = len(ids) - len(known)
        return documents


def _pack(documents: DocumentVectors, made: Mapping[str, bytes], hashes: Sequence[str]) -> Packed:
    """Pack the vectors of contents: first those just computed, then those that the documents have."""
    table = documents.table
    fresh = [made[one] for one in hashes if one in made]
    slots = [documents.slot_with_hash(one) for one in hashes[len(fresh) :]]
    parts = [table.pack(from_bytes(blobs, table.dimensions)) for blobs in batched(fresh, MAX_BATCH)]
    return Packed.concatenate([*parts, table.copy_rows(np.array(slots, np.intp))])
