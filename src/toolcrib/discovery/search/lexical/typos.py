"""Spelling correction of query words that no tool has.

A word cannot be compared letter by letter with every stem of a large vocabulary. So every stem has a 64-bit
signature, in which each pair of adjacent letters sets one bit. An edit changes few pairs, so one pass of XOR
and popcount over all signatures leaves few stems to compare exactly.
"""

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.search.text.stem import stem

_SHORTEST = 4
_LONGEST = 30
_MIN_LENGTH_FOR_TWO_EDITS = 8
_MAX_BIT_DIFFERENCE = {1: 6, 2: 8}
"""Signature bits that may differ, by the number of edits; a swap of two letters changes up to six."""
_MAX_CANDIDATES = 48
_MAX_WAITING = 256
"""Queued lists of words, of which one set is made beyond this number."""


class SpellingCorrector:
    """A vocabulary of stems that finds the one nearest to a word; built when it is first used."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._known: set[str] = set()
        self._signatures: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._lengths: NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self._waiting: list[Collection[str]] = []

    def learn(self, words: Collection[str]) -> None:
        """Queue words; they are added to the vocabulary when it is next used."""
        # Lists as they come: a set of all stems takes megabytes, and most questions have no typing error.
        if words:
            self._waiting.append(words)
        if len(self._waiting) > _MAX_WAITING:
            self._waiting = [set().union(*self._waiting)]

    def nearest(
        self, word: str, usage: Callable[[str], int], here: Callable[[str], int] | None = None
    ) -> str | None:
        """Return the known stem nearest to a misspelt word, or None.

        `usage` returns how many tools have a stem; stems that none has are dropped. `here` returns the same
        for the tools that the caller can see: only their stems are suggested, the commonest of equally near
        ones.
        """
        here = here or usage
        if len(word) < _SHORTEST or not _is_candidate(word):
            return None
        self._learn_waiting(usage)
        allowed = 2 if len(word) >= _MIN_LENGTH_FOR_TWO_EDITS else 1
        found = [
            (edits, other[0] != form[0], -used, other)
            for form in sorted({word, stem(word)})
            for other in self._candidates(form, allowed, here)
            if (used := here(other)) and (edits := edit_distance(form, other, allowed)) <= allowed
        ]
        return min(found)[-1] if found else None

    def _candidates(self, word: str, allowed: int, here: Callable[[str], int]) -> list[str]:
        """Return the stems that may be within so many edits, by their signatures and lengths."""
        apart = np.bitwise_count(self._signatures ^ _signatures([word])[0])
        near = np.flatnonzero(apart <= _MAX_BIT_DIFFERENCE[allowed])
        near = near[np.abs(self._lengths[near] - np.int8(len(word))) <= allowed]
        if len(near) > _MAX_CANDIDATES:
            used = ((int(apart[at]), self._words[at]) for at in near if here(self._words[at]))
            return [stem for _, stem in sorted(used)[:_MAX_CANDIDATES]]
        return [self._words[at] for at in near]

    def _learn_waiting(self, usage: Callable[[str], int]) -> None:
        """Add the queued words; if these are more than the known ones, drop stems that no tool has."""
        # A full clean-up takes time, so it is done only when the vocabulary doubles.
        waiting, self._waiting = set().union(*self._waiting), []
        fresh = [word for word in sorted(waiting - self._known) if _is_candidate(word)]
        if len(fresh) > len(self._words):
            fresh = sorted({word for word in (*self._words, *fresh) if usage(word)})
            self._words, self._known = [], set()
            self._signatures, self._lengths = self._signatures[:0], self._lengths[:0]
        if fresh:
            signatures, lengths = _signatures(fresh)
            self._words += fresh
            self._known.update(fresh)
            self._signatures = np.concatenate((self._signatures, signatures))
            self._lengths = np.concatenate((self._lengths, lengths))


def _is_candidate(word: str) -> bool:
    return _SHORTEST - 1 <= len(word) <= _LONGEST and word.isascii() and word.isalpha()


def _signatures(words: list[str]) -> tuple[NDArray[np.uint64], NDArray[np.int8]]:
    """Return the signature and the length of each word, vectorised over all words."""
    # All words in one buffer with blanks between them; each pair of adjacent bytes is hashed to a bit, and
    # `reduceat` joins the bits of each word.
    letters = np.frombuffer((" " + " ".join(words) + " ").encode(), dtype=np.uint8).astype(np.uint64)
    bits = np.left_shift(np.uint64(1), (letters[:-1] * np.uint64(31) + letters[1:]) & np.uint64(63))
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    starts = np.concatenate(([0], np.cumsum(lengths[:-1] + 1)))
    return np.bitwise_or.reduceat(bits, starts), lengths.astype(np.int8)


def edit_distance(word: str, other: str, limit: int) -> int:
    """Return the edit distance of two words (optimal string alignment), or more than `limit`.

    An edit inserts, deletes or replaces a letter, or swaps two adjacent ones.

    >>> edit_distance("recieve", "receive", 2), edit_distance("cat", "house", 2)
    (1, 3)
    """
    if word == other:
        return 0
    at = next((at for at, pair in enumerate(zip(word, other, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        return min(abs(len(word) - len(other)), limit + 1)
    word, other = word[at:], other[at:]
    if word[1:] == other[1:] or word == other[1:] or word[1:] == other:
        return 1
    if word[1:2] == other[0] and word[0] == other[1:2] and word[2:] == other[2:]:
        return 1
    return _edit_distance_by_rows(word, other, limit) if limit > 1 else limit + 1


def _edit_distance_by_rows(word: str, other: str, limit: int) -> int:
    """Return the edit distance by dynamic programming, in a band of `limit` around the diagonal."""
    far = limit + 1
    above: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word, 1):
        above, before, row = row, above, [i] + [far] * len(other)
        for j in range(max(1, i - limit), min(len(other), i + limit) + 1):
            theirs = other[j - 1]
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != theirs))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == theirs:
                cost = min(cost, before[j - 2] + 1)
            row[j] = cost
        if min(row) > limit:
            break
    return min(row[-1], far)
