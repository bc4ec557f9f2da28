"""Thread-safe document vectors with deferred updates."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from toolcrib.discovery.protocols import Indexed
from toolcrib.discovery.search.semantic.documents import DocumentVectors, Method, VectorUpdate
from toolcrib.discovery.search.semantic.source import MAX_BATCH, CallerHooks, VectorSource, batched
from toolcrib.discovery.search.semantic.units import from_bytes
from toolcrib.discovery.search.semantic.vectors import Packed, Precision

T = TypeVar("T")

_LINK_BATCH = 16
"""The number of vectors added to the graph under one hold of the lock, which bounds the wait of readers."""
_POLL_INTERVAL = 0.05
"""Seconds between the checks for cancellation of a thread that waits for another one's update."""


class LiveVectors:
    """Queues updates, and computes the vectors they need before the next search.

    Registering a tool must not wait for an embedding model, so an update is only queued. The first thread
    that needs current vectors applies the queue (`apply_updates`), and others wait for it. While it embeds,
    the lock is free: more updates can be queued, and searches that began earlier go on. Then the whole queue
    becomes visible at once. Every method may be called from any thread.
    """

    def __init__(self, source: VectorSource, *, precision: Precision, exact_limit: int) -> None:
        self._source = source
        self._make_documents = partial(DocumentVectors, precision=precision, exact_limit=exact_limit)
        self._lock = threading.Lock()
        """Guards the attributes below; never held while texts are embedded."""
        self._documents: DocumentVectors | None = None
        self._changes: dict[str, Indexed | None] = {}
        """The queue: the latest entry of each changed id, None for a removed one."""
        self._queued_count = 0
        self._applied_count = 0
        """The number of updates so far, and of those that the vectors include."""
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
        found = self._prepare_update(hooks, changes)
        with self._lock:
            if found is not None:
                self._documents, change = found
                self._documents.apply(change)
            # Changes that were queued meanwhile stay for the next time.
            queued = self._changes.items()
            self._changes = {
                name: one for name, one in queued if name not in changes or changes[name] is not one
            }
            self._applied_count = goal
        self._source.clear()

    def _prepare_update(
        self, hooks: CallerHooks, changes: Mapping[str, Indexed | None]
    ) -> tuple[DocumentVectors, VectorUpdate] | None:
        """Compute the vectors of queued changes; return the update and the documents to apply it to.

        The documents can be read without the lock, because only the thread whose turn it is changes them.
        """
        held = self._documents
        put = {name: one for name, one in changes.items() if one is not None}
        hashes = {name: one.content_hash for name, one in put.items()}
        if held is not None:
            hashes = {name: one for name, one in hashes.items() if held.hash_of(name) != one}
        missing = {
            one: put[name] for name, one in hashes.items() if held is None or held.slot_with_hash(one) is None
        }
        made = self._source.fetch(hooks, missing)
        if held is None and self._source.dimensions is not None:
            held = self._make_documents(self._source.dimensions, leading=self._source.leading)
        if held is None:
            return None
        names = sorted(hashes, key=lambda name: hashes[name] not in made)
        listed = [hashes[name] for name in names]
        removed = [name for name, one in changes.items() if one is None]
        return held, VectorUpdate(removed, names, listed, _pack(held, made, listed))


def _pack(documents: DocumentVectors, made: Mapping[str, bytes], hashes: Sequence[str]) -> Packed:
    """Pack the vectors of contents: first those just computed, then those that the documents have."""
    table = documents.table
    fresh = [made[one] for one in hashes if one in made]
    slots = [documents.slot_with_hash(one) for one in hashes[len(fresh) :]]
    parts = [table.pack(from_bytes(blobs, table.dimensions)) for blobs in batched(fresh, MAX_BATCH)]
    return Packed.concatenate([*parts, table.copy_rows(np.array(slots, np.intp))])
