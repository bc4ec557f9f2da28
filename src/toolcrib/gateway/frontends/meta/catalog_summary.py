"""A summary of the catalogue: how many tools of which namespaces, and what they may do."""

from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

from toolcrib.discovery import Change, Index, IndexView
from toolcrib.discovery.keys import namespace_of
from toolcrib.errors import ToolNotFoundError
from toolcrib.execution.policy.rule import declares_destructive
from toolcrib.model import Tool

_MAX_TEXT = 600
_SAMPLED = 6
_MAX_SAMPLE = 70
_DESTRUCTIVE = {"destructiveHint": True}
_READ_ONLY = {"readOnlyHint": True}


class CatalogSnapshot(NamedTuple):
    """A summary of one version of the catalogue."""

    version: int
    counts: Mapping[str, int]
    """Number of tools of each namespace, the largest first; the empty one has the tools without."""
    read_only: bool
    """Whether there are tools, and each says that it changes nothing."""
    text: str
    """Description of the catalogue for a model; empty without tools."""


class CatalogSummary:
    """Looks at an index once per version of it, and counts only where it has changed.

    Whoever makes it passes the changes of the index on to `note`.
    """

    def __init__(self, index: Index | IndexView) -> None:
        self.index = index
        """The index that is summarized."""
        self._lock = Lock()
        self._seen: CatalogSnapshot | None = None
        self._counts: dict[str, tuple[int, int]] = {}
        """Number of tools of a namespace, with the version of the index."""
        self._destructive: tuple[int, tuple[Tool, ...]] | None = None

    def note(self, change: Change) -> None:
        """Forget what a change makes wrong; of many changes at once each namespace is looked at once."""
        name = namespace_of(change.tool_id)
        with self._lock:
            counted = self._counts.get(name)
            if counted is None or counted[1] < change.version:
                self._counts.pop(name, None)
                self._seen = None

    def snapshot(self) -> CatalogSnapshot:
        """Return what there is to see; the same object until something has changed."""
        seen = self._seen
        if seen is not None and seen.version == self.index.version:
            return seen
        with self._lock:
            self._seen = seen = self._look()
        return seen

    def counts(self) -> Mapping[str, int]:
        """Return how many tools each namespace has, the largest first."""
        return self.snapshot().counts

    def destructive(self) -> tuple[Tool, ...]:
        """Return the tools that say that they may destroy something."""
        version = self.index.version
        if self._destructive is None or self._destructive[0] != version:
            self._destructive = version, self._found()
        return self._destructive[1]

    def _look(self) -> CatalogSnapshot:
        version, total = self.index.version, len(self.index)
        known = self._counts
        self._counts = {
            name: known.get(name) or (self.index.tools(namespace=name, limit=1).total, version)
            for name in self.index.namespaces()
        }
        counts = ((name, count) for name, (count, _) in self._counts.items())
        largest = dict(sorted(counts, key=lambda item: (-item[1], item[0])))
        reading = self.index.tools(annotations=_READ_ONLY, limit=1).total
        return CatalogSnapshot(version, largest, bool(total) and reading == total, self._text(largest, total))

    def _text(self, counts: Mapping[str, int], total: int) -> str:
        if not total:
            return ""
        named = [name for name in counts if name]
        begin = f"The catalogue has {_tools(total)}"
        text = f"{begin} in {len(named)} namespace{'s' if len(named) > 1 else ''}" if named else begin
        listed = _join([f"{name} ({counts[name]})" for name in named], _MAX_TEXT // 2)
        samples = [sample for name in [*counts][:_SAMPLED] if (sample := self._sample(name))]
        text = f"{text}: {listed}" if listed else text
        shown = _join(samples, _MAX_TEXT - len(text) - 20, sign="; ", more="")
        return f"{text}. For example: {shown}." if shown else f"{text}."

    def _sample(self, namespace: str) -> str:
        """Return what one of the tools of a namespace is for."""
        first = self.index.tools(namespace=namespace, limit=1).items
        text = " ".join(first[0].short_description.split()) if first else ""
        sentence = text.partition(". ")[0].rstrip(".…")
        return sentence if len(sentence) <= _MAX_SAMPLE else f"{sentence[: _MAX_SAMPLE - 1].rstrip()}…"

    def _found(self) -> tuple[Tool, ...]:
        found = []
        for summary in self.index.list_all(annotations=_DESTRUCTIVE):
            try:
                tool = self.index.get(summary.id)
            except ToolNotFoundError:  # it has gone meanwhile
                continue
            if declares_destructive(tool.annotations):
                found.append(tool)
        return tuple(found)


def _tools(count: int) -> str:
    return f"{count:,} tool{'s' if count != 1 else ''}"


def _join(parts: list[str], room: int, *, sign: str = ", ", more: str = ", …") -> str:
    """Return as many parts as there is room for.

    >>> _join(["github (43)", "files (14)"], 15)
    'github (43), …'
    """
    joined = ""
    for part in parts:
        longer = f"{joined}{sign}{part}" if joined else part
        if len(longer) + len(more) > room:
            return f"{joined}{more}" if joined else ""
        joined = longer
    return joined
