"""Enrichments: texts of a language model by which tools are found, that is when to use them, tags, questions.

It is kept by the id of the tool with the digest of the definition that it was written for, so that it is used
until the definition changes.
"""

from threading import Lock
from typing import Annotated

from pydantic import Field

from toolcrib.discovery.index.entry import definition_digest
from toolcrib.discovery.kept import TextCollection, Texts
from toolcrib.discovery.keys import key_of
from toolcrib.model import Tool
from toolcrib.model.record import Record
from toolcrib.model.shape import ShapedTool

COLLECTION = "enriched"
"""The collection of texts in the store."""
MAX_WRITTEN_QUESTIONS = 10
"""The maximum number of example questions of a tool."""
MAX_WRITTEN_TAGS = 8
"""The maximum number of tags of a tool."""


class Enrichment(Record):
    """The texts of a language model about one tool."""

    tool_id: str
    """The id of the tool."""
    digest: str
    """The digest of the definition that it was written for."""
    when_to_use: str = ""
    """When to use the tool, in a sentence; empty if what the model wrote could not be used."""
    tags: Annotated[tuple[str, ...], Field(max_length=MAX_WRITTEN_TAGS)] = ()
    """Topics of the tool."""
    questions: Annotated[tuple[str, ...], Field(max_length=MAX_WRITTEN_QUESTIONS)] = ()
    """Questions that the tool answers, and no other tool of its server better."""
    model: str = ""
    """The name of the model."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts by which searches find the tool, as example questions."""
        return tuple(filter(None, (*self.questions, self.when_to_use, " ".join(self.tags))))


class Enrichments:
    """Enrichments by tool, kept in a storage; every method may be called from any thread."""

    def __init__(self, texts: Texts | None = None) -> None:
        """Open those in a storage; None for the memory alone.

        Raises:
            StoreError: one cannot be read.
        """
        self._texts = TextCollection(texts, COLLECTION)
        self._lock = Lock()
        self._kept = self._texts.load(Enrichment.from_json)

    def find(self, tool: Tool) -> Enrichment | None:
        """Return what was written about a tool as it is defined now; None if nothing was."""
        own = tool.origin if isinstance(tool, ShapedTool) else tool
        found = self._kept.get(key_of(own.id))
        return found if found is not None and found.digest == definition_digest(own) else None

    def __contains__(self, tool_id: object) -> bool:
        """Return whether something was written about a tool, as it is defined now or was before."""
        return tool_id in self._kept

    def save(self, enrichment: Enrichment) -> None:
        """Store what was written about a tool, in place of anything before."""
        with self._lock:
            self._texts.put(enrichment.tool_id, enrichment.to_json())
            self._kept[enrichment.tool_id] = enrichment

    def forget(self, tool_id: str) -> bool:
        """Delete what was written about a tool; return whether there was anything."""
        with self._lock:
            if tool_id not in self._kept:
                return False
            self._texts.delete(tool_id)
            del self._kept[tool_id]
        return True

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the tools about which something was written."""
        return tuple(sorted(self._kept))
