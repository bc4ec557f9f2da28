"""Topics of tools and whether they are deprecated, for search by meaning.

A vector of a long description hardly changes with a tag, and raising the tag's weight for all questions makes
search worse. So the cosine of a tool is raised for the questions that name a topic of it, and lowered for all
questions where the tool is deprecated.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from toolcrib.discovery.protocols import Derived, Indexed
from toolcrib.discovery.search.text.topics import DEPRECATED, content_weights, marks_of, named_topics
from toolcrib.errors import StoreError

_KIND = "marks/2"
"""The number goes up when marks are made differently, so that none made the old way is used."""
_BATCH = 5_000
_LIFT = 0.6
"""How far a topic that is all of a question brings a cosine towards 1."""
_LOWERED = 0.15
"""How much lower the cosine of a deprecated tool is."""
_LOG = logging.getLogger("toolcrib.discovery")


def adjust_cosine(cosine: float, *, share: float, deprecated: bool) -> float:
    """Return the cosine of a tool, raised for the share of the question that names its topics.

    >>> adjust_cosine(0.0, share=1.0, deprecated=False), adjust_cosine(0.5, share=0.0, deprecated=True)
    (0.6, 0.35)
    """
    raised = cosine + _LIFT * share * (1 - cosine)
    return max(raised - _LOWERED, -1.0) if deprecated else raised


@dataclass(frozen=True, slots=True)
class Marked:
    """The tools whose cosines to a question are adjusted."""

    groups: Mapping[float, AbstractSet[str]]
    """The ids of tools with topics that the question names, by the share of it which does."""
    deprecated: AbstractSet[str]

    def adjust(self, tool_id: str, cosine: float) -> float:
        """Return the cosine of a tool as it counts."""
        share = max((share for share, ids in self.groups.items() if tool_id in ids), default=0.0)
        return adjust_cosine(cosine, share=share, deprecated=tool_id in self.deprecated)


class MarkIndex:
    """Tools by their topics; an update is only noted, and read when a question comes.

    Every method may be called from any thread.
    """

    def __init__(self, cache: Derived | None) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._noted: dict[str, Indexed | None] = {}
        self._ids: dict[str, set[str]] = {}
        """The tools that have each mark."""
        self._marks: dict[str, tuple[str, ...]] = {}
        """The marks of each tool that has any."""

    def note(self, added: Sequence[Indexed], removed: Sequence[str]) -> None:
        """Remember that tools have changed; one that is both removed and added is added."""
        with self._lock:
            self._noted |= dict.fromkeys(removed)
            self._noted |= {entry.id: entry for entry in added}

    def marked(self, question: str) -> Marked:
        """Return the tools that have topics which a question names, and those that are deprecated."""
        with self._lock:
            self._settle()
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
            # A question of words that say nothing is its topics.
            share = sum(weights.get(stem, 0.0) for stem in stems) / whole if whole else 1.0
            shares[share] = shares.get(share, frozenset()) | members
        return Marked({share: ids for share, ids in shares.items() if ids and share}, deprecated)

    def settle(self) -> None:
        """Read what was noted."""
        with self._lock:
            self._settle()

    def _settle(self) -> None:
        for tool_id in self._noted:
            for mark in self._marks.pop(tool_id, ()):
                self._ids[mark].discard(tool_id)
                if not self._ids[mark]:
                    del self._ids[mark]
        entries = [entry for entry in self._noted.values() if entry is not None]
        for start in range(0, len(entries), _BATCH):
            self._read_marks(entries[start : start + _BATCH])
        self._noted = {}

    def _read_marks(self, entries: Sequence[Indexed]) -> None:
        kept = self._cache.derived(_KIND, [entry.content_hash for entry in entries]) if self._cache else {}
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
                self._cache.save_derived(_KIND, made)
            except StoreError as error:  # they are in memory, and will be made again after a restart
                _LOG.warning("topics of tools are not kept: %s", error)
