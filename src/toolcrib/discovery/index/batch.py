"""Changes to the catalogue that happen together or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from toolcrib.discovery.index.catalogue import Catalogue
from toolcrib.discovery.index.changes import Change, ChangeKind
from toolcrib.discovery.index.entry import Entry, changed_fields
from toolcrib.discovery.index.references import not_found
from toolcrib.discovery.keys import key_of
from toolcrib.errors import InvalidBackendError
from toolcrib.model import Tool, ToolBackend

__all__ = ["Batch"]


@dataclass(slots=True)
class Batch:
    """What is about to change; the catalogue stays as it is until it is told to take the batch over."""

    catalogue: Catalogue
    put: dict[str, Entry] = field(default_factory=dict)
    dropped: dict[str, None] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def register(self, tool: Tool, backend: ToolBackend | None) -> None:
        """Add a tool, or what is different about one that is there."""
        tool_id = key_of(tool.id)
        known = self._current(tool_id)
        if known is None:
            self._put(Entry(tool, () if backend is None else (backend,), ()))
            self._note("registered", tool_id, backend)
            return
        fields = changed_fields(known, tool)
        added = () if backend is None or backend in known.backends else (backend,)
        if fields or added:
            self._put(Entry(tool if fields else known.tool, known.backends + added, known.examples))
        if fields:
            self._note("updated", tool_id, fields=fields)
        if added:
            self._note("backend_added", tool_id, backend)

    def unregister(self, tool_id: str, backend: ToolBackend | None) -> None:
        """Take away a backend, or the whole tool where none is given or none is left.

        Raises:
            ToolNotFoundError: there is no such tool.
            InvalidBackendError: it does not run there.
        """
        known = self._current(tool_id)
        if known is None:
            raise not_found(self.catalogue, tool_id)
        if backend is not None and backend not in known.backends:
            listed = ", ".join(map(repr, known.backends)) or "none"
            raise InvalidBackendError(f"{tool_id} does not run on {backend!r}; its backends: {listed}")
        left = tuple(one for one in known.backends if backend is not None and one != backend)
        if left:
            self._put(Entry(known.tool, left, known.examples))
            self._note("backend_removed", tool_id, backend)
        else:
            self.put.pop(tool_id, None)
            self.dropped[tool_id] = None
            self._note("removed", tool_id, backend)

    def set_examples(self, tool_id: str, examples: Sequence[str]) -> None:
        """Replace the questions that a tool is known to answer."""
        known = self._current(tool_id)
        if known is None:
            raise not_found(self.catalogue, tool_id)
        if known.examples != tuple(examples):
            self._put(Entry(known.tool, known.backends, examples))
            self._note("updated", tool_id, fields=("examples",))

    def changes_at(self, version: int) -> list[Change]:
        """Return what happened, as of a version of the index."""
        return [replace(change, version=version) for change in self.changes]

    def _current(self, tool_id: str) -> Entry | None:
        if tool_id in self.dropped:
            return None
        return self.put.get(tool_id) or self.catalogue.get(tool_id)

    def _put(self, entry: Entry) -> None:
        self.put[entry.id] = entry
        self.dropped.pop(entry.id, None)

    def _note(
        self,
        kind: ChangeKind,
        tool_id: str,
        backend: ToolBackend | None = None,
        fields: tuple[str, ...] = (),
    ) -> None:
        self.changes.append(Change(kind, tool_id, 0, backend, fields))
