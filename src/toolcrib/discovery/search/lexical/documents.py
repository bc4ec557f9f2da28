"""Analysis of many tools at once: the weighted terms of each, as arrays.

Python splits texts into words and looks each of them up; what follows, counting the words of each field and
adding up the terms of each tool, is done in arrays, a thousand tools at a time. That takes a third of the
time that dictionaries take. Sums are made in the order of the words, so they do not depend on how many tools
are analysed together.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.facts import is_deprecated
from toolcrib.discovery.search.text.fields import FIELD_WEIGHTS, TOPIC_FIELDS, field_texts
from toolcrib.discovery.search.text.terms import index_terms
from toolcrib.discovery.search.text.topics import DEPRECATED, topic_terms
from toolcrib.discovery.search.text.words import words
from toolcrib.model import Tool

_BLOCK = 1_000
"""The number of tools whose words are in memory at a time."""
_MAX_WORDS = 5_000
"""The maximum number of words read per field."""

Numbers = NDArray[np.int64]


class DocumentBatch(NamedTuple):
    """Documents to add to posting lists; a document is identified by its position in the batch."""

    vocabulary: list[str]
    """The distinct terms, each at the position of its number."""
    terms: NDArray[np.int32]
    """The numbers of the terms of all documents, one document after the other."""
    values: NDArray[np.float64]
    """The frequency of each term in its document, weighted by field; 1 for one that begins with a mark."""
    sizes: NDArray[np.int32]
    """The number of terms of each document."""
    lengths: NDArray[np.float64]
    """The number of words of each document, weighted by field."""


def analyse_tools(tools: Iterable[tuple[Tool, Sequence[str]]]) -> DocumentBatch:
    """Analyse the texts of tools, each with its example questions, into weighted terms."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    remaining, parts = iter(tools), []
    while block := list(islice(remaining, _BLOCK)):
        parts.append(_Block(numbers, block).add_up())
    if not parts:
        return DocumentBatch([], *(np.zeros(0, kind) for kind in (np.int32, float, np.int32, float)))
    terms, values, sizes, lengths = map(np.concatenate, zip(*parts, strict=True))
    return DocumentBatch(list(numbers), terms, values, sizes, lengths)


class _Block:
    """The words of some tools, field by field, in the order in which they are written."""

    def __init__(self, numbers: defaultdict[str, int], tools: Sequence[tuple[Tool, Sequence[str]]]) -> None:
        self._numbers = numbers
        """The number of each term of the batch."""
        self._count = len(tools)
        self._words: defaultdict[str, int] = defaultdict()
        self._words.default_factory = self._words.__len__
        self._written = array("i")
        """The number of each word."""
        self._sizes, self._documents, self._weights = array("i"), array("i"), array("d")
        """The number of words of each field of each tool, the tool's position, and the field's weight."""
        self._marks, self._marked = array("i"), array("i")
        """The numbers of marks, and the positions of the tools that have them."""
        for place, (tool, examples) in enumerate(tools):
            self._read(place, tool, examples)

    def _read(self, place: int, tool: Tool, examples: Sequence[str]) -> None:
        """Add the words and the marks of a tool."""
        by_field: dict[str, list[str]] = {}
        topics: list[str] = []
        for field, text in field_texts(tool, examples):
            by_field.setdefault(field, []).append(text)
            if field in TOPIC_FIELDS:
                topics.append(text)
        for field, texts in by_field.items():
            found = list(islice(words("\n".join(texts)), _MAX_WORDS))
            self._written.extend(map(self._words.__getitem__, found))
            self._sizes.append(len(found))
            self._documents.append(place)
            self._weights.append(FIELD_WEIGHTS[field])
        marks = (*topic_terms(topics), *((DEPRECATED,) if is_deprecated(tool) else ()))
        self._marks.extend(map(self._numbers.__getitem__, marks))
        self._marked.extend([place] * len(marks))

    def add_up(self) -> tuple[NDArray[Any], ...]:
        """Return the terms of all tools with their values, and the number of terms and the length of each."""
        fields, words, counts = self._count_words()
        values = np.frombuffer(self._weights, np.float64)[fields] * counts
        documents = np.array(self._documents, np.int64)[fields]
        starts, sizes, terms = self._look_up_terms()
        is_filed = sizes[words] > 0
        lengths = np.bincount(documents[is_filed], values[is_filed], minlength=self._count)

        repeats = sizes[words]
        marked, marks = (np.array(each, np.int64) for each in (self._marked, self._marks))
        places = np.concatenate((np.repeat(documents, repeats), marked))
        found = np.concatenate((terms[ranges(starts[words], repeats)], marks))
        added = np.concatenate((np.repeat(values, repeats), np.ones(len(self._marks))))
        keys, inverse = np.unique(places * max(len(self._numbers), 1) + found, return_inverse=True)
        owners, numbers = np.divmod(keys, max(len(self._numbers), 1))
        return (
            numbers.astype(np.int32),
            np.bincount(inverse, added, minlength=len(keys)),
            np.bincount(owners, minlength=self._count).astype(np.int32),
            lengths,
        )

    def _count_words(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return each word of each field once, in order of first occurrence: field, word and count."""
        written = np.frombuffer(self._written, np.intc)
        fields = np.repeat(np.arange(len(self._sizes), dtype=np.int64), np.frombuffer(self._sizes, np.intc))
        keys, first, counts = np.unique(
            fields * max(len(self._words), 1) + written, return_index=True, return_counts=True
        )
        order = np.argsort(first)
        found, words = np.divmod(keys[order], max(len(self._words), 1))
        return found, words, counts[order]

    def _look_up_terms(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the terms that words are filed under, one word after the other, with starts and sizes."""
        filed = list(map(index_terms, self._words))
        sizes = np.fromiter(map(len, filed), np.int64, len(filed))
        terms = [self._numbers[term] for each in filed for term in each]
        return np.cumsum(sizes) - sizes, sizes, np.array(terms, np.int64)


def ranges(starts: Numbers, sizes: Numbers) -> Numbers:
    """Return the numbers of all ranges, one range after the other.

    >>> ranges(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
