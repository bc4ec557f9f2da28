"""Vectors of documents that change while they are searched."""

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

_STEP = 16
"""How many vectors are linked at a time: no reader waits longer than that takes."""
_PATIENCE = 0.05
"""How often, in seconds, one who waits for another's settlement looks whether its own caller gave up."""


class LiveVectors:
    """Notes updates at once, and makes the vectors they ask for when somebody wants to read.

    Every method may be called from any thread. Vectors are made by one thread at a time, while updates are
    noted and readers that came before them go on; then all that was noted shows at once.
    """

    def __init__(self, source: VectorSource, *, precision: Precision, exact_limit: int) -> None:
        self._source = source
        self._new = partial(DocumentVectors, precision=precision, exact_limit=exact_limit)
        self._lock = threading.Lock()
        """Guards what stands below; never held while vectors are made."""
        self._documents: DocumentVectors | None = None
        self._changes: dict[str, Indexed | None] = {}
        """What the updates since the last settlement made of each id."""
        self._noted = 0
        self._shown = 0
        """How many updates there were, and how many of them the vectors show."""
        self._turn: threading.Event | None = None
        """Set once the thread that is settling has finished."""

    @property
    def pending(self) -> int:
        """How many documents have changed since the last settlement."""
        return len(self._changes)

    @property
    def method(self) -> Method:
        """How a search among all documents goes about it."""
        documents = self._documents
        return "exact" if documents is None else documents.method

    def __bool__(self) -> bool:
        """Return whether there may be any document."""
        return bool(self._documents or self._changes)

    def note(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Remember that documents have changed; one that is both removed and added is added."""
        changes: dict[str, Indexed | None] = dict.fromkeys(removed)
        changes |= {one.id: one for one in added}
        with self._lock:
            self._changes |= changes
            self._noted += 1

    def read(self, question: Callable[[DocumentVectors], T]) -> T | None:
        """Return what the documents answer, or nothing if there are none; they do not change meanwhile."""
        with self._lock:
            return question(self._documents) if self._documents else None

    def settle(self, hooks: CallerHooks) -> None:
        """Return once the vectors show every update that was noted before the call."""
        goal = self._noted
        while self._shown < goal and (turn := self._take_turn(goal)):
            mine, event = turn
            if mine:
                try:
                    self._settle_alone(hooks)
                finally:
                    self._end_turn(event)
            else:
                while not event.wait(_PATIENCE):
                    hooks.check()

    def link(self, hooks: CallerHooks) -> None:
        """Put what is to be in the graph of neighbours there, a few at a time."""
        documents = self._documents
        if documents is None:
            return
        with self._lock:
            loose = documents.loose()
        for start in range(0, len(loose), _STEP):
            hooks.check()
            with self._lock:
                documents.link(loose[start : start + _STEP])
            time.sleep(0)  # lets those who wait for the lock have it

    def _take_turn(self, goal: int) -> tuple[bool, threading.Event] | None:
        """Return whether it is this thread's turn to settle, and what tells its end; nothing if done."""
        with self._lock:
            if self._shown >= goal:
                return None
            if self._turn is not None:
                return False, self._turn
            self._turn = threading.Event()
            return True, self._turn

    def _end_turn(self, event: threading.Event) -> None:
        with self._lock:
            self._turn = None
        event.set()

    def _settle_alone(self, hooks: CallerHooks) -> None:
        with self._lock:
            goal = self._noted
            changes = dict(self._changes)
        found = self._change(hooks, changes)
        with self._lock:
            if found is not None:
                self._documents, change = found
                self._documents.apply(change)
            # What was noted meanwhile stays for the next settlement.
            noted = self._changes.items()
            self._changes = {
                name: one for name, one in noted if name not in changes or changes[name] is not one
            }
            self._shown = goal
        self._source.forget()

    def _change(
        self, hooks: CallerHooks, changes: Mapping[str, Indexed | None]
    ) -> tuple[DocumentVectors, VectorUpdate] | None:
        """Return the change that was noted, with its vectors, and what it is to be applied to.

        Nothing but a settlement changes which documents there are, so that they can be read without the lock.
        """
        held = self._documents
        put = {name: one for name, one in changes.items() if one is not None}
        hashes = {name: one.content_hash for name, one in put.items()}
        if held is not None:
            hashes = {name: one for name, one in hashes.items() if held.hash_of(name) != one}
        missing = {one: put[name] for name, one in hashes.items() if held is None or held.holder(one) is None}
        made = self._source.fetch(hooks, missing)
        if held is None and self._source.dimensions is not None:
            held = self._new(self._source.dimensions, leading=self._source.leading)
        if held is None:
            return None
        names = sorted(hashes, key=lambda name: hashes[name] not in made)
        listed = [hashes[name] for name in names]
        removed = [name for name, one in changes.items() if one is None]
        return held, VectorUpdate(removed, names, listed, _pack(held, made, listed))


def _pack(documents: DocumentVectors, made: Mapping[str, bytes], hashes: Sequence[str]) -> Packed:
    """Return the vectors of contents: of those that were made, and then of those that documents hold."""
    table = documents.table
    fresh = [made[one] for one in hashes if one in made]
    slots = [documents.holder(one) for one in hashes[len(fresh) :]]
    parts = [table.pack(from_bytes(blobs, table.dimensions)) for blobs in batched(fresh, MAX_BATCH)]
    return Packed.joined([*parts, table.packed(np.array(slots, np.intp))])
