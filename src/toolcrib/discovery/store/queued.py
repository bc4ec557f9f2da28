"""Write-behind queue in front of a store, so that changes of the catalogue do not wait for a file.

Changes go to `_waiting`. The writer thread moves them to `_writing` and writes them outside the lock. If that
fails, those not written go back below newer changes of the same rows, and the thread tries again. Reads merge
`_writing` and `_waiting` over the store, so that a write is visible at once.
"""

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

from anyio import NoEventLoopError
from anyio.lowlevel import current_token

from toolcrib.discovery.store.batch import (
    MAX_COUNT,
    check_counts,
    check_ids,
    check_texts,
    check_tools,
    check_values,
)
from toolcrib.discovery.store.connection import CLOSED
from toolcrib.discovery.store.postgres import PostgresStore
from toolcrib.discovery.store.protocol import Store, StoredTool
from toolcrib.errors import StoreError
from toolcrib.model.record import Record

_LOG = logging.getLogger("toolcrib.crib.catalogue")
_MAX_BYTES = 128 << 20
"""While more bytes than this wait, further changes are dropped; a single change may be of any size."""
_ROW_OVERHEAD = 100
"""Estimated memory of a change beside its texts, in bytes."""
_RETRY_INTERVAL = 1.0
"""Seconds between two attempts to write."""
_READ_RETRY_INTERVAL = 30.0
"""Seconds without reads of derived values, which can be computed, after a failed read."""
_IDLE_TIMEOUT = 5.0
"""Seconds without a change after which the thread ends."""
_CLOSE_TIMEOUT = 5.0
"""Seconds that `close` waits until everything is written."""
_EXIT_TIMEOUT = 2.0
"""Seconds that the end of the process waits, if the store was not closed."""

Key = TypeVar("Key")
Item = TypeVar("Item")


class StoreStatus(Record):
    """State of the writes to the catalogue's file."""

    waiting: int = 0
    """The number of changes that are not written yet."""
    lost: int = 0
    """The number of changes that were dropped because too many were waiting."""
    fault: str | None = None
    """The reason why writing fails at present; None if it does not."""


@dataclass(slots=True)
class _Changes:
    """Queued changes, by row; only the last change of a row is kept."""

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
        """Add to the usage counts."""
        before = len(self.usage)
        self.usage.update(counts)
        self.bytes += _ROW_OVERHEAD * (len(self.usage) - before)

    def put_before(self, earlier: "_Changes") -> None:
        """Merge changes that were made before these, and must not replace them."""
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


def _apply_changes(
    stored: Iterable[tuple[str, Item]], changes: Mapping[str, Item | None]
) -> Iterator[tuple[str, Item]]:
    """Merge changes into sorted rows, keeping the order."""
    added = [(name, value) for name in sorted(changes) if (value := changes[name]) is not None]
    kept = ((name, value) for name, value in stored if name not in changes)
    return merge(kept, added, key=itemgetter(0))


def _is_in_event_loop() -> bool:
    try:
        current_token()
    except NoEventLoopError:
        return False
    return True


def _size(value: StoredTool | str | bytes | None) -> int:
    """Return the approximate memory of a change, in bytes."""
    if isinstance(value, StoredTool):
        return (
            _ROW_OVERHEAD
            + len(value.definition)
            + len(value.backends)
            + len(value.facets)
            + len(value.examples)
        )
    return _ROW_OVERHEAD + (0 if value is None else len(value))


