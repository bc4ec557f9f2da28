"""Texts that are hard to read, and how long reading may take."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from time import thread_time
from typing import Any, NamedTuple

from effort import slowness

from toolcrib.discovery.facts import is_deprecated
from toolcrib.discovery.search.text import DEPRECATED, FIELD_WEIGHTS, index_terms, words
from toolcrib.discovery.search.text.fields import TOPIC_FIELDS, field_texts
from toolcrib.discovery.search.text.topics import topic_terms
from toolcrib.model import Tool


class Analysis(NamedTuple):
    """The index terms of a tool."""

    terms: dict[str, float]
    length: float


def analyse(tool: Tool, examples: Sequence[str] = ()) -> Analysis:
    """Analyse one tool in the plainest way, word by word."""
    by_field: dict[str, list[str]] = {}
    for field, text in field_texts(tool, examples):
        by_field.setdefault(field, []).append(text)
    terms: dict[str, float] = {}
    length = 0.0
    for field, texts in by_field.items():
        for word, count in Counter(islice(words("\n".join(texts)), 5_000)).items():
            added, filed = FIELD_WEIGHTS[field] * count, index_terms(word)
            for term in filed:
                terms[term] = terms.get(term, 0.0) + added
            length += added if filed else 0.0
    topics = [text for field, texts in by_field.items() if field in TOPIC_FIELDS for text in texts]
    marks = (*topic_terms(topics), *((DEPRECATED,) if is_deprecated(tool) else ()))
    return Analysis(terms | dict.fromkeys(marks, 1.0), length)


HOSTILE = {
    "capitals": "A",
    "capitals and one small letter": "AAb",
    "acronyms and their plurals": "AAs",
    "humps": "aB",
    "dotted letters": "a.",
    "hyphens": "a-",
    "dots": ".",
    "underscores": "_",
    "apostrophes": "a'",
    "contractions": "a's",
    "denials": "n't",
    "digits": "1",
    "one Chinese character": "天",
    "Chinese between Latin": "a天",
    "Thai": "ก็",
    "accents upon accents": "\u0301\u0316",
    "Hebrew points upon points": "\u05b0\u05b1",
    "Devanagari marks upon marks": "\u0951\u0952",
    "Japanese marks upon marks": "\uff9e\u0951",
    "what stands for eighteen letters": "\ufdfa",
    "emoji families": "👩‍👩‍👧‍👦",
    "right-to-left marks": "\u202eا",
    "NUL": "\0",
    "lone surrogates": "\ud800",
}

SHORT = 0.2
"""Seconds that are few on any machine, so that its speed need not be measured."""


def seconds(work: Callable[[], Any]) -> float:
    """Return the CPU time that some work takes on a machine of usual speed, the better of two runs."""
    times = []
    for _ in range(2):
        start = thread_time()
        work()
        times.append(thread_time() - start)
    taken = min(times)
    return taken if taken < SHORT else taken / slowness()
