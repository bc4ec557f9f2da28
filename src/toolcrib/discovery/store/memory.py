"""Store in memory, which lasts as long as the process."""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self, TypeVar

from toolcrib.discovery.store.batch import (
    check_counts,
    check_ids,
    check_texts,
    check_tools,
    check_values,
)
from toolcrib.discovery.store.protocol import StoredTool
from toolcrib.errors import StoreError

_PATH = "memory"
Item = TypeVar("Item")


class MemoryStore:
    """A `Store` in dictionaries.

    >>> with MemoryStore() as store:
    ...     store.write_texts("docs", {"shop:find": '{"summary":"Finds a part."}'})
    ...     list(store.texts("docs"))
    [('shop:find', '{"summary":"Finds a part."}')]
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._tools: dict[str, StoredTool] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._derived: dict[tuple[str, str], bytes] = {}
        self._usage: Counter[str] = Counter()

    def tools(self) -> Iterator[StoredTool]:
        """Return the tools, sorted by id."""
        with self._lock_open_store():
            tools = dict(self._tools)
        return self._iterate_while_open(tools[name] for name in sorted(tools))

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        """Put and delete tools, as one batch."""
        added, removed = check_tools(_PATH, put), check_ids(_PATH, delete)
        with self._lock_open_store():
            for name in removed:
                self._tools.pop(name, None)
            self._tools.update(added)

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection, sorted by id."""
        check_ids(_PATH, [collection])
        with self._lock_open_store():
            texts = {name: text for (group, name), text in self._texts.items() if group == collection}
        return self._iterate_while_open(sorted(texts.items()))

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Put and delete texts of a collection, as one batch."""
        check_ids(_PATH, [collection])
        added, removed = check_texts(_PATH, put or {}), check_ids(_PATH, delete)
        with self._lock_open_store():
            for name in removed:
                self._texts.pop((collection, name), None)
            self._texts.update({(collection, name): text for name, text in added.items()})

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return the derived values of a kind for these content hashes."""
        check_ids(_PATH, [kind])
        wanted = check_ids(_PATH, hashes)
        with self._lock_open_store():
            return {name: self._derived[kind, name] for name in wanted if (kind, name) in self._derived}

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Save derived values of a kind by content hash."""
        check_ids(_PATH, [kind])
        batch = check_values(_PATH, values)
        with self._lock_open_store():
            self._derived.update({(kind, name): value for name, value in batch.items()})

    def prune_derived(self, keep: Collection[str], *, kinds: Collection[str] | None = None) -> int:
        """Delete the values of all other content hashes, and of all other kinds if kinds are given."""
        kept = check_ids(_PATH, keep)
        kept_kinds = None if kinds is None else check_ids(_PATH, kinds)
        with self._lock_open_store():
            before = len(self._derived)
            self._derived = {
                (kind, name): value
                for (kind, name), value in self._derived.items()
                if name in kept and (kept_kinds is None or kind in kept_kinds)
            }
            return before - len(self._derived)

    def usage(self) -> dict[str, int]:
        """Return the number of uses of each tool."""
        with self._lock_open_store():
            return dict(self._usage)

    def count_usage(self, counts: Mapping[str, int]) -> None:
        """Add to the usage counts."""
        batch = check_counts(_PATH, counts)
        with self._lock_open_store():
            self._usage.update(batch)

    def close(self) -> None:
        """Drop everything; later calls raise."""
        with self._lock:
            self._closed = True
            self._tools, self._texts, self._derived, self._usage = {}, {}, {}, Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @contextmanager
    def _lock_open_store(self) -> Iterator[None]:
        """Hold the lock; raise if the store is closed."""
        with self._lock:
            self._check_open()
            yield

    def _iterate_while_open(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items; raise if the store is closed before the last one."""
        for item in items:
            self._check_open()
            yield item

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(_PATH, "it is closed; make another")
