"""Parsing of queries into weighted terms, as a whole and part by part."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from toolcrib.discovery.search.text import clauses, content_weights, fold, named_topics, question_terms, words

_MAX_PARTS = 12
_MAX_CLAUSES = 100
_MAX_WORDS = 400
"""The maximum number of words of a question that are looked up."""
# Spelling correction is for short questions, where one unknown word matters, and costs time for each word.
_ENOUGH_KNOWN_WORDS = 10
"""Questions with more known words are not corrected."""
_MAX_CORRECTED = 4
_TYPO_WEIGHT = 0.8
"""The weight of a term that was found by spelling correction."""
_MIN_PART_WORDS = 2
"""The minimum number of known words of a part that is scored by itself."""

_PROPER_NOUN = re.compile(r"(?<=[\w,] )[A-Z]\w+")
"""A capitalised word within a sentence: a name, which is not misspelt just because no tool has it."""

_MAX_QUESTION_LENGTH = 10_000
Terms = dict[str, float]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query as weighted terms that the index has."""

    terms: Terms
    """All known terms with their weights."""
    parts: tuple[Terms, ...]
    """The known terms of each part; empty unless there are several parts."""
    unknown: int
    """The number of words that no tool has."""
    topics: dict[str, frozenset[str]] = field(default_factory=dict)
    """The topics that the query names, each with the stems of the words that name it."""
    content: dict[str, float] = field(default_factory=dict)
    """The weights of its words by stem, to measure the share of topics; empty if it names none."""
    corrected: dict[str, str] = field(default_factory=dict)
    """The known stems that stand for misspelt words, by word."""


def parse_query(text: str, knows: Callable[[str], bool], nearest: Callable[[str], str | None]) -> ParsedQuery:
    """Parse a query into known terms; in a short query, unknown words are corrected with `nearest`."""
    parts = _read_parts(clauses(text)[:_MAX_CLAUSES], knows)
    unknown = dict.fromkeys(word for part in parts for word in part.unknown)
    corrected: dict[str, str] = {}
    if unknown and sum(part.stems for part in parts) <= _ENOUGH_KNOWN_WORDS:
        names = {name.lower() for name in _PROPER_NOUN.findall(fold(text[:_MAX_QUESTION_LENGTH]))}
        meant = {word: nearest(word) for word in islice(unknown, _MAX_CORRECTED) if word not in names}
        for part in parts:
            part.correct_typos(meant)
        corrected = {word: stem for word, stem in meant.items() if stem}
    whole: Terms = {}
    for part in parts:
        for term, weight in part.terms.items():
            whole[term] = max(weight, whole.get(term, 0.0))
    telling = [part.terms for part in parts if part.stems >= _MIN_PART_WORDS][:_MAX_PARTS]
    topics = named_topics(text[:_MAX_QUESTION_LENGTH], knows)
    content = content_weights(text[:_MAX_QUESTION_LENGTH]) if topics else {}
    several = tuple(telling) if len(telling) > 1 else ()
    return ParsedQuery(whole, several, len(unknown), topics, content, corrected)


@dataclass(slots=True)
class _QueryPart:
    """A part of a query while it is parsed."""

    terms: Terms = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    stems: int = 0
    """The number of known words."""

    def add(self, term: str, weight: float) -> None:
        self.terms[term] = max(weight, self.terms.get(term, 0.0))

    def correct_typos(self, meant: Mapping[str, str | None]) -> None:
        for word in self.unknown:
            stem = meant.get(word)
            if stem:
                self.add(stem, _TYPO_WEIGHT)
                self.stems += 1


def _read_parts(texts: Iterable[str], knows: Callable[[str], bool]) -> list[_QueryPart]:
    parts: list[_QueryPart] = []
    left = _MAX_WORDS
    for text in texts:
        part = _QueryPart()
        terms = part.terms
        for word in islice(words(text), left):
            left -= 1
            asked = question_terms(word)
            if asked and not knows(asked[0][0]):
                part.unknown.append(word)
            elif asked:
                part.stems += asked[0][0] not in terms
            for term, weight in asked:
                if weight > terms.get(term, 0.0) and knows(term):
                    terms[term] = weight
        parts.append(part)
    return parts
