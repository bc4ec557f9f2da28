"""A store that lasts as long as the process."""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self, TypeVar

from toolcrib.discovery.store.batch import (
    checked_counts,
    checked_ids,
    checked_texts,
    checked_tools,
    checked_values,
)
from toolcrib.discovery.store.protocol import StoredTool
from toolcrib.errors import StoreError

_PATH = "memory"
Item = TypeVar("Item")


class MemoryStore:
    """Keeps everything in dictionaries; the contract is that of `Store`.

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
        """Return the tools, by id."""
        with self._open():
            tools = dict(self._tools)
        return self._each(tools[name] for name in sorted(tools))

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        """Keep tools and forget others, as one batch."""
        added, removed = checked_tools(_PATH, put), checked_ids(_PATH, delete)
        with self._open():
            for name in removed:
                self._tools.pop(name, None)
            self._tools.update(added)

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection, by id."""
        checked_ids(_PATH, [collection])
        with self._open():
            texts = {name: text for (group, name), text in self._texts.items() if group == collection}
        return self._each(sorted(texts.items()))

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Keep texts in a collection and forget others, as one batch."""
        checked_ids(_PATH, [collection])
        added, removed = checked_texts(_PATH, put or {}), checked_ids(_PATH, delete)
        with self._open():
            for name in removed:
                self._texts.pop((collection, name), None)
            self._texts.update({(collection, name): text for name, text in added.items()})

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return what was saved of a kind for these content hashes."""
        checked_ids(_PATH, [kind])
        wanted = checked_ids(_PATH, hashes)
        with self._open():
            return {name: self._derived[kind, name] for name in wanted if (kind, name) in self._derived}

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Keep values of a kind by content hash."""
        checked_ids(_PATH, [kind])
        batch = checked_values(_PATH, values)
        with self._open():
            self._derived.update({(kind, name): value for name, value in batch.items()})

    def prune_derived(self, keep: Collection[str], *, kinds: Collection[str] | None = None) -> int:
        """Forget the values of all other content hashes, and of all other kinds where kinds are given."""
        kept = checked_ids(_PATH, keep)
        kept_kinds = None if kinds is None else checked_ids(_PATH, kinds)
        with self._open():
            before = len(self._derived)
            self._derived = {
                (kind, name): value
                for (kind, name), value in self._derived.items()
                if name in kept and (kept_kinds is None or kind in kept_kinds)
            }
            return before - len(self._derived)

    def usage(self) -> dict[str, int]:
        """Return how often each tool was used."""
        with self._open():
            return dict(self._usage)

    def count_usage(self, counts: Mapping[str, int]) -> None:
        """Add to how often tools were used."""
        batch = checked_counts(_PATH, counts)
        with self._open():
            self._usage.update(batch)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._tools, self._texts, self._derived, self._usage = {}, {}, {}, Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Hold the lock of a store that is not closed."""
        with self._lock:
            self._check_open()
            yield

    def _each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Return items for as long as the store is open."""
        for item in items:
            self._check_open()
            yield item

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(_PATH, "it is closed; make another")
