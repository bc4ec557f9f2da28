"""The word that was meant, where a word is in nobody's vocabulary."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.search.text.stem import stem

_SHORTEST = 4
_LONGEST = 30
_TWO_EDITS = 8
"""From how many letters on a word may have two slips in it."""
_BITS = {1: 6, 2: 8}
"""How many bits of a signature may differ for so many slips; a swap of neighbours changes six."""
_TRIED = 48


class Typos:
    """A vocabulary of stems that finds the nearest one; nothing is computed before the first question.

    Every stem has a signature: 64 bits, some of them set by its pairs of letters. What lies a slip or two
    apart differs in few bits, so that one pass over the signatures leaves few stems to compare by letters.
    """

    def __init__(self) -> None:
        self._words: list[str] = []
        self._known: set[str] = set()
        self._signatures: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._lengths: NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self._waiting: set[str] = set()

    def learn(self, words: Iterable[str]) -> None:
        """Note words for later; they are read at the next question."""
        self._waiting.update(words)

    def nearest(
        self, word: str, usage: Callable[[str], int], here: Callable[[str], int] | None = None
    ) -> str | None:
        """Return the known stem that a word was meant to have, or None.

        `usage` says how often a stem is used: one that is not used is not known any more, and of equally near
        ones the commonest is taken. `here` says it for the part of the catalogue whose words may be meant.
        """
        here = here or usage
        if len(word) < _SHORTEST or not _can_be_meant(word):
            return None
        self._learn_waiting(usage)
        allowed = 2 if len(word) >= _TWO_EDITS else 1
        found = [
            (edits, other[0] != form[0], -used, other)
            for form in sorted({word, stem(word)})
            for other in self._alike(form, allowed, here)
            if (used := here(other)) and (edits := distance(form, other, allowed)) <= allowed
        ]
        return min(found)[-1] if found else None

    def _alike(self, word: str, allowed: int, here: Callable[[str], int]) -> list[str]:
        """Return the stems that may be so few slips away, the likeliest first."""
        apart = np.bitwise_count(self._signatures ^ _signatures([word])[0])
        near = np.flatnonzero(apart <= _BITS[allowed])
        near = near[np.abs(self._lengths[near] - np.int8(len(word))) <= allowed]
        if len(near) > _TRIED:
            used = ((int(apart[at]), self._words[at]) for at in near if here(self._words[at]))
            return [stem for _, stem in sorted(used)[:_TRIED]]
        return [self._words[at] for at in near]

    def _learn_waiting(self, usage: Callable[[str], int]) -> None:
        """Learn what was noted; where more is new than is known, forget what is not used any more."""
        fresh = [word for word in sorted(self._waiting - self._known) if _can_be_meant(word)]
        self._waiting.clear()
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


def _can_be_meant(word: str) -> bool:
    return _SHORTEST - 1 <= len(word) <= _LONGEST and word.isascii() and word.isalpha()


def _signatures(words: list[str]) -> tuple[NDArray[np.uint64], NDArray[np.int8]]:
    """Return the signature and the length of each word, worked out for all of them at once."""
    letters = np.frombuffer((" " + " ".join(words) + " ").encode(), dtype=np.uint8).astype(np.uint64)
    bits = np.left_shift(np.uint64(1), (letters[:-1] * np.uint64(31) + letters[1:]) & np.uint64(63))
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    starts = np.concatenate(([0], np.cumsum(lengths[:-1] + 1)))
    return np.bitwise_or.reduceat(bits, starts), lengths.astype(np.int8)


def distance(word: str, other: str, limit: int) -> int:
    """Return how many slips lie between two words, or more than `limit` where that is certain.

    A slip is a letter too many, too few, wrong, or swapped with its neighbour.

    >>> distance("recieve", "receive", 2), distance("wether", "weather", 2), distance("cat", "house", 2)
    (1, 1, 3)
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
    return _distance(word, other, limit) if limit > 1 else limit + 1


def _distance(word: str, other: str, limit: int) -> int:
    """Return the same by dynamic programming, row by row, as far from the diagonal as the limit reaches."""
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
