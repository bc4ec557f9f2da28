"""Memory of a function: a bounded dict that computes missing values."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Memo(dict[str, T]):
    """Values of a function by its argument, each computed when it is first looked up.

    Analysing a catalogue looks up every word of every tool, most of them many times. `map` with the
    `__getitem__` of a dict finds known values without running any Python code. When it is full, it forgets
    everything, since keeping track of what was used last would cost more than computing values again.
    Thread-safe, as far as the function is: a value is returned even if another thread clears the dict.

    >>> lengths = Memo(len, limit=2, keeps=lambda word, length: length < 4)
    >>> list(map(lengths.__getitem__, ["an", "index", "of"])), sorted(lengths)
    ([2, 5, 2], ['an', 'of'])
    """

    def __init__(self, compute: Callable[[str], T], *, limit: int, keeps: Callable[[str, T], bool]) -> None:
        """Begin empty; at most `limit` values are kept, and of these only those that `keeps` accepts."""
        self._compute = compute
        self._limit = limit
        self._keeps = keeps

    def __missing__(self, key: str) -> T:
        found = self._compute(key)
        if self._keeps(key, found):
            if len(self) >= self._limit:
                self.clear()
            self[key] = found
        return found
