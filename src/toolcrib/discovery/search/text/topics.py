"""Tags, category and modes of a tool as terms, and the topics that a question names.

Words in a long description outweigh a tag, and many tools share one. So a topic is also filed as a term of
its own, `#issu track`: its words by their stems, in order. A question names a topic where these words follow
each other in it, and every tool that has the topic is lifted, whatever its description says.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice

from toolcrib.discovery.facts import category, is_deprecated, modes
from toolcrib.discovery.search.text.terms import STOP_WORDS, VAGUE_WORDS, forms
from toolcrib.discovery.search.text.words import words
from toolcrib.model import Tool

_TOPIC = "#"
DEPRECATED = "!deprecated"
"""The term of the tools that are deprecated."""
MARKS = (_TOPIC, DEPRECATED)
"""Terms that begin so say what a tool is, and not which words it has."""

_MAX_TOPIC_WORDS = 6
"""Of a longer topic, so many words name it."""
_MAX_WORDS = 200
"""How many words of a question are looked at."""
_LITTLE = 0.3
"""What a word such as `show` or `today` weighs in a question, beside one that names a thing."""
_MEANINGLESS = STOP_WORDS | {"tool", "tools"}
"""Words that say nothing about which tool is meant."""
_PARTS = re.compile(r"[/>|,;]")
"""Separators within a topic, as in `image/png` or `Engineering > Chemistry`: each part is a topic too."""
_MEDIA_TYPE = re.compile(r"\s*[a-z]+/(x[.-]|vnd\.|prs\.)?([a-z0-9][^\s/>|,;]*)", re.IGNORECASE)
_CONTAINERS = frozenset({"application", "multipart"})
"""Types of content that say nothing about it: `pdf` is a topic of `application/pdf`, `application` is not."""


def topic_terms(topics: Iterable[str]) -> tuple[str, ...]:
    """Return the terms of topics, and of their parts; with a space behind it, the beginning of a longer one.

    >>> topic_terms(["issue-tracking", "image/png"])
    ('#issu ', '#issu track', '#imag ', '#imag png', '#imag', '#png')
    >>> topic_terms(["application/x-yaml"])[-1]
    '#yaml'
    """
    found: dict[str, None] = {}
    for topic in topics:
        for part in _parts(topic):
            stems = list(map(_topic_stem, islice(words(part, with_identifiers=False), _MAX_TOPIC_WORDS)))
            if len(stems) > 1:
                found[f"{_TOPIC}{stems[0]} "] = None
            if stems and part.strip().lower() not in _CONTAINERS:
                found[_TOPIC + " ".join(stems)] = None
    return tuple(found)


def _parts(topic: str) -> list[str]:
    """Return a topic and the parts of it that people name by themselves.

    >>> _parts("image/svg+xml"), _parts("application/vnd.ms-excel")[3:]
    (['image/svg+xml', 'image', 'svg+xml', 'svg', 'xml'], ['ms-excel', 'ms', 'excel'])
    """
    parts = _PARTS.split(topic)
    if len(parts) == 1:
        return parts
    found = [topic, *parts]
    if media_type := _MEDIA_TYPE.match(topic):
        tree, subtype = media_type.groups()
        found += [subtype] if tree else []
        # What a vendor calls a format has more words than the format: `vnd.google-apps.spreadsheet`.
        pieces = re.split(r"[.+-]" if tree else r"\+", subtype)
        found += pieces if len(pieces) > 1 else []
    return found


def marks_of(tool: Tool) -> tuple[str, ...]:
    """Return the terms of a tool's topics, and the one for being deprecated if it is.

    >>> marks_of(Tool(name="add", description="Adds. DEPRECATED: Use sum.", tags=["maths"], input_schema={}))
    ('#math', '!deprecated')
    """
    found = topic_terms((*tool.tags, category(tool) or "", *modes(tool)))
    return (*found, DEPRECATED) if is_deprecated(tool) else found


def named_topics(question: str, knows: Callable[[str], bool]) -> dict[str, frozenset[str]]:
    """Return the known topics that a question names, with the stems of the words that name each.

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
    """Return what each word of a question weighs, by its stem; words that say nothing are left out.

    >>> content_weights("show me the billing tools")
    {'show': 0.3, 'bill': 1.0}
    """
    asked = islice(words(question, with_identifiers=False), _MAX_WORDS)
    return {
        _topic_stem(word): _LITTLE if word in VAGUE_WORDS else 1.0
        for word in asked
        if word not in _MEANINGLESS
    }


@lru_cache(maxsize=1 << 14)
def _topic_stem(word: str) -> str:
    """Return the stem of a word; a stop word is its own, since tags are made of them as well."""
    found = forms(word)
    return found[0] if found else word
