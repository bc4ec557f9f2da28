"""Adjustment of cosines for topics that a question names, and for deprecated tools.

A tag hardly changes the vector of a long description, and a higher weight of tags for all questions makes
search worse. So the cosine of a tool is raised only for questions that name one of its topics. The cosine of
a deprecated tool is lowered for all questions.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from toolcrib.discovery.protocols import Derived, Indexed
from toolcrib.discovery.search.text.topics import DEPRECATED, content_weights, marks_of, named_topics
from toolcrib.errors import StoreError

# The number must be increased when `marks_of` changes, so that cached marks of the old kind are not used.
_CACHE_KIND = "marks/2"
_BATCH = 5_000
_TOPIC_LIFT = 0.6
"""The part of the distance to 1 by which a cosine rises, if the question consists of a topic of the tool."""
_DEPRECATED_PENALTY = 0.15
"""The amount by which the cosine of a deprecated tool is lowered."""
_LOG = logging.getLogger("toolcrib.discovery")


def adjust_cosine(cosine: float, *, share: float, deprecated: bool) -> float:
    """Return a cosine, raised by the share of the question that names topics, lowered if deprecated.

    >>> adjust_cosine(0.0, share=1.0, deprecated=False), adjust_cosine(0.5, share=0.0, deprecated=True)
    (0.6, 0.35)
    """
    raised = cosine + _TOPIC_LIFT * share * (1 - cosine)
    return max(raised - _DEPRECATED_PENALTY, -1.0) if deprecated else raised


@dataclass(frozen=True, slots=True)
class MarkedTools:
    """The tools whose cosines to a question are adjusted."""

    groups: Mapping[float, AbstractSet[str]]
    """The ids of tools with topics that the question names, by the share of the question that names them."""
    deprecated: AbstractSet[str]

    def adjust(self, tool_id: str, cosine: float) -> float:
        """Return the adjusted cosine of a tool."""
        share = max((share for share, ids in self.groups.items() if tool_id in ids), default=0.0)
        return adjust_cosine(cosine, share=share, deprecated=tool_id in self.deprecated)


class MarkIndex:
    """Tools by topic; updates are queued and applied before the next question.

    Every method may be called from any thread.
    """

    def __init__(self, cache: Derived | None) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._queued: dict[str, Indexed | None] = {}
        self._ids: dict[str, set[str]] = {}
        """The ids of the tools with each mark: a topic term, or `DEPRECATED`."""
        self._marks: dict[str, tuple[str, ...]] = {}
        """The marks of each tool that has any."""

    def queue(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Queue a change of tools; one that is both removed and added is added."""
        with self._lock:
            self._queued |= dict.fromkeys(removed)
            self._queued |= {entry.id: entry for entry in added}

    def find_marked(self, question: str) -> MarkedTools:
        """Return the tools with topics that a question names, and the deprecated ones."""
        with self._lock:
            self._apply_queued()
            stems_of: dict[str, frozenset[str]] = {}
            for topic, stems in named_topics(question, self._ids.__contains__).items():
                for tool_id in self._ids[topic]:
                    stems_of[tool_id] = stems_of.get(tool_id, frozenset()) | stems
            deprecated = frozenset(self._ids.get(DEPRECATED, ()))
        groups: dict[frozenset[str], set[str]] = {}
        for tool_id, stems in stems_of.items():
            groups.setdefault(stems, set()).add(tool_id)
        weights = content_weights(question)
        whole = sum(weights.values())
        shares: dict[float, AbstractSet[str]] = {}
        for stems, members in groups.items():
            # Without content words, the topics are the whole question.
            share = sum(weights.get(stem, 0.0) for stem in stems) / whole if whole else 1.0
            shares[share] = shares.get(share, frozenset()) | members
        return MarkedTools({share: ids for share, ids in shares.items() if ids and share}, deprecated)

    def apply_updates(self) -> None:
        """Apply the queued updates."""
        with self._lock:
            self._apply_queued()

    def _apply_queued(self) -> None:
        for tool_id in self._queued:
            for mark in self._marks.pop(tool_id, ()):
                self._ids[mark].discard(tool_id)
                if not self._ids[mark]:
                    del self._ids[mark]
        entries = [entry for entry in self._queued.values() if entry is not None]
        for start in range(0, len(entries), _BATCH):
            self._read_marks(entries[start : start + _BATCH])
        self._queued = {}

    def _read_marks(self, entries: Sequence[Indexed]) -> None:
        kept = (
            self._cache.derived(_CACHE_KIND, [entry.content_hash for entry in entries]) if self._cache else {}
        )
        made: dict[str, bytes] = {}
        for entry in entries:
            found = kept.get(entry.content_hash)
            if found is None:
                found = made[entry.content_hash] = "\n".join(marks_of(entry.tool)).encode()
            marks = tuple(found.decode(errors="replace").split("\n")) if found else ()
            if marks:
                self._marks[entry.id] = marks
            for mark in marks:
                self._ids.setdefault(mark, set()).add(entry.id)
        if self._cache and made:
            try:
                self._cache.save_derived(_CACHE_KIND, made)
            except StoreError as error:  # not fatal: they are in memory, and recomputed after a restart
                _LOG.warning("topics of tools are not kept: %s", error)
