"""Posting lists on numpy that grow and shrink one document at a time."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Postings"]

Slots = NDArray[np.int32]
Impacts = NDArray[np.float32]


class _Posting:
    """The documents that one term occurs in, in no order, and what it counts in each."""

    __slots__ = ("impacts", "size", "slots", "term")

    def __init__(self, term: str, slots: list[int], impacts: list[float]) -> None:
        self.term = term
        self.size = len(slots)
        self.slots = np.array(slots, dtype=np.int32)
        self.impacts = np.array(impacts, dtype=np.float32)

    def extend(self, slots: list[int], impacts: list[float]) -> None:
        end = self.size + len(slots)
        if end > len(self.slots):
            self.slots = np.resize(self.slots, end + self.size // 2)
            self.impacts = np.resize(self.impacts, end + self.size // 2)
        self.slots[self.size : end] = slots
        self.impacts[self.size : end] = impacts
        self.size = end

    def remove(self, slot: int) -> None:
        """Put the last entry in the place of this document's."""
        at = int((self.slots[: self.size] == slot).argmax())
        self.size -= 1
        self.slots[at] = self.slots[self.size]
        self.impacts[at] = self.impacts[self.size]


class Postings:
    """Which documents each term occurs in; a document is a small number, its slot.

    Adding or removing a document costs what its own terms cost, however many documents there are.
    """

    def __init__(self) -> None:
        self._by_term: dict[str, _Posting] = {}
        self._of_slot: dict[int, tuple[_Posting, ...]] = {}

    def __len__(self) -> int:
        return len(self._of_slot)

    def __contains__(self, term: str) -> bool:
        return term in self._by_term

    def frequency(self, term: str) -> int:
        """Return how many documents a term occurs in."""
        posting = self._by_term.get(term)
        return posting.size if posting else 0

    def of(self, term: str) -> tuple[Slots, Impacts]:
        """Return the documents that a known term occurs in, and what it counts in each."""
        posting = self._by_term[term]
        return posting.slots[: posting.size], posting.impacts[: posting.size]

    def add(self, documents: Sequence[tuple[int, Mapping[str, float]]]) -> list[str]:
        """File documents under their terms, and return the terms that were not known."""
        slots: dict[str, list[int]] = {}
        values: dict[str, list[float]] = {}
        for slot, impacts in documents:
            for term, impact in impacts.items():
                if term in slots:
                    slots[term].append(slot)
                    values[term].append(impact)
                else:
                    slots[term] = [slot]
                    values[term] = [impact]
        fresh = [term for term in slots if not self._file(term, slots[term], values[term])]
        for slot, impacts in documents:
            self._of_slot[slot] = tuple(self._by_term[term] for term in impacts)
        return fresh

    def remove(self, slot: int) -> None:
        """Take a document out of every list it is in."""
        for posting in self._of_slot.pop(slot):
            posting.remove(slot)
            if not posting.size:
                del self._by_term[posting.term]

    def _file(self, term: str, slots: list[int], impacts: list[float]) -> bool:
        """Add to the list of a term, and return whether there was one."""
        posting = self._by_term.get(term)
        if posting is None:
            self._by_term[term] = _Posting(term, slots, impacts)
            return False
        posting.extend(slots, impacts)
        return True
