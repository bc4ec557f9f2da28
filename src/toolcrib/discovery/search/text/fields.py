"""The searchable texts of a tool, by the field they stand in."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from toolcrib.discovery.facts import (
    aliases,
    category,
    examples_of,
    is_deprecated,
    modes,
    own_summary,
    summarize,
    title_of,
)
from toolcrib.discovery.records import SearchDoc
from toolcrib.discovery.search.text.terms import STOP_WORDS, forms
from toolcrib.discovery.search.text.topics import DEPRECATED, topic_terms
from toolcrib.discovery.search.text.words import words
from toolcrib.model import Tool

FIELD_WEIGHTS = {
    "name": 2.0,
    "alias": 2.0,
    "namespace": 1.0,
    "title": 1.0,
    "description": 1.0,
    "summary": 1.0,
    "example": 0.5,
    "tag": 0.5,
    "category": 0.5,
    "mode": 0.5,
    "topic": 4.0,
    "parameter": 0.4,
    "choice": 0.4,
    "parameter description": 0.2,
}
"""What one occurrence of a word in a field counts; a `topic` is a tag, category or mode that stands in for
a description which says next to nothing."""
_TOPICS = frozenset({"tag", "category", "mode", "topic"})
"""The fields whose whole texts are filed as terms too."""
_FEW_WORDS = 1
"""Up to how many words, stop words aside, a description says next to nothing with."""

_MAX_SUBSCHEMAS = 500
_MAX_DEPTH = 12
_MAX_CHOICES = 50
_MAX_WORDS = 5_000
"""How many words of a field are read."""

Texts = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Analysis:
    """A tool as a bag of terms."""

    terms: dict[str, float]
    """How often each occurs, weighted by field; `MARKS` count as one."""
    length: float
    """How many words there are, weighted by field."""


def search_doc(tool: Tool, examples: Sequence[str] = ()) -> SearchDoc:
    """Return what is searched of a tool, and of the questions that it is known to answer.

    >>> tool = Tool(name="Add", namespace="math", description="Adds.", tags=["sum"], input_schema={})
    >>> search_doc(tool).doc_text
    'add math adds. adds. sum'
    """
    summary = summarize(tool)
    parts = (
        *(tool.name, tool.namespace, tool.description, summary.summary, summary.category),
        *(*summary.input_modes, *summary.output_modes, *summary.tags),
    )
    return SearchDoc.of_checked(
        id=summary.id,
        doc_text=" ".join(part for part in parts if part).lower(),
        summary=summary,
        fields=tuple(_field_texts(tool, examples)),
        deprecated=is_deprecated(tool),
    )


def analyse(document: SearchDoc) -> Analysis:
    """Return the terms of a tool."""
    by_field: dict[str, list[str]] = {}
    for field, text in document.fields:
        by_field.setdefault(field, []).append(text)
    terms: dict[str, float] = {}
    length = 0.0
    for field, texts in by_field.items():
        weight = FIELD_WEIGHTS[field]
        for word, count in Counter(islice(words("\n".join(texts)), _MAX_WORDS)).items():
            filed = forms(word)
            for term in filed:
                terms[term] = terms.get(term, 0.0) + weight * count
            length += weight * count if filed else 0.0
    marks = topic_terms(text for field, text in document.fields if field in _TOPICS)
    if document.deprecated:
        marks = (*marks, DEPRECATED)
    return Analysis(terms | dict.fromkeys(marks, 1.0), length)


def _field_texts(tool: Tool, examples: Sequence[str] = ()) -> Texts:
    summary, filed, kinds = own_summary(tool), category(tool), modes(tool)
    has_topics = bool(filed or kinds or tool.tags)
    is_terse = has_topics and _is_terse(f"{tool.description or ''} {summary}")
    yield "name", tool.name
    for field, text in (
        ("namespace", tool.namespace),
        ("title", title_of(tool)),
        ("topic" if is_terse else "category", filed),
        ("description", tool.description),
        ("summary", summary),
    ):
        if text:
            yield field, text
    yield from (("alias", alias) for alias in aliases(tool))
    yield from (("topic" if is_terse else "tag", tag) for tag in tool.tags)
    yield from (("topic" if is_terse else "mode", mode) for mode in kinds)
    yield from (("example", example) for example in dict.fromkeys(chain(examples_of(tool), examples)))
    yield from _schema_texts(tool.shared("input_schema"))


def _is_terse(text: str) -> bool:
    """Return whether a text says next to nothing."""
    counted = (word for word in words(text) if word not in STOP_WORDS)
    return next(islice(counted, _FEW_WORDS, None), None) is None


def _schema_texts(schema: dict[str, Any]) -> Texts:
    """Yield the names, descriptions and choices of the parameters; a schema that is none yields nothing."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    seen = 0
    while waiting and seen < _MAX_SUBSCHEMAS:
        node, depth = waiting.pop()
        seen += 1
        if isinstance(node, list):
            waiting.extend((member, depth + 1) for member in reversed(node[:_MAX_CHOICES]))
        if not isinstance(node, dict) or depth > _MAX_DEPTH:
            continue
        yield from _node_texts(node, is_root=depth == 0)
        waiting.extend((child, depth + 1) for child in _children(node))


def _node_texts(node: dict[str, Any], *, is_root: bool) -> Texts:
    properties = node.get("properties")
    if isinstance(properties, dict):
        yield from (("parameter", name) for name in islice(properties, _MAX_SUBSCHEMAS))
    for key in ("title", "description"):
        if isinstance(node.get(key), str) and not (is_root and key == "title"):
            yield "parameter description", node[key]
    choices = node.get("enum")
    listed = choices[:_MAX_CHOICES] if isinstance(choices, list) else ()
    yield from (("choice", choice) for choice in (*listed, node.get("const")) if isinstance(choice, str))


def _children(node: dict[str, Any]) -> Iterator[Any]:
    """Yield the subschemas of a schema, last first, so that they are read in order."""
    for key in ("$defs", "definitions", "properties"):
        members = node.get(key)
        if isinstance(members, dict):
            yield from reversed(list(islice(members.values(), _MAX_SUBSCHEMAS)))
    for key in ("items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf"):
        if isinstance(node.get(key), dict | list):
            yield node[key]
