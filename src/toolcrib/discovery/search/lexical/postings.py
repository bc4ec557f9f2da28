"""Posting lists in numpy arrays, updated one document at a time."""

from array import array
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int32]
Impacts = NDArray[np.float32]


class DocumentBatch:
    """Documents to add, inverted to lists by term; a document is identified by its position in the batch.

    A batch is built before the lock of the searcher is taken, and added to the posting lists under it.
    """

    def __init__(self) -> None:
        self.terms_of: list[tuple[str, ...]] = []
        self.places: dict[str, array[int]] = {}
        self.impacts: dict[str, array[float]] = {}

    def add(self, impacts: Mapping[str, float]) -> None:
        """Append a document, given as the impact of each of its terms."""
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
    """The documents of one term, in no order, with its impact in each."""

    __slots__ = ("impacts", "size", "slots")

    def __init__(self, slots: Slots, impacts: Impacts) -> None:
        self.slots = slots
        self.impacts = impacts
        self.size = len(slots)

    def extend(self, slots: Slots, impacts: Impacts) -> None:
        end = self.size + len(slots)
        if end > len(self.slots):  # grow by half, so that appending is cheap on average
            self.slots = np.resize(self.slots, end + self.size // 2)
            self.impacts = np.resize(self.impacts, end + self.size // 2)
        self.slots[self.size : end] = slots
        self.impacts[self.size : end] = impacts
        self.size = end

    def remove(self, slot: int) -> None:
        """Remove a document; the last entry moves to its place."""
        at = int((self.slots[: self.size] == slot).argmax())
        self.size -= 1
        self.slots[at] = self.slots[self.size]
        self.impacts[at] = self.impacts[self.size]


class Postings:
    """Posting lists: for each term, the documents it occurs in; a document is a small number, its slot.

    The cost of adding a document depends on its own terms alone. Removing one also scans the lists of its
    terms.
    """

    def __init__(self) -> None:
        self._by_term: dict[str, _Posting] = {}
        self.knows: Callable[[str], bool] = self._by_term.__contains__
        """Return whether any document has a term."""
        self._terms_of: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._terms_of)

    def frequency(self, term: str) -> int:
        """Return the number of documents of a term."""
        posting = self._by_term.get(term)
        return posting.size if posting else 0

    def of(self, term: str) -> tuple[Slots, Impacts]:
        """Return the documents of a known term, and its impact in each."""
        posting = self._by_term[term]
        return posting.slots[: posting.size], posting.impacts[: posting.size]

    def add(self, batch: DocumentBatch, slots: Sequence[int]) -> list[str]:
        """Add documents in these slots, and return the terms that are new."""
        fresh = [term for term in batch.places if term not in self._by_term]
        self._terms_of.update(zip(slots, batch.terms_of, strict=True))
        slot_of = np.array(slots, dtype=np.int32)
        for term, places in batch.places.items():
            filed = slot_of[np.frombuffer(places, dtype=np.intc)]
            impacts = np.frombuffer(batch.impacts[term], dtype=np.float32)
            posting = self._by_term.get(term)
            if posting is None:
                self._by_term[term] = _Posting(filed, impacts.copy())
            else:
                posting.extend(filed, impacts)
        return fresh

    def remove(self, slot: int) -> None:
        """Remove a document from every list it is in."""
        for term in self._terms_of.pop(slot):
            posting = self._by_term[term]
            posting.remove(slot)
            if not posting.size:
                del self._by_term[term]


class VisiblePostings:
    """Posting lists of some documents, as if there were no others; made for one query."""

    def __init__(self, whole: Postings, inside: NDArray[np.intp], slots: int) -> None:
        """Restrict posting lists to the documents in `inside`, out of `slots` slots."""
        self._whole, self._size = whole, len(inside)
        self._is_inside = np.zeros(slots, dtype=np.bool_)
        self._is_inside[inside] = True
        self._found: dict[str, tuple[Slots, Impacts]] = {}

    def __len__(self) -> int:
        return self._size

    def knows(self, term: str) -> bool:
        """Return whether any visible document has a term."""
        return self.frequency(term) > 0

    def frequency(self, term: str) -> int:
        """Return the number of visible documents of a term."""
        return len(self.of(term)[0]) if self._whole.knows(term) else 0

    def of(self, term: str) -> tuple[Slots, Impacts]:
        """Return the visible documents of a known term, and its impact in each."""
        if term not in self._found:
            slots, impacts = self._whole.of(term)
            kept = self._is_inside[slots]
            self._found[term] = slots[kept], impacts[kept]
        return self._found[term]
