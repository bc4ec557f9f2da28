"""Posting lists on numpy that grow and shrink one document at a time."""

from array import array
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int32]
Impacts = NDArray[np.float32]


class Filing:
    """Documents sorted by their terms, ready to be filed; a document is known by its place among them."""

    def __init__(self) -> None:
        self.terms_of: list[tuple[str, ...]] = []
        self.places: dict[str, array[int]] = {}
        self.impacts: dict[str, array[float]] = {}

    def add(self, impacts: Mapping[str, float]) -> None:
        """Put one more document in, with what each of its terms counts."""
        place = len(self.terms_of)
        self.terms_of.append(tuple(impacts))
        for term, impact in impacts.items():
            if term in self.places:
                self.places[term].append(place)
                self.impacts[term].append(impact)
            else:
                self.places[term] = array("i", (place,))
                self.impacts[term] = array("f", (impact,))


class _Posting:
    """The documents that one term occurs in, in no order, and what it counts in each."""

    __slots__ = ("impacts", "size", "slots")

    def __init__(self, slots: Slots, impacts: Impacts) -> None:
        self.slots = slots
        self.impacts = impacts
        self.size = len(slots)

    def extend(self, slots: Slots, impacts: Impacts) -> None:
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

    Adding a document costs what its own terms cost, however many documents there are; removing one also looks
    through the lists it is in.
    """

    def __init__(self) -> None:
        self._by_term: dict[str, _Posting] = {}
        self.knows: Callable[[str], bool] = self._by_term.__contains__
        """Returns whether any document has a term."""
        self._terms_of: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._terms_of)

    def frequency(self, term: str) -> int:
        """Return how many documents a term occurs in."""
        posting = self._by_term.get(term)
        return posting.size if posting else 0

    def of(self, term: str) -> tuple[Slots, Impacts]:
        """Return the documents that a known term occurs in, and what it counts in each."""
        posting = self._by_term[term]
        return posting.slots[: posting.size], posting.impacts[: posting.size]

    def add(self, filing: Filing, slots: Sequence[int]) -> list[str]:
        """File documents in these slots, and return the terms that were not known."""
        fresh = [term for term in filing.places if term not in self._by_term]
        self._terms_of.update(zip(slots, filing.terms_of, strict=True))
        slot_of = np.array(slots, dtype=np.int32)
        for term, places in filing.places.items():
            filed = slot_of[np.frombuffer(places, dtype=np.intc)]
            impacts = np.frombuffer(filing.impacts[term], dtype=np.float32)
            posting = self._by_term.get(term)
            if posting is None:
                self._by_term[term] = _Posting(filed, impacts.copy())
            else:
                posting.extend(filed, impacts)
        return fresh

    def remove(self, slot: int) -> None:
        """Take a document out of every list it is in."""
        for term in self._terms_of.pop(slot):
            posting = self._by_term[term]
            posting.remove(slot)
            if not posting.size:
                del self._by_term[term]


class PostingsPart:
    """The posting lists of some documents, as if there were no others; for one question."""

    def __init__(self, whole: Postings, inside: NDArray[np.intp], slots: int) -> None:
        """See the documents in the slots `inside`, of so many slots."""
        self._whole, self._size = whole, len(inside)
        self._is_inside = np.zeros(slots, dtype=np.bool_)
        self._is_inside[inside] = True
        self._found: dict[str, tuple[Slots, Impacts]] = {}

    def __len__(self) -> int:
        return self._size

    def knows(self, term: str) -> bool:
        """Return whether any of the documents has a term."""
        return self.frequency(term) > 0

    def frequency(self, term: str) -> int:
        """Return how many documents a term occurs in."""
        return len(self.of(term)[0]) if self._whole.knows(term) else 0

    def of(self, term: str) -> tuple[Slots, Impacts]:
        """Return the documents that a known term occurs in, and what it counts in each."""
        if term not in self._found:
            slots, impacts = self._whole.of(term)
            kept = self._is_inside[slots]
            self._found[term] = slots[kept], impacts[kept]
        return self._found[term]