class QueuedStore:
    """A `Store` that writes to another store in a thread; reads include changes that are still queued.

    A write returns at once. If the store cannot be written, for example because another process has locked
    the file, the thread tries again until it can; meanwhile the last change of each row is kept in memory,
    and `status` has the reason. While more than 128 MiB wait, further changes are dropped, counted and
    logged; the file is then out of date until these tools are listed again. `close` waits a few seconds for
    the rest, and logs how much was not written.

    Tools are written before texts, because texts record which server the tools are from.
    """

    admit: Callable[[StoredTool], StoredTool | None] | None = None
    """Returns the part of a stored tool that this process uses; None if that is nothing of it."""

    def __init__(self, store: Store, *, owned: bool = True, max_bytes: int = _MAX_BYTES) -> None:
        """Queue writes to a store, which is closed together with this one if it is `owned`."""
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
        """The path of the file; None if there is none."""
        return getattr(self._store, "path", None)

    @property
    def shared(self) -> PostgresStore | None:
        """The store below, if other gateways may write it at the same time."""
        return self._store if isinstance(self._store, PostgresStore) else None

    @property
    def status(self) -> StoreStatus:
        """The state of the writes."""
        with self._changed:
            waiting = len(self._waiting) + len(self._writing)
            return StoreStatus.from_valid(waiting=waiting, lost=self._lost, fault=self._fault)

    def tools(self) -> Iterator[StoredTool]:
        """Return the tools, sorted by id."""
        changes = self._snapshot(lambda each: each.tools)
        admit = self.admit
        rows = self._store.tools()
        used = rows if admit is None else (part for row in rows if (part := admit(row)) is not None)
        stored = ((tool.id, tool) for tool in used)
        return (tool for _, tool in self._iterate_while_open(_apply_changes(stored, changes)))

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        """Queue the put and the delete of tools."""
        added, removed = check_tools(self._path, put), check_ids(self._path, delete)
        changes = dict.fromkeys(removed) | added
        with self._changed:
            if self._admit(len(changes)):
                for tool_id, tool in changes.items():
                    self._waiting.put(self._waiting.tools, tool_id, tool)

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection, sorted by id."""
        check_ids(self._path, [collection])
        changes = self._snapshot(lambda each: each.texts)
        mine = {name: text for (group, name), text in changes.items() if group == collection}
        return self._iterate_while_open(_apply_changes(self._store.texts(collection), mine))

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Queue the put and the delete of texts of a collection."""
        check_ids(self._path, [collection])
        added, removed = check_texts(self._path, put or {}), check_ids(self._path, delete)
        changes: dict[str, str | None] = dict.fromkeys(removed) | added
        with self._changed:
            if self._admit(len(changes)):
                for name, text in changes.items():
                    self._waiting.put(self._waiting.texts, (collection, name), text)

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return the derived values of a kind for content hashes; only queued ones if reading fails."""
        check_ids(self._path, [kind])
        wanted = check_ids(self._path, hashes)
        with self._changed:
            self._check_open()
            found = {
                name: value
                for changes in (self._writing, self._waiting)
                for name in wanted
                if (value := changes.derived.get((kind, name))) is not None
            }
        left = wanted - found.keys()
        if left and time.monotonic() >= self._unreadable_until and not self._would_block_loop():
            try:
                found |= self._store.derived(kind, left)
            except StoreError as error:  # not fatal: the caller computes missing values again
                self._unreadable_until = time.monotonic() + _READ_RETRY_INTERVAL
                _LOG.warning("the catalogue will not be read for %g s: %s", _READ_RETRY_INTERVAL, error)
        return found

    def _would_block_loop(self) -> bool:
        """Return whether a read would have the event loop wait for a server."""
        return self.shared is not None and _is_in_event_loop()

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Queue derived values of a kind by content hash; very large ones are written at once.

        Raises:
            StoreError: large values cannot be written.
        """
        check_ids(self._path, [kind])
        batch = check_values(self._path, values)
        if sum(map(len, batch.values())) > self._max_bytes // 4:  # they would leave no room for changes
            self._store.save_derived(kind, batch)
            return
        with self._changed:
            if self._admit(len(batch)):
                for name, value in batch.items():
                    self._waiting.put(self._waiting.derived, (kind, name), value)

    def prune_derived(self, keep: Collection[str], *, kinds: Collection[str] | None = None) -> int:
        """Delete the values of all other content hashes and kinds; none while the store cannot be written."""
        with self._changed:
            self._check_open()
        return self._store.prune_derived(keep, kinds=kinds) if self.flush(_CLOSE_TIMEOUT) else 0

    def usage(self) -> dict[str, int]:
        """Return the number of uses of each tool, once queued counts are written.

        Raises:
            StoreError: the counts cannot be written, or the store cannot be read.
        """
        with self._changed:
            self._check_open()
            self._changed.wait_for(
                lambda: self._closed or self._fault or not (self._waiting.usage or self._writing.usage)
            )
            self._check_open()
            if self._waiting.usage or self._writing.usage:
                raise StoreError(self._path, str(self._fault))
        return self._store.usage()

    def count_usage(self, counts: Mapping[str, int]) -> None:
        """Queue an addition to the usage counts."""
        batch = check_counts(self._path, counts)
        with self._changed:
            if self._admit(len(batch)):
                self._waiting.count(batch)

    def flush(self, within: float) -> bool:
        """Wait until everything is written; return False if the time was not enough."""
        with self._changed:
            return self._changed.wait_for(self._is_written, within)

    def wait_for_room(self, within: float) -> None:
        """Wait until the queue is less than half full (backpressure for a thread that writes much).

        It does not wait while the store cannot be written.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._fault or self._bytes() <= self._max_bytes // 2, within)

    def close(self) -> None:
        """Wait a few seconds for queued writes, then close the store; a second call does nothing."""
        with self._changed:
            if self._closed:
                return
            if not self._changed.wait_for(self._is_written, _CLOSE_TIMEOUT):
                reason = self._fault or "it takes too long"
                waiting = len(self._waiting) + len(self._writing)
                _LOG.error(
                    "%d changes to the catalogue were not written to %s: %s", waiting, self._path, reason
                )
            self._closed = True
            self._changed.notify_all()
            thread, is_idle = self._thread, self._is_written()
        if thread is None:
            self._close_store()
        elif is_idle:
            thread.join()
        # Otherwise the thread may be blocked by another process; it closes the store when it ends.

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

    def _iterate_while_open(self, rows: Iterable[Item]) -> Iterator[Item]:
        """Yield rows; raise if the store is closed before the last one."""
        for row in rows:
            self._check_open()
            yield row

    def _snapshot(self, table: Callable[[_Changes], dict[Key, Any]]) -> dict[Key, Any]:
        """Return the queued changes of one table; call it before reading the store.

        In the other order, a change that is written in between would be in neither.
        """
        with self._changed:
            self._check_open()
            return table(self._writing) | table(self._waiting)

    def _admit(self, count: int) -> bool:
        """Return whether changes may be queued, and wake the writer thread; count dropped ones."""
        self._check_open()
        if self._bytes() >= self._max_bytes:
            if not self._is_loss_logged:
                self._is_loss_logged = True
                _LOG.error(
                    "changes to the catalogue are discarded: too many wait to be written to %s", self._path
                )
            self._lost += count
            return False
        if count and self._thread is None:
            self._thread = Thread(target=self._run, name="toolcrib-catalogue", daemon=True)
            self._thread.start()
            atexit.register(self.flush, _EXIT_TIMEOUT)
        self._changed.notify_all()
        return True

    def _run(self) -> None:
        """Write queued changes, until none came for a while or the store is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed, _IDLE_TIMEOUT)
                if not self._waiting or self._closed:
                    self._thread = None
                    atexit.unregister(self.flush)
                    break
                self._writing, self._waiting = self._waiting, _Changes()
            fault = self._try_write(self._writing)
            with self._changed:
                self._record_outcome(fault)
                left, self._writing = self._writing, _Changes()
                if fault is not None:
                    self._waiting.put_before(left)
                self._changed.notify_all()
                if fault is not None:
                    self._changed.wait_for(lambda: self._closed, _RETRY_INTERVAL)
        if self._closed:
            self._close_store()

    def _try_write(self, changes: _Changes) -> str | None:
        """Write changes; return the reason of a failure, or None. Written changes are removed from them."""
        try:
            self._write(changes)
        except StoreError as error:
            return error.reason
        except Exception as error:  # noqa: BLE001 - a program's store may raise anything; the thread must go on
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
        while changes.usage:  # queued counts may add up to more than a store accepts at once
            counts = {name: min(count, MAX_COUNT) for name, count in changes.usage.items()}
            self._store.count_usage(counts)
            changes.usage = Counter({n: c - counts[n] for n, c in changes.usage.items() if c > counts[n]})

    def _record_outcome(self, fault: str | None) -> None:
        if fault is not None and self._fault is None:
            _LOG.warning("changes to the catalogue wait to be written to %s: %s", self._path, fault)
        elif fault is None and self._fault is not None:
            _LOG.warning(
                "changes to the catalogue are written to %s again; %d were lost", self._path, self._lost
            )
        self._fault = fault
        if fault is None:
            self._is_loss_logged = False

    def _close_store(self) -> None:
        if self._owned:
            self._store.close()
