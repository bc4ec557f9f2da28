"""A store that is written by a thread of its own, so that a change of the catalogue waits for no file."""

import atexit
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter
from threading import Condition, Thread
from typing import Any, Self, TypeVar

from toolcrib.discovery.store.batch import (
    MAX_COUNT,
    checked_counts,
    checked_ids,
    checked_texts,
    checked_tools,
    checked_values,
)
from toolcrib.discovery.store.connection import CLOSED
from toolcrib.discovery.store.protocol import Store, StoredTool
from toolcrib.errors import StoreError
from toolcrib.model.record import Record

_LOG = logging.getLogger("toolcrib.crib.catalogue")
_MAX_BYTES = 128 << 20
"""How many bytes may wait before a further change is given up; the last one that fits may be of any size."""
_ROW = 100
"""What a change takes in memory beside its texts, in bytes."""
_RETRY = 1.0
"""Seconds between two attempts to write a file that could not be written."""
_UNREADABLE = 30.0
"""For how many seconds a file that could not be read is not asked again for what can be computed."""
_IDLE = 5.0
"""After how many seconds without a change the thread ends."""
_CLOSING_TIME = 5.0
"""For how many seconds `close` waits until everything is written."""
_AT_EXIT = 2.0
"""For how many seconds a process that ends without closing the store does."""

Key = TypeVar("Key")
Item = TypeVar("Item")


class StoreStatus(Record):
    """How the file of the catalogue is doing."""

    waiting: int = 0
    """How many changes are yet to be written."""
    lost: int = 0
    """How many changes were given up, since too many waited."""
    fault: str | None = None
    """Why changes cannot be written at this moment; None while they can."""


