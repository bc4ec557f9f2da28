"""A query as weighted terms, as a whole and part by part."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from toolcrib.discovery.search.text import clauses, content_weights, fold, named_topics, question_terms, words

_MAX_PARTS = 12
_MAX_CLAUSES = 100
_MAX_WORDS = 400
"""How many words of a question are looked up."""
_WELL_KNOWN = 10
"""With more known words than this a question is understood, and its unknown ones are let be."""
_MAX_UNKNOWN = 4
"""How many unknown words of a question are looked at for typing errors."""
_TYPO_WEIGHT = 0.8
_LEAST = 2
"""How many known words make a part worth asking by itself."""

_PROPER = re.compile(r"(?<=[\w,] )[A-Z]\w+")
"""A capital letter within a sentence: a name, which is not misspelt for being unknown."""

_READ = 10_000
Terms = dict[str, float]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A question as the posting lists understand it."""

    terms: Terms
    """Every known term, with its weight."""
    parts: tuple[Terms, ...]
    """The same for each part, where there are several."""
    unknown: int
    """How many words are in nobody's vocabulary."""
    topics: dict[str, frozenset[str]] = field(default_factory=dict)
    """The topics that it names, with the stems of the words that name each."""
    content: dict[str, float] = field(default_factory=dict)
    """What the stems of its words weigh beside these topics, where it names any."""


def read_question(
    text: str, knows: Callable[[str], bool], nearest: Callable[[str], str | None]
) -> ParsedQuery:
    """Return what a text asks for, in known terms.

    Where little is known of it, an unknown word is read as the nearest known one.
    """
    parts = _read_parts(clauses(text)[:_MAX_CLAUSES], knows)
    unknown = dict.fromkeys(word for part in parts for word in part.unknown)
    if unknown and sum(part.stems for part in parts) <= _WELL_KNOWN:
        names = {name.lower() for name in _PROPER.findall(fold(text[:_READ]))}
        meant = {word: nearest(word) for word in islice(unknown, _MAX_UNKNOWN) if word not in names}
        for part in parts:
            part.correct(meant)
    whole: Terms = {}
    for part in parts:
        for term, weight in part.terms.items():
            whole[term] = max(weight, whole.get(term, 0.0))
    telling = [part.terms for part in parts if part.stems >= _LEAST][:_MAX_PARTS]
    topics = named_topics(text[:_READ], knows)
    content = content_weights(text[:_READ]) if topics else {}
    return ParsedQuery(whole, tuple(telling) if len(telling) > 1 else (), len(unknown), topics, content)


@dataclass(slots=True)
class _Part:
    """A part of a question while it is read."""

    terms: Terms = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    stems: int = 0
    """How many known words there are."""

    def ask(self, term: str, weight: float) -> None:
        self.terms[term] = max(weight, self.terms.get(term, 0.0))

    def correct(self, meant: Mapping[str, str | None]) -> None:
        for word in self.unknown:
            stem = meant.get(word)
            if stem:
                self.ask(stem, _TYPO_WEIGHT)
                self.stems += 1


def _read_parts(texts: Iterable[str], knows: Callable[[str], bool]) -> list[_Part]:
    parts: list[_Part] = []
    left = _MAX_WORDS
    for text in texts:
        part = _Part()
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
