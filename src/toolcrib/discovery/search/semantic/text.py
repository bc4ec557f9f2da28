"""The texts that are embedded for a tool and for a query."""

from dataclasses import dataclass
from typing import Any

from toolcrib.discovery.facts import examples_of
from toolcrib.discovery.protocols import Indexed
from toolcrib.discovery.search.text.clauses import clauses
from toolcrib.discovery.search.text.words import split_identifier
from toolcrib.model import Tool

__all__ = ["MAX_QUERY", "DocumentText", "clean", "document_text", "errands"]

MAX_QUERY = 8_000
"""How many characters of a question are embedded; no model reads as many."""
_MAX_PARAMETERS = 40
_FEWEST_ERRANDS, _MOST_ERRANDS = 3, 12
_FEWEST_WORDS = 3


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
    return parts[:_MOST_ERRANDS] if len(parts) >= _FEWEST_ERRANDS else []


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
        return f"text-2-{self.limit}-{int(self.parameters)}-{self.examples}"

    def __call__(self, indexed: Indexed) -> str:
        """Return the text of a tool."""
        tool = indexed.tool
        head = _spaced(f"{tool.namespace or ''} {tool.name}")
        tail = self._tail(tool, indexed)
        text = f"{head}: {clean(tool.description or tool.title or '', self.limit)}"
        room = max(self.limit - len(tail), self.limit // 2)
        return (text[:room].rstrip(": ") + tail)[: self.limit]

    def _tail(self, tool: Tool, indexed: Indexed) -> str:
        names = _parameters(tool.input_schema) if self.parameters else []
        listed = ". Parameters: " + ", ".join(map(_spaced, names)) if names else ""
        asked = dict.fromkeys((*examples_of(tool), *indexed.examples))
        questions = [clean(question, self.limit) for question in list(asked)[: self.examples]]
        return "".join((listed, *(f". {question}" for question in questions if question)))


document_text = DocumentText()
"""The text of a tool that embedders get by default."""


def _parameters(schema: dict[str, Any]) -> list[str]:
    properties = schema.get("properties")
    return [clean(name, 100) for name in properties][:_MAX_PARAMETERS] if isinstance(properties, dict) else []


def _spaced(identifiers: str) -> str:
    """Return identifiers as words.

    A name that has none is left as it is.
    """
    return " ".join(" ".join(split_identifier(name)) or name for name in identifiers.split())
