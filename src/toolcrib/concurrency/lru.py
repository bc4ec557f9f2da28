"""A cache of limited size that threads can share."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from math import inf
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Entry(NamedTuple, Generic[V]):
    value: V
    weight: int


class LruCache(Generic[K, V]):
    """A cache that drops the least recently used entries when their number or total weight is too high.

    The caller of `put` chooses the unit of weight, such as bytes. None cannot be a value: it means no entry.

    >>> cache = LruCache[str, int](max_entries=2)
    >>> cache.put("a", 1), cache.put("b", 2), cache.get("a"), cache.put("c", 3)
    ([], [], 1, [2])
    >>> list(cache)
    ['a', 'c']
    """

    __slots__ = ("_entries", "_lock", "_max_entries", "_max_weight", "weight")

    def __init__(self, max_entries: int, *, max_weight: float = inf) -> None:
        self._max_entries = max_entries
        self._max_weight = max_weight
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._lock = Lock()
        self.weight = 0
        """The weight of all entries together."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """Iterate over a copy of the keys, the least recently used first."""
        with self._lock:  # a copy, since other threads may change the cache during the iteration
            return iter(list(self._entries))

    def values(self) -> list[V]:
        """Return the values, the least recently used first; this does not count as use."""
        with self._lock:
            return [entry.value for entry in self._entries.values()]

    def get(self, key: K) -> V | None:
        """Return a value, and make it the most recently used; None if there is none."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry.value

    def put(self, key: K, value: V, weight: int = 0) -> list[V]:
        """Add or replace a value, and return those that were dropped to make room.

        A value heavier than the whole cache is not stored, and drops no other.
        """
        with self._lock:
            self._remove(key)
            if weight > self._max_weight or self._max_entries < 1:
                return []
            self._entries[key] = _Entry(value, weight)
            self.weight += weight
            dropped = []
            while len(self._entries) > self._max_entries or self.weight > self._max_weight:
                dropped.append(self._remove(next(iter(self._entries))))
        return [each for each in dropped if each is not None]

    def pop(self, key: K) -> V | None:
        """Remove a key, and return its value; None if it has none."""
        with self._lock:
            return self._remove(key)

    def clear(self, matches: Callable[[K], bool] | None = None) -> None:
        """Remove the keys that match, or all."""
        for key in self:
            if matches is None or matches(key):
                self.pop(key)

    def _remove(self, key: K) -> V | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self.weight -= entry.weight
        return entry.value
