"""Extraction of the searchable texts of a tool by field."""

from collections.abc import Iterator, Sequence
from itertools import islice
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
from toolcrib.discovery.search.text.terms import STOP_WORDS
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
"""The weight of a word by the field it occurs in.

`topic` is used for tags, category and modes of a tool with an empty or one-word description: they are then
the best text there is.
"""
TOPIC_FIELDS = frozenset({"tag", "category", "mode", "topic"})
"""The fields whose whole texts become topic terms too."""
_MAX_TERSE_WORDS = 1
"""A description with at most this many words, stop words aside, counts as missing."""

_FIRST_CHARACTERS = 300
"""The part of a description that usually has enough words to tell that it is not terse."""
_NAMED_SUBSCHEMAS = ("$defs", "definitions", "properties")
_OTHER_SUBSCHEMAS = ("items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf")
_SUBSCHEMAS = frozenset(_NAMED_SUBSCHEMAS + _OTHER_SUBSCHEMAS)
_MAX_SUBSCHEMAS = 500
_MAX_DEPTH = 12
_MAX_CHOICES = 50
Texts = Iterator[tuple[str, str]]


def search_doc(tool: Tool, examples: Sequence[str] = ()) -> SearchDoc:
    """Return the searchable texts of a tool and of its example questions.

    >>> tool = Tool(name="Add", namespace="math", description="Adds.", tags=["sum"], input_schema={})
    >>> search_doc(tool).doc_text
    'add math adds. adds. sum'
    """
    summary = summarize(tool)
    parts = (
        *(tool.name, tool.namespace, tool.description, summary.summary, summary.category),
        *(*summary.input_modes, *summary.output_modes, *summary.tags),
    )
    return SearchDoc.from_valid(
        id=summary.id,
        doc_text=" ".join(part for part in parts if part).lower(),
        summary=summary,
        fields=tuple(field_texts(tool, examples)),
        deprecated=is_deprecated(tool),
    )


def field_texts(tool: Tool, examples: Sequence[str] = ()) -> Texts:
    """Yield the texts of a tool and of its example questions, each with its field."""
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
    yield from (("example", example) for example in examples_of(tool, examples))
    yield from _schema_texts(tool.shared("input_schema"))


def _is_terse(text: str) -> bool:
    """Return whether a text has at most one word that is not a stop word."""
    # The first words of a long text are nearly always enough, and take a fifth of the time.
    for part in (text[:_FIRST_CHARACTERS].rpartition(" ")[0], text):
        counted = (word for word in words(part) if word not in STOP_WORDS)
        if next(islice(counted, _MAX_TERSE_WORDS, None), None) is not None:
            return False
    return True


def _schema_texts(schema: dict[str, Any]) -> Texts:
    """Yield the names, descriptions and choices of the parameters; malformed parts are skipped."""
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
    """Yield the subschemas of a schema, last first, since the caller takes them from a stack."""
    if _SUBSCHEMAS.isdisjoint(node):  # most schemas have no subschemas
        return
    for key in _NAMED_SUBSCHEMAS:
        members = node.get(key)
        if isinstance(members, dict):
            yield from reversed(list(islice(members.values(), _MAX_SUBSCHEMAS)))
    for key in _OTHER_SUBSCHEMAS:
        if isinstance(node.get(key), dict | list):
            yield node[key]
