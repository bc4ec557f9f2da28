"""Which slot of an array stands for which tool id."""

from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

__all__ = ["Slots"]

_KEPT = 16


class Slots:
    """Numbers for ids, handed out densely and again once they are free."""

    def __init__(self) -> None:
        self._ids: list[str | None] = []
        self._by_id: dict[str, int] = {}
        self._free: list[int] = []
        self._selections: dict[int, tuple[AbstractSet[str], NDArray[np.intp]]] = {}

    def __len__(self) -> int:
        """Return how many slots there are, the free ones included."""
        return len(self._ids)

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._by_id

    @property
    def taken(self) -> int:
        """How many slots stand for an id."""
        return len(self._by_id)

    def take(self, tool_id: str) -> int:
        """Return a slot for an id that has none."""
        self._selections.clear()
        if self._free:
            slot = self._free.pop()
            self._ids[slot] = tool_id
        else:
            slot = len(self._ids)
            self._ids.append(tool_id)
        self._by_id[tool_id] = slot
        return slot

    def release(self, tool_id: str) -> int:
        """Free the slot of an id, and return it."""
        self._selections.clear()
        slot = self._by_id.pop(tool_id)
        self._ids[slot] = None
        self._free.append(slot)
        return slot

    def get(self, tool_id: str) -> int | None:
        """Return the slot of an id, or None where it has none."""
        return self._by_id.get(tool_id)

    def id_at(self, slot: int) -> str:
        """Return the id that a taken slot stands for."""
        found = self._ids[slot]
        if found is None:
            raise IndexError(slot)
        return found

    def of(self, ids: AbstractSet[str]) -> NDArray[np.intp]:
        """Return the slots of those of the ids that have one, in order; kept for when the set comes again."""
        kept = self._selections.get(id(ids))
        if kept is not None and kept[0] is ids:
            return kept[1]
        found = [slot for tool_id in ids if (slot := self._by_id.get(tool_id)) is not None]
        slots = np.array(sorted(found), dtype=np.intp)
        if len(self._selections) >= _KEPT:
            self._selections.clear()
        self._selections[id(ids)] = (ids, slots)
        return slots
