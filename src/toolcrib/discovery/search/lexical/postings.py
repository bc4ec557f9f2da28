"""Posting lists in numpy arrays, updated one document at a time.

Most postings stand in the base: one array of slots and one of impacts, in which each term has a range. What
is added later goes to the tail, a small list for each of its terms, until the tail is large enough to be
merged into the base. So a posting takes eight bytes, and a term little more than its text.
"""

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.search.lexical.documents import DocumentBatch, Numbers, ranges

Slots = NDArray[np.int32]
Impacts = NDArray[np.float32]
_MIN_MERGED = 20_000
"""The least number of postings in the tail at which it is merged into the base."""
_MERGED_SHARE = 0.2
"""The share of the base that the tail may reach before it is merged."""
_MAX_NAMES = 2
"""The greatest ratio of numbers to terms: numbers of forgotten terms are only given back by a merge."""
_NO_SLOT = -1
"""Fills the places of removed postings, behind those that are left of their term."""


class _Tail:
    """The later postings of one term, in no order."""

    __slots__ = ("impacts", "slots")

    def __init__(self) -> None:
        self.slots = array("i")
        self.impacts = array("f")

    def __len__(self) -> int:
        return len(self.slots)

    def remove(self, slot: int) -> None:
        """Remove a document; the last entry moves to its place."""
        at = self.slots.index(slot)
        last, impact = self.slots.pop(), self.impacts.pop()
        if at < len(self.slots):
            self.slots[at], self.impacts[at] = last, impact


