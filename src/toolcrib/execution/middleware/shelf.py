"""Values kept for a while: the least recently used go first, and none is given out after its time."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Shelf"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[V]):
    value: V
    size: int
    until: float


class Shelf(Generic[K, V]):
    """Keeps at most `max_entries` values of at most `max_bytes` in all, each for `ttl` seconds.

    >>> shelf = Shelf(max_entries=2, max_bytes=100, ttl=60, clock=lambda: 0.0)
    >>> for name in "abc":
    ...     shelf.put(name, name.upper(), size=10)
    >>> shelf.get("a"), shelf.get("c"), len(shelf), shelf.size
    (None, 'C', 2, 20)
    """

    __slots__ = ("_clock", "_kept", "_max_bytes", "_max_entries", "_ttl", "size")

    def __init__(self, *, max_entries: int, max_bytes: int, ttl: float, clock: Callable[[], float]) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._ttl = ttl
        self._clock = clock
        self._kept: OrderedDict[K, _Kept[V]] = OrderedDict()
        self.size = 0
        """The bytes of all values together."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """Return the value kept under a key, if its time is not over."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if self._clock() >= kept.until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return kept.value

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value, unless it is larger than all that may be kept."""
        if key in self._kept:
            self._drop(key)
        if size > self._max_bytes or not self._max_entries:
            return
        self._kept[key] = _Kept(value, size, self._clock() + self._ttl)
        self.size += size
        while len(self._kept) > self._max_entries or self.size > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def clear(self, drops: Callable[[K], bool] | None = None) -> None:
        """Forget the keys that `drops` is true of, or all."""
        for key in [key for key in self._kept if drops is None or drops(key)]:
            self._drop(key)

    def _drop(self, key: K) -> None:
        self.size -= self._kept.pop(key).size
