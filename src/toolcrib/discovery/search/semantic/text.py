"""The texts that are embedded for a tool and for a query."""

import re
from dataclasses import dataclass

from toolcrib.discovery.facts import document_of
from toolcrib.discovery.protocols import Indexed
from toolcrib.discovery.records import Document
from toolcrib.discovery.search.text.terms import STOP_WORDS
from toolcrib.discovery.search.text.words import clauses, split_identifier

MAX_QUERY = 8_000
"""How many characters of a question are embedded; no model reads as many."""
_MIN_ERRANDS = 3
_MAX_ERRANDS = 12
_FEWEST_WORDS = 3
_TOPICS = 2.0
"""The weight of topics, divided by the fourth power of how many words the description has."""
_PARTS = re.compile(r"[^-_.,;:!?/\s]+")
"""The words of a tag, a category or a kind of content: `issue-tracking`, `image/png`."""


def clean(text: str, limit: int) -> str:
    r"""Return as much of a text as any tokenizer can read, on one line.

    >>> clean(" a\x00b \ud83d c\n", 80).encode("ascii", "backslashreplace")
    b'a b \\ufffd c'
    """
    whole = text[:limit].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return " ".join(whole.replace("\x00", " ").split())


def errands(question: str) -> list[str]:
    """Return the parts of a question that asks for so many things that one vector cannot stand for them.

    >>> errands("Book a flight to Oslo, find a hotel near the station, and then tell Ann about it.")
    ['Book a flight to Oslo', 'find a hotel near the station', 'tell Ann about it']
    >>> errands("Book a flight to Oslo, please")
    []
    """
    parts = [part for part in clauses(question) if len(part.split()) >= _FEWEST_WORDS]
    return parts[:_MAX_ERRANDS] if len(parts) >= _MIN_ERRANDS else []


@dataclass(frozen=True, slots=True)
class DocumentText:
    """Writes a tool as `namespace name: description`, with its parameters and questions that it answers.

    What stands behind the description keeps its place, up to half of the text, when that is long.
    """

    limit: int = 1_500
    """How many characters the text has at most."""
    parameters: bool = True
    """Whether the names of the parameters are included."""
    examples: int = 3
    """How many questions that the tool answers are included."""

    @property
    def key(self) -> str:
        """What vectors of such texts are kept under: another key, another text."""
        return f"text-3-{self.limit}-{int(self.parameters)}-{self.examples}"

    def __call__(self, indexed: Indexed) -> str:
        """Return the text of a tool."""
        document = document_of(indexed.tool, indexed.examples)
        head = _split_names(f"{document.namespace or ''} {document.name}")
        tail = self._tail(document)
        text = f"{head}: {clean(document.description or document.summary, self.limit)}"
        room = max(self.limit - len(tail), self.limit // 2)
        return (text[:room].rstrip(": ") + tail)[: self.limit]

    def topics(self, indexed: Indexed) -> tuple[str, float]:
        """Return what a tool is filed under, and what its vector weighs beside that of the text.

        That is the words of tags, category and modes which the text does not have. They name a field of work
        rather than an action, and many tools share them: the more the description says, the less they weigh.
        """
        tool = indexed.tool
        if not (tool.tags or tool.meta or tool.model_extra):
            return "", 0.0
        document = document_of(tool)
        described = {word.lower() for word in _PARTS.findall(document.description)}
        known = described | {word.lower() for word in split_identifier(document.name)}
        filed = (*document.tags, document.category or "", *document.modes)
        words = dict.fromkeys(word.lower() for topic in filed for word in _PARTS.findall(topic))
        weight = _TOPICS / max(len(described - STOP_WORDS), 1) ** 4
        return " ".join(word for word in words if word not in known), weight

    def _tail(self, document: Document) -> str:
        """Return the rest of a tool's text: each part after a full stop."""
        parts = [document.summary if document.description else ""]
        if self.parameters and document.parameters:
            names = ", ".join(_split_names(clean(name, 100)) for name in document.parameters)
            parts.append(f"Parameters: {names}")
        parts += document.examples[: self.examples]
        return "".join(f". {text}" for part in parts if (text := clean(part, self.limit)))


document_text = DocumentText()
"""The text of a tool that embedders get by default."""


def _split_names(identifiers: str) -> str:
    """Return identifiers as words.

    A name that has none is left as it is.
    """
    return " ".join(" ".join(split_identifier(name)) or name for name in identifiers.split())
