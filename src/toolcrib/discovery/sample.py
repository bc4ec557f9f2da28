"""Some ids that stand for all of them, the same ones in whatever order they came."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from threading import Lock
from zlib import crc32

__all__ = ["Sample"]

_SIZE = 256
_FEW = 1_000
"""Up to how many ids are put in their places one by one; more are sorted in."""


class Sample:
    """The ids with the lowest checksums, which have nothing to do with what they mean."""

    def __init__(self) -> None:
        self._order: list[tuple[int, str]] = []
        self._lock = Lock()

    @property
    def ids(self) -> list[str]:
        """At most 256 of the ids."""
        with self._lock:
            return [tool_id for _, tool_id in self._order[:_SIZE]]

    def update(self, added: Sequence[str], removed: Sequence[str]) -> None:
        """Forget the removed ids and learn the added ones."""
        with self._lock:
            if len(added) + len(removed) > _FEW:
                known = {tool_id for _, tool_id in self._order}
                self._order = sorted(map(_place, known.difference(removed).union(added)))
                return
            for place in map(_place, removed):
                at = bisect_left(self._order, place)
                if self._order[at : at + 1] == [place]:
                    del self._order[at]
            for place in map(_place, added):
                at = bisect_left(self._order, place)
                if self._order[at : at + 1] != [place]:
                    insort(self._order, place)


def _place(tool_id: str) -> tuple[int, str]:
    return crc32(tool_id.encode(errors="surrogatepass")), tool_id
