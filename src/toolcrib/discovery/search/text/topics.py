"""Topics: tags, category and modes of a tool as terms, and recognition of topics in a question.

In plain BM25, the words of a long description outweigh a tag. So a topic is also indexed as a term of its
own, `#issu track`: the stems of its words, in order. A question names a topic if these words follow each
other in it; every tool with the topic is then ranked higher, whatever its description says.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain, islice

from toolcrib.discovery.facts import category, is_deprecated, modes
from toolcrib.discovery.search.text.terms import STOP_WORDS, VAGUE_WORDS, index_terms
from toolcrib.discovery.search.text.words import words
from toolcrib.model import Tool

_TOPIC = "#"
DEPRECATED = "!deprecated"
"""The term of deprecated tools."""
MARKS = (_TOPIC, DEPRECATED)
"""Prefixes of terms that describe a property of a tool, and are not words of its texts."""

_MAX_TOPIC_WORDS = 6
"""Only the first words of a longer topic are used."""
_MAX_WORDS = 200
"""The maximum number of words read of a question."""
_VAGUE_WEIGHT = 0.3
"""The weight of a vague word, such as `show` or `today`, for the share of a topic in a question."""
_MEANINGLESS = STOP_WORDS | {"tool", "tools"}
_PARTS = re.compile(r"[/>|,;]")
"""Separators within a topic, as in `image/png` or `Engineering > Chemistry`: each part is a topic too."""
_MEDIA_TYPE = re.compile(r"\s*[a-z]+/(x[.-]|vnd\.|prs\.)?([a-z0-9][^\s/>|,;]*)", re.IGNORECASE)
_CONTAINERS = frozenset({"application", "multipart"})
"""Media types that are not topics: of `application/pdf`, `pdf` is a topic and `application` is not."""


def topic_terms(topics: Iterable[str]) -> tuple[str, ...]:
    """Return the terms of topics and of their parts.

    A topic of several words also gets a term of its first word with a blank behind, so that `named_topics`
    knows when to try longer sequences.

    >>> topic_terms(["issue-tracking", "image/png"])
    ('#issu ', '#issu track', '#imag ', '#imag png', '#imag', '#png')
    >>> topic_terms(["application/x-yaml"])[-1]
    '#yaml'
    """
    return tuple(dict.fromkeys(chain.from_iterable(map(_terms_of_topic, topics))))


@lru_cache(maxsize=1 << 12)  # many tools have the same topics
def _terms_of_topic(topic: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in _topic_parts(topic):
        stems = list(map(_topic_stem, islice(words(part, with_identifiers=False), _MAX_TOPIC_WORDS)))
        if len(stems) > 1:
            found.append(f"{_TOPIC}{stems[0]} ")
        if stems and part.strip().lower() not in _CONTAINERS:
            found.append(_TOPIC + " ".join(stems))
    return tuple(found)


def _topic_parts(topic: str) -> list[str]:
    """Return a topic and those parts of it that people name separately.

    >>> _topic_parts("image/svg+xml"), _topic_parts("application/vnd.ms-excel")[3:]
    (['image/svg+xml', 'image', 'svg+xml', 'svg', 'xml'], ['ms-excel', 'ms', 'excel'])
    """
    parts = _PARTS.split(topic)
    if len(parts) == 1:
        return parts
    found = [topic, *parts]
    if media_type := _MEDIA_TYPE.match(topic):
        tree, subtype = media_type.groups()
        found += [subtype] if tree else []
        # Names in a vendor's tree have several words, such as `vnd.google-apps.spreadsheet`.
        pieces = re.split(r"[.+-]" if tree else r"\+", subtype)
        found += pieces if len(pieces) > 1 else []
    return found


def marks_of(tool: Tool) -> tuple[str, ...]:
    """Return the topic terms of a tool, and `DEPRECATED` if it is deprecated.

    >>> marks_of(Tool(name="add", description="Adds. DEPRECATED: Use sum.", tags=["maths"], input_schema={}))
    ('#math', '!deprecated')
    """
    found = topic_terms((*tool.tags, category(tool) or "", *modes(tool)))
    return (*found, DEPRECATED) if is_deprecated(tool) else found


def named_topics(question: str, knows: Callable[[str], bool]) -> dict[str, frozenset[str]]:
    """Return the known topics that a question names, each with the stems of the words that name it.

    >>> named_topics("a tool for billing", topic_terms(["billing", "issue-tracking"]).__contains__)
    {'#bill': frozenset({'bill'})}
    """
    stems = list(map(_topic_stem, islice(words(question, with_identifiers=False), _MAX_WORDS)))
    found: dict[str, frozenset[str]] = {}
    for start, first in enumerate(stems):
        term = _TOPIC + first
        if knows(term):
            found[term] = frozenset({first})
        if knows(f"{term} "):
            for end in range(start + 2, min(start + _MAX_TOPIC_WORDS, len(stems)) + 1):
                term = f"{term} {stems[end - 1]}"
                if knows(term):
                    found[term] = frozenset(stems[start:end])
    return found


def content_weights(question: str) -> dict[str, float]:
    """Return the weights of the content words of a question, by stem.

    >>> content_weights("show me the billing tools")
    {'show': 0.3, 'bill': 1.0}
    """
    asked = islice(words(question, with_identifiers=False), _MAX_WORDS)
    return {
        _topic_stem(word): _VAGUE_WEIGHT if word in VAGUE_WORDS else 1.0
        for word in asked
        if word not in _MEANINGLESS
    }


@lru_cache(maxsize=1 << 14)
def _topic_stem(word: str) -> str:
    """Return the stem of a word; stop words are kept as they are, since tags contain them too."""
    found = index_terms(word)
    return found[0] if found else word