@dataclass(slots=True)
class _Changes:
    """Changes that wait; of several changes of one row the last counts."""

    tools: dict[str, StoredTool | None] = field(default_factory=dict)
    texts: dict[tuple[str, str], str | None] = field(default_factory=dict)
    derived: dict[tuple[str, str], bytes] = field(default_factory=dict)
    usage: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def __len__(self) -> int:
        return len(self.tools) + len(self.texts) + len(self.derived) + len(self.usage)

    def put(self, table: dict[Key, Any], key: Key, value: Any) -> None:
        """Replace the change of one row."""
        if key in table:
            self.bytes -= _size(table[key])
        table[key] = value
        self.bytes += _size(value)

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to how often tools were used."""
        before = len(self.usage)
        self.usage.update(counts)
        self.bytes += _ROW * (len(self.usage) - before)

    def put_before(self, earlier: "_Changes") -> None:
        """Add changes that were made before these."""
        for mine, others in (
            (self.tools, earlier.tools),
            (self.texts, earlier.texts),
            (self.derived, earlier.derived),
        ):
            table: dict[Any, Any] = mine
            for key, value in others.items():
                if key not in table:
                    self.put(table, key, value)
        self.count(earlier.usage)


def _merge(
    stored: Iterable[tuple[str, Item]], changes: Mapping[str, Item | None]
) -> Iterator[tuple[str, Item]]:
    """Return rows in the order of their ids, as changes make them."""
    added = [(name, value) for name in sorted(changes) if (value := changes[name]) is not None]
    kept = ((name, value) for name, value in stored if name not in changes)
    return merge(kept, added, key=itemgetter(0))


def _size(value: StoredTool | str | bytes | None) -> int:
    """Return about how many bytes a change takes."""
    if isinstance(value, StoredTool):
        return _ROW + len(value.definition) + len(value.backends) + len(value.facets) + len(value.examples)
    return _ROW + (0 if value is None else len(value))


class QueuedStore:
    """Keeps what another store keeps, and writes it in a thread; the contract is that of `Store`.

    A write returns at once, and is in the store a moment later. A store that cannot be written, such as a
    file that another process holds, is tried again until it can; meanwhile changes wait in memory, of each
    row the last one, and `status` says so. While more than 128 MiB wait, further changes are given up,
    counted and logged: the file is then stale until the tools in question are listed again. `close` waits a
    few seconds for what is left, and logs how much was not written.

    Tools are written before texts: texts say which server the tools are from.

    Reading sees what waits.
    """

    def __init__(self, store: Store, *, owned: bool = True, max_bytes: int = _MAX_BYTES) -> None:
        """Queue what is written to a store, which is closed with this one where it is `owned`."""
        self._store, self._owned, self._max_bytes = store, owned, max_bytes
        self._path = str(getattr(store, "path", "memory"))
        self._changed = Condition()
        self._waiting, self._writing = _Changes(), _Changes()
        self._thread: Thread | None = None
        self._closed = False
        self._lost = 0
        self._is_loss_logged = False
        self._fault: str | None = None
        self._unreadable_until = 0.0

    @property
    def path(self) -> Any:
        """Where the file is; None where there is none."""
        return getattr(self._store, "path", None)

    @property
    def status(self) -> StoreStatus:
        """How it is doing."""
        with self._changed:
            waiting = len(self._waiting) + len(self._writing)
            return StoreStatus.of_checked(waiting=waiting, lost=self._lost, fault=self._fault)

    def tools(self) -> Iterator[StoredTool]:
        """Return the tools, by id."""
        changes = self._snapshot(lambda each: each.tools)
        stored = ((tool.id, tool) for tool in self._store.tools())
        return (tool for _, tool in self._each(_merge(stored, changes)))

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        """Have tools kept and others forgotten."""
        added, removed = checked_tools(self._path, put), checked_ids(self._path, delete)
        changes = dict.fromkeys(removed) | added
        with self._changed:
            if self._has_room(len(changes)):
                for tool_id, tool in changes.items():
                    self._waiting.put(self._waiting.tools, tool_id, tool)

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection, by id."""
        checked_ids(self._path, [collection])
        changes = self._snapshot(lambda each: each.texts)
        mine = {name: text for (group, name), text in changes.items() if group == collection}
        return self._each(_merge(self._store.texts(collection), mine))

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Have texts of a collection kept and others forgotten."""
        checked_ids(self._path, [collection])
        added, removed = checked_texts(self._path, put or {}), checked_ids(self._path, delete)
        changes: dict[str, str | None] = dict.fromkeys(removed) | added
        with self._changed:
            if self._has_room(len(changes)):
                for name, text in changes.items():
                    self._waiting.put(self._waiting.texts, (collection, name), text)

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return what was saved of a kind for content hashes; nothing where the store cannot be read."""
        checked_ids(self._path, [kind])
        wanted = checked_ids(self._path, hashes)
        with self._changed:
            self._check_open()
            found = {
                name: value
                for changes in (self._writing, self._waiting)
                for name in wanted
                if (value := changes.derived.get((kind, name))) is not None
            }
        left = wanted - found.keys()
        if left and time.monotonic() >= self._unreadable_until:
            try:
                found |= self._store.derived(kind, left)
            except StoreError as error:  # whatever is derived can be derived again
                self._unreadable_until = time.monotonic() + _UNREADABLE
                _LOG.warning("nothing is read from the catalogue for %g s: %s", _UNREADABLE, error)
        return found

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Have values of a kind kept by content hash."""
        checked_ids(self._path, [kind])
        batch = checked_values(self._path, values)
        with self._changed:
            if self._has_room(len(batch)):
                for name, value in batch.items():
                    self._waiting.put(self._waiting.derived, (kind, name), value)

    def prune_derived(self, keep: Collection[str], *, kinds: Collection[str] | None = None) -> int:
        """Forget the values of all other content hashes and kinds; none while the store cannot be written."""
        with self._changed:
            self._check_open()
        return self._store.prune_derived(keep, kinds=kinds) if self.flush(_CLOSING_TIME) else 0

    def usage(self) -> dict[str, int]:
        """Return how often each tool was used; it waits until counts that wait are written.

        Raises:
            StoreError: they cannot be written, or the store cannot be read.
        """
        with self._changed:
            self._check_open()
            self._changed.wait_for(lambda: self._fault or not (self._waiting.usage or self._writing.usage))
            if self._waiting.usage or self._writing.usage:
                raise StoreError(self._path, str(self._fault))
        return self._store.usage()

    def count_usage(self, counts: Mapping[str, int]) -> None:
        """Add to how often tools were used."""
        batch = checked_counts(self._path, counts)
        with self._changed:
            if self._has_room(len(batch)):
                self._waiting.count(batch)

    def flush(self, within: float) -> bool:
        """Wait until everything is written, and return whether it is."""
        with self._changed:
            return self._changed.wait_for(self._is_written, within)

    def wait_for_room(self, within: float) -> None:
        """Wait, in a thread that has much to write, until less than half of what fits is waiting.

        Nobody waits for a store that cannot be written.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._fault or self._bytes() <= self._max_bytes // 2, within)

    def close(self) -> None:
        """Write what waits, for a few seconds, and let go of the store; a second time does nothing."""
        with self._changed:
            if self._closed:
                return
            if not self._changed.wait_for(self._is_written, _CLOSING_TIME):
                reason = self._fault or "it takes too long"
                waiting = len(self._waiting) + len(self._writing)
                _LOG.error(
                    "%d changes of the catalogue were not written to %s: %s", waiting, self._path, reason
                )
            self._closed = True
            self._changed.notify_all()
            thread, is_idle = self._thread, self._is_written()
        if thread is None:
            self._release()
        elif is_idle:  # else it may be waiting for another process, and closes the store when it ends
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self._path, CLOSED)

    def _bytes(self) -> int:
        return self._waiting.bytes + self._writing.bytes

    def _is_written(self) -> bool:
        return not self._waiting and not self._writing

    def _each(self, rows: Iterable[Item]) -> Iterator[Item]:
        """Return rows for as long as the store is open."""
        for row in rows:
            self._check_open()
            yield row

    def _snapshot(self, table: Callable[[_Changes], dict[Key, Any]]) -> dict[Key, Any]:
        """Return the changes of one table that wait; to be called before the store is read."""
        with self._changed:
            self._check_open()
            return table(self._writing) | table(self._waiting)

    def _has_room(self, count: int) -> bool:
        """Return whether changes may wait, and have them written; count those that may not."""
        self._check_open()
        if self._bytes() >= self._max_bytes:
            if not self._is_loss_logged:
                self._is_loss_logged = True
                _LOG.error(
                    "changes of the catalogue are given up: too many wait to be written to %s", self._path
                )
            self._lost += count
            return False
        if count and self._thread is None:
            self._thread = Thread(target=self._run, name="toolcrib-catalogue", daemon=True)
            self._thread.start()
            atexit.register(self.flush, _AT_EXIT)
        self._changed.notify_all()
        return True

    def _run(self) -> None:
        """Write what waits, until nothing has come for a while or the store is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed, _IDLE)
                if not self._waiting or self._closed:
                    self._thread = None
                    atexit.unregister(self.flush)
                    break
                self._writing, self._waiting = self._waiting, _Changes()
            fault = self._try_write(self._writing)
            with self._changed:
                self._note(fault)
                left, self._writing = self._writing, _Changes()
                if fault is not None:
                    self._waiting.put_before(left)
                self._changed.notify_all()
                if fault is not None:
                    self._changed.wait_for(lambda: self._closed, _RETRY)
        if self._closed:
            self._release()

    def _try_write(self, changes: _Changes) -> str | None:
        """Write changes, and return why that failed, if it did; what was written is taken out of them."""
        try:
            self._write(changes)
        except StoreError as error:
            return error.reason
        except Exception as error:  # noqa: BLE001 - a store of a program: its thread must not end
            return f"{type(error).__name__}: {error}"
        return None

    def _write(self, changes: _Changes) -> None:
        derived: dict[str, dict[str, bytes]] = {}
        for (kind, name), value in changes.derived.items():
            derived.setdefault(kind, {})[name] = value
        for kind, values in derived.items():
            self._store.save_derived(kind, values)
        with self._changed:
            changes.derived = {}
        if changes.tools:
            put = [tool for tool in changes.tools.values() if tool is not None]
            self._store.write(put, [name for name, tool in changes.tools.items() if tool is None])
            changes.tools = {}
        collections: dict[str, dict[str, str | None]] = {}
        for (collection, name), text in changes.texts.items():
            collections.setdefault(collection, {})[name] = text
        for collection, texts in collections.items():
            kept = {name: text for name, text in texts.items() if text is not None}
            self._store.write_texts(collection, kept, texts.keys() - kept.keys())
        changes.texts = {}
        while changes.usage:  # several counts of one tool may add up to more than a store takes at once
            counts = {name: min(count, MAX_COUNT) for name, count in changes.usage.items()}
            self._store.count_usage(counts)
            changes.usage = Counter({n: c - counts[n] for n, c in changes.usage.items() if c > counts[n]})

    def _note(self, fault: str | None) -> None:
        if fault is not None and self._fault is None:
            _LOG.warning("changes of the catalogue wait to be written to %s: %s", self._path, fault)
        elif fault is None and self._fault is not None:
            _LOG.warning(
                "changes of the catalogue are written to %s again; %d were lost", self._path, self._lost
            )
        self._fault = fault
        if fault is None:
            self._is_loss_logged = False

    def _release(self) -> None:
        if self._owned:
            self._store.close()