class Postings:
    """Posting lists: for each term, the documents it occurs in; a document is a small number, its slot.

    The cost of adding a document depends on its own terms alone, apart from merges, of which there is one for
    each fifth that the postings grow by. Removing a document that was merged takes a pass over all slots.
    """

    def __init__(self) -> None:
        self._terms: dict[str, int] = {}
        """The number of each term that any document has; those of the base come first."""
        self.knows: Callable[[str], bool] = self._terms.__contains__
        """Return whether any document has a term."""
        self._names: list[str] = []
        """The term of each number, whether or not a document still has it."""
        self._starts: Numbers = np.zeros(0, np.int64)
        self._sizes: Numbers = np.zeros(0, np.int64)
        """The range of each term in the base."""
        self._slots: Slots = np.zeros(0, np.int32)
        self._impacts: Impacts = np.zeros(0, np.float32)
        self._tails: dict[int, _Tail] = {}
        self._tail_size = 0
        self._terms_in_tail: dict[int, tuple[str, ...]] = {}
        """The terms of each document that is in the tail."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def frequency(self, term: str) -> int:
        """Return the number of documents of a term."""
        number = self._terms.get(term)
        if number is None:
            return 0
        return self._size_in_base(number) + len(self._tails.get(number, ()))

    def of(self, term: str) -> tuple[Slots, Impacts]:
        """Return the documents of a known term, and its impact in each."""
        number = self._terms[term]
        size = self._size_in_base(number)
        start = self._starts.item(number) if size else 0
        slots, impacts = self._slots[start : start + size], self._impacts[start : start + size]
        tail = self._tails.get(number)
        if tail is None:
            return slots, impacts
        # Copies, because an `array` whose memory is lent cannot grow.
        return (
            np.concatenate((slots, np.frombuffer(tail.slots, np.intc))),
            np.concatenate((impacts, np.frombuffer(tail.impacts, np.float32))),
        )

    def add(self, batch: DocumentBatch, slots: Sequence[int], impacts: Impacts | None = None) -> list[str]:
        """Add documents in these slots, and return the terms that are new.

        The values of the batch are the impacts, unless others are given.
        """
        vocabulary = batch.vocabulary
        fresh = [term for term in vocabulary if term not in self._terms]
        self._terms.update(zip(fresh, range(len(self._names), len(self._names) + len(fresh)), strict=True))
        self._names += fresh
        self._count += len(batch.sizes)
        numbers = np.fromiter(map(self._terms.__getitem__, vocabulary), np.int64, len(vocabulary))
        gained = batch.values.astype(np.float32) if impacts is None else impacts
        filed = np.repeat(np.array(slots, np.int32), batch.sizes)
        is_small = self._tail_size + len(filed) <= max(_MIN_MERGED, _MERGED_SHARE * len(self._slots))
        if is_small and len(self._names) <= _MAX_NAMES * (len(self._terms) + _MIN_MERGED):
            self._add_to_tail(batch, slots, filed, gained)
        else:
            order = np.argsort(batch.terms, kind="stable")
            sizes = np.bincount(batch.terms, minlength=len(numbers))
            self._merge(Run(numbers, sizes, filed[order], gained[order]))
        return fresh

    def remove(self, slots: Collection[int]) -> None:
        """Remove documents from every list they are in."""
        merged = [slot for slot in slots if slot not in self._terms_in_tail]
        for slot in self._terms_in_tail.keys() & slots:
            for term in self._terms_in_tail.pop(slot):
                self._remove_from_tail(self._terms[term], slot)
        if merged:
            self._remove_from_base(merged)
        self._count -= len(slots)

    def dump(self) -> tuple[list[str], dict[str, NDArray[Any]]]:
        """Return the terms and the arrays that `load` reads."""
        self._merge()
        return list(self._terms), {"sizes": self._sizes, "slots": self._slots, "impacts": self._impacts}

    def load(self, terms: Sequence[str], arrays: Mapping[str, NDArray[Any]], count: int) -> None:
        """Replace all documents by `count` others, as `dump` returned them."""
        self._terms.clear()
        self._terms.update(zip(terms, range(len(terms)), strict=True))
        self._names = list(self._terms)
        # Copies, because removals write to them.
        self._sizes, self._slots = arrays["sizes"].copy(), arrays["slots"].copy()
        self._impacts = arrays["impacts"].copy()
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._tails, self._tail_size, self._terms_in_tail = {}, 0, {}
        self._count = count

    def _size_in_base(self, number: int) -> int:
        return self._sizes.item(number) if number < len(self._sizes) else 0

    def _add_to_tail(self, batch: DocumentBatch, slots: Sequence[int], filed: Slots, gained: Impacts) -> None:
        names = batch.vocabulary
        terms = [names[number] for number in batch.terms.tolist()]
        for term, slot, impact in zip(terms, filed.tolist(), gained.tolist(), strict=True):
            tail = self._tails.setdefault(self._terms[term], _Tail())
            tail.slots.append(slot)
            tail.impacts.append(impact)
        ends = accumulate(batch.sizes.tolist(), initial=0)
        parts = (tuple(terms[start:end]) for start, end in pairwise(ends))
        self._terms_in_tail.update(zip(slots, parts, strict=True))
        self._tail_size += len(terms)

    def _remove_from_tail(self, number: int, slot: int) -> None:
        tail = self._tails[number]
        tail.remove(slot)
        self._tail_size -= 1
        if not tail:
            del self._tails[number]
            self._forget_unused(number)

    def _remove_from_base(self, slots: Sequence[int]) -> None:
        """Remove documents; the last posting of each of their terms moves to the place of theirs."""
        # From the end on, so that what moves was looked at already, and stays.
        is_gone = self._slots == slots[0] if len(slots) == 1 else np.isin(self._slots, slots)
        for place in np.flatnonzero(is_gone)[::-1].tolist():
            number = int(np.searchsorted(self._starts, place, side="right")) - 1
            self._sizes[number] -= 1
            last = int(self._starts[number] + self._sizes[number])
            self._slots[place], self._impacts[place] = self._slots[last], self._impacts[last]
            self._slots[last] = _NO_SLOT
            if not self._sizes[number] and number not in self._tails:
                self._forget_unused(number)

    def _forget_unused(self, number: int) -> None:
        """Forget a term that no document has any more."""
        if not self._size_in_base(number) and number not in self._tails:
            del self._terms[self._names[number]]

    def _merge(self, *added: "Run") -> None:
        """Make a new base of the old one, the tail and what is added."""
        kept = np.fromiter(self._terms.values(), np.int64, len(self._terms))
        base = Run(np.arange(len(self._sizes)), self._sizes, self._slots, self._impacts, self._starts)
        runs = [base, *self._take_tail(), *added]
        sizes = np.zeros(len(self._names), np.int64)
        for run in runs:
            sizes[run.numbers] += run.sizes
        starts = np.zeros(len(self._names), np.int64)
        starts[kept] = np.cumsum(sizes[kept]) - sizes[kept]
        slots, impacts = np.empty(int(sizes.sum()), np.int32), np.empty(int(sizes.sum()), np.float32)
        for run in runs:
            places = ranges(starts[run.numbers], run.sizes)
            found = slice(None) if run.starts is None else ranges(run.starts, run.sizes)
            slots[places], impacts[places] = run.slots[found], run.impacts[found]
            starts[run.numbers] += run.sizes
        names = list(self._terms)
        self._terms.update(zip(names, range(len(names)), strict=True))
        self._names, self._sizes = names, sizes[kept]
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._slots, self._impacts = slots, impacts

    def _take_tail(self) -> "list[Run]":
        """Empty the tail, and return what it had."""
        tails, self._tails, self._tail_size, self._terms_in_tail = self._tails, {}, 0, {}
        if not tails:
            return []
        lists = tails.values()
        return [
            Run(
                np.fromiter(tails, np.int64, len(tails)),
                np.fromiter(map(len, lists), np.int64, len(tails)),
                np.concatenate([np.frombuffer(one.slots, np.intc) for one in lists]),
                np.concatenate([np.frombuffer(one.impacts, np.float32) for one in lists]),
            )
        ]


class Run(NamedTuple):
    """Postings of several terms, one term after the other."""

    numbers: Numbers
    sizes: Numbers
    slots: Slots
    impacts: Impacts
    starts: Numbers | None = None
    """Where each term begins; None if there is nothing between them."""


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
