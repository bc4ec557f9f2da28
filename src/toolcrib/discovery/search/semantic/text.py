"""Texts to embed: the text of a tool, and the parts of a query."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from toolcrib.discovery.facts import (
    category,
    examples_of,
    modes,
    parameters_of,
    summary_or_title,
)
from toolcrib.discovery.protocols import Indexed
from toolcrib.discovery.search.text.terms import STOP_WORDS
from toolcrib.discovery.search.text.words import clauses, split_identifier
from toolcrib.model import Tool

MAX_QUERY = 8_000
"""The maximum number of characters of a question that are embedded; no model reads more."""
_MIN_ERRANDS = 3
_MAX_ERRANDS = 12
_FEWEST_WORDS = 3
_TOPIC_WEIGHT = 2.0
"""The weight of topics for a description of one word; divided by the fourth power of its word count."""
_TOPIC_WORD = re.compile(r"[^-_.,;:!?/\s]+")
"""The words of a tag, a category or a kind of content: `issue-tracking`, `image/png`."""


def clean(text: str, limit: int) -> str:
    r"""Return a text on one line, cut, and without characters that tokenizers cannot read.

    >>> clean(" a\x00b \ud83d c\n", 80).encode("ascii", "backslashreplace")
    b'a b \\ufffd c'
    """
    whole = text[:limit]
    if not whole.isascii():
        whole = whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return " ".join(whole.replace("\x00", " ").split())


def split_errands(question: str) -> list[str]:
    """Split a question that asks for three or more things, which one vector cannot represent.

    >>> split_errands("Book a flight to Oslo, find a hotel near the station, and then tell Ann about it.")
    ['Book a flight to Oslo', 'find a hotel near the station', 'tell Ann about it']
    >>> split_errands("Book a flight to Oslo, please")
    []
    """
    parts = [part for part in clauses(question) if len(part.split()) >= _FEWEST_WORDS]
    return parts[:_MAX_ERRANDS] if len(parts) >= _MIN_ERRANDS else []


@dataclass(frozen=True, slots=True)
class DocumentText:
    """Writes a tool as `namespace name: description`, followed by its parameters and example questions.

    A long description is cut, so that up to half of the text is left to what follows it.
    """

    limit: int = 1_500
    """The maximum length of the text, in characters."""
    parameters: bool = True
    """Whether the names of the parameters are included."""
    examples: int = 3
    """The maximum number of example questions."""

    @property
    def key(self) -> str:
        """The cache key of vectors of such texts; the number must be increased when the text changes."""
        return f"text-3-{self.limit}-{int(self.parameters)}-{self.examples}"

    def __call__(self, indexed: Indexed) -> str:
        """Return the text of a tool."""
        tool = indexed.tool
        summary = summary_or_title(tool)
        head = _split_names(f"{tool.namespace or ''} {tool.name}")
        tail = self._tail(tool, summary if tool.description else "", indexed.examples)
        text = f"{head}: {clean(tool.description or summary, self.limit)}"
        room = max(self.limit - len(tail), self.limit // 2)
        return (text[:room].rstrip(": ") + tail)[: self.limit]

    def topics(self, indexed: Indexed) -> tuple[str, float]:
        """Return the topics of a tool as text, and the weight of their vector relative to that of the text.

        The topics are the words of tags, category and modes that the description does not have. They name a
        field of work rather than an action, and many tools share them, so their weight falls quickly with the
        length of the description.
        """
        tool = indexed.tool
        if not (tool.tags or tool.shared("meta") or tool.__pydantic_extra__):
            return "", 0.0
        described = {word.lower() for word in _TOPIC_WORD.findall(tool.description or "")}
        known = described | set(split_identifier(tool.name))
        tags = sorted({tag.strip().lower() for tag in tool.tags})
        filed = (*tags, category(tool) or "", *modes(tool))
        words = dict.fromkeys(word.lower() for topic in filed for word in _TOPIC_WORD.findall(topic))
        weight = _TOPIC_WEIGHT / max(len(described - STOP_WORDS), 1) ** 4
        return " ".join(word for word in words if word not in known), weight

    def _tail(self, tool: Tool, summary: str, examples: Iterable[str]) -> str:
        """Return the text after the description: summary, parameters and examples, each after a full stop."""
        parts = [summary]
        if self.parameters and (parameters := parameters_of(tool)):
            names = ", ".join(_split_names(clean(name, 100)) for name in parameters)
            parts.append(f"Parameters: {names}")
        parts += examples_of(tool, examples)[: self.examples]
        return "".join(f". {text}" for part in parts if (text := clean(part, self.limit)))


document_text = DocumentText()
"""The default text of a tool."""


def _split_names(identifiers: str) -> str:
    """Split identifiers into words; a name without words is kept."""
    return " ".join(map(_split_name, identifiers.split()))


@lru_cache(maxsize=1 << 12)  # many parameters have the same names
def _split_name(name: str) -> str:
    return " ".join(split_identifier(name)) or name
