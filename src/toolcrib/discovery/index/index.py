"""The index: registration of tools, persistence, and change notifications."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from os import urandom
from pathlib import Path
from typing import Any

from toolcrib.discovery.index.arguments import (
    AnyTool,
    check_count,
    check_parts,
    check_schemas,
    check_texts,
    read_pair,
    read_pairs,
)
from toolcrib.discovery.index.catalogue import EntryTable
from toolcrib.discovery.index.changes import Change, ChangeKind, Listeners
from toolcrib.discovery.index.definitions import Definitions
from toolcrib.discovery.index.entry import Entry, changed_fields, read_stored_entries
from toolcrib.discovery.index.filters import Admission
from toolcrib.discovery.index.reading import IndexReader, SharedReads
from toolcrib.discovery.index.references import not_found_error
from toolcrib.discovery.index.scope import Scope
from toolcrib.discovery.index.view import IndexView
from toolcrib.discovery.keys import key_of
from toolcrib.discovery.protocols import Searcher
from toolcrib.discovery.search.hybrid import default_searcher
from toolcrib.discovery.search.snapshot import SNAPSHOT
from toolcrib.discovery.store import PostgresStore, Store, StoredTool
from toolcrib.errors import InvalidBackendError, StoreError, ToolcribError, ToolNotFoundError
from toolcrib.model import DefaultValidator, SchemaValidator, Tool, ToolBackend, ToolId

_MAX_NAMED = 10
"""The maximum number of refused tools that an error names."""


@dataclass(slots=True)
class Batch:
    """Changes that are collected before they are applied; reads see the catalogue as if they were."""

    catalogue: EntryTable
    put: dict[str, Entry] = field(default_factory=dict)
    dropped: dict[str, None] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def register(self, tool: Tool, backend: ToolBackend | None) -> None:
        """Add a tool, or update its definition and backends if it is known."""
        tool_id = key_of(tool.id)
        known = self._current(tool_id)
        if known is None:
            self._put(Entry.of(tool, () if backend is None else (backend,), ()))
            self._note("registered", tool_id, backend)
            return
        fields = changed_fields(known, tool)
        added = () if backend is None or backend in known.backends else (backend,)
        if fields or added:
            self._put(Entry.of(tool if fields else known.tool, known.backends + added, known.examples))
        if fields:
            self._note("updated", tool_id, fields=fields)
        if added:
            self._note("backend_added", tool_id, backend)

    def unregister(self, tool_id: str, backend: ToolBackend | None) -> None:
        """Remove a backend, or the whole tool if none is given or none is left.

        Raises:
            ToolNotFoundError: there is no such tool.
            InvalidBackendError: the tool does not have this backend.
        """
        known = self._current(tool_id)
        if known is None:
            raise not_found_error(self.catalogue, tool_id)
        if backend is not None and backend not in known.backends:
            listed = ", ".join(map(repr, known.backends)) or "none"
            raise InvalidBackendError(f"{tool_id} does not run on {backend!r}; its backends: {listed}")
        left = tuple(one for one in known.backends if backend is not None and one != backend)
        if left:
            self._put(Entry.of(known.tool, left, known.examples))
            self._note("backend_removed", tool_id, backend)
        else:
            self.put.pop(tool_id, None)
            self.dropped[tool_id] = None
            self._note("removed", tool_id, backend)

    def set_examples(self, tool_id: str, examples: Sequence[str]) -> None:
        """Replace the example questions of a tool."""
        known = self._current(tool_id)
        if known is None:
            raise not_found_error(self.catalogue, tool_id)
        if known.examples != tuple(examples):
            self._put(Entry.of(known.tool, known.backends, examples))
            self._note("updated", tool_id, fields=("examples",))

    def changes_at(self, version: int) -> list[Change]:
        """Return the changes, stamped with the version of the index that they lead to."""
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


class Index(IndexReader):
    """The catalogue of tools: register, resolve, list and search; in memory or persisted in a store.

    Every method may be called from any thread. A change becomes visible atomically, and its cost depends on
    the changed tools alone, however many others there are.

    >>> index = Index()
    >>> index.register(Tool(name="create_issue", namespace="github", input_schema={}))
    >>> [result.summary.id for result in index.search("make a ticket")]
    ['github:create_issue']
    """

    def __init__(
        self,
        searcher: Searcher | None = None,
        *,
        store: Store | None = None,
        validator: SchemaValidator | None = None,
    ) -> None:
        """Open the catalogue of a store, or an empty one.

        The default searcher ranks by words and by meaning with the built-in model.

        Raises:
            StoreError: the store cannot be read.
        """
        check_parts(searcher, store, validator)
        self._searcher: Searcher = default_searcher(store) if searcher is None else searcher
        self._catalogue = EntryTable()
        super().__init__(self._catalogue, SharedReads(self._searcher), urandom(16))
        self._store = store
        self._validator: SchemaValidator = DefaultValidator() if validator is None else validator
        self._listeners = Listeners()
        self._usage: Counter[str] = Counter()
        # Beside a store that is a file: the folder of temporary files may be in memory.
        folder = getattr(store, "path", None)
        self._definitions = Definitions(folder.parent if isinstance(folder, Path) else None)
        """The definitions of all tools, if there is a store; an index without one has them in memory."""
        if store is not None:
            self._open(store)

    def _open(self, store: Store) -> None:
        """Load the tools of a store; those that cannot be read are logged and left out until replaced."""
        entries = list(read_stored_entries(store.tools(), self._definitions))
        try:
            self._searcher.update(entries, ())
        except StoreError:
            # The searcher had to parse a damaged definition. Parsing all is slow, but finds all of these.
            self._definitions = self._definitions.empty_copy()
            entries = list(read_stored_entries(store.tools(), self._definitions, parsed=True))
            self._searcher.update(entries, ())
        self._catalogue.replace(entries)
        self._usage.update(store.usage())

    @property
    def store(self) -> Store | None:
        """The store of the catalogue; None if it is in memory only."""
        return self._store

    def register(self, tool: AnyTool, backend: ToolBackend | None = None) -> None:
        """Add a tool; if it is known, update its definition and add the backend.

        A pydantic model of another library, such as the MCP SDK's `Tool`, is read as `Tool.from_json` reads
        it.

        Raises:
            InvalidSchemaError: a schema of the tool cannot be used.
            InvalidBackendError: `backend` is not a backend.
        """
        self.register_many([(tool, backend)])

    def register_many(
        self,
        tools: Iterable[tuple[AnyTool, ToolBackend | None]],
        *,
        remove: Iterable[tuple[str | ToolId, ToolBackend | None]] = (),
        write: bool = True,
    ) -> None:
        """Add many tools and remove others, as one change: all of it, or, where a tool is refused, nothing.

        Removals are as in `unregister`, but the tools may be gone already. Without `write`, the store is not
        changed.

        Raises:
            ToolcribError: the error of the first invalid tool, with a note that names the others.
            ValidationError: `tools` is not a series of pairs.
        """
        checked, removed = self._check_tools(tools), [(key_of(one), backend) for one, backend in remove]

        def change(batch: Batch) -> None:
            for tool, backend in checked:
                batch.register(tool, backend)
            for tool_id, backend in removed:
                with suppress(ToolNotFoundError, InvalidBackendError):
                    batch.unregister(tool_id, backend)

        self._change(change, write=write)

    def adopt(self, put: Iterable[StoredTool], drop: Iterable[str] = ()) -> None:
        """Take over tools that another process has written to the store or deleted from it."""
        with self._shared.writing:
            changed: list[Entry] = []
            for entry in read_stored_entries(put, self._definitions, parsed=True):
                if entry.equals(self._catalogue.get(entry.id)):
                    entry.release()
                else:
                    changed.append(entry)
            dropped = [tool_id for tool_id in drop if self._catalogue.get(tool_id) is not None]
            if not changed and not dropped:
                return
            version = self._shared.version + 1
            changes = [
                Change(
                    "registered" if self._catalogue.get(entry.id) is None else "updated", entry.id, version
                )
                for entry in changed
            ]
            changes += [Change("removed", tool_id, version) for tool_id in dropped]
            self._searcher.update(changed, dropped)
            with self._shared.lock:
                self._replace_entries(changed, dropped)
                self._shared.version = version
                self._listeners.queue(changes)
        self._listeners.deliver_queued()

    def check(self, tool: AnyTool, backend: ToolBackend | None = None) -> None:
        """Raise the error of a tool that `register` would refuse; change nothing."""
        self._check_tools([(tool, backend)])

    def unregister(self, tool_id: str | ToolId, backend: ToolBackend | None = None) -> None:
        """Remove a tool, or one of its backends; a tool that loses its last backend is removed.

        Raises:
            ToolNotFoundError: there is no such tool.
            InvalidBackendError: the tool does not have this backend.
        """
        self._change(lambda batch: batch.unregister(key_of(tool_id), backend))

    def set_examples(self, tool_id: str | ToolId, questions: Sequence[str]) -> None:
        """Replace the example questions of a tool; they are searched like its description.

        Raises:
            ToolNotFoundError: there is no such tool.
            ValidationError: they are not strings.
        """
        texts = check_texts(questions)
        self._change(lambda batch: batch.set_examples(key_of(tool_id), texts))

    def view(self, scope: Scope, admission: Admission | None = None) -> IndexView:
        """Return a live view of the tools that a scope admits.

        An `admission` narrows it further by a condition of the program, such as the policy for one principal.
        """
        return IndexView(self._catalogue, self._shared, self._key, scope, self._listeners.add, admission)

    def on_change(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Call back after every change; return a function that unsubscribes.

        Changes are delivered one by one, in the order of their versions, by the thread that made them, before
        its call returns. Changes made during a delivery are delivered after it by the same thread.

        Raises:
            ValidationError: the callback is not callable.
        """
        return self._listeners.add(callback)

    def count_use(self, tool_id: str | ToolId, times: int = 1) -> None:
        """Count uses of a tool; with a store, the count is persistent.

        Raises:
            ToolNotFoundError: there is no such tool.
            ValidationError: `times` is not a whole number in range.
        """
        count = check_count(times)
        used = self._get_entry(key_of(tool_id)).id
        if self._store is not None:
            self._store.count_usage({used: count})
        with self._shared.lock:
            self._usage[used] += count

    def usage(self) -> dict[str, int]:
        """Return the number of uses of each tool."""
        with self._shared.lock:
            return dict(self._usage)

    def prune(self) -> int:
        """Delete cached values of definitions that are no longer in the index; return their number."""
        with self._shared.writing:
            if self._store is None:
                return 0
            shared = getattr(self._store, "shared", None)
            if isinstance(shared, PostgresStore):  # others have tools that this index has not
                return shared.prune_unused(SNAPSHOT)
            return self._store.prune_derived({SNAPSHOT, *self._catalogue.content_hashes()})

    def _check_tools(self, tools: Iterable[tuple[Any, Any]]) -> list[tuple[Tool, ToolBackend | None]]:
        """Return checked tools with their backends; raise if any one is invalid."""
        checked: list[tuple[Tool, ToolBackend | None]] = []
        refused: list[tuple[str, ToolcribError]] = []
        for place, (tool, backend) in enumerate(read_pairs(tools)):
            try:
                record, bound = read_pair(tool, backend)
                check_schemas(self._validator, record)
                checked.append((record, bound))
            except ToolcribError as error:
                refused.append((str(getattr(tool, "id", f"number {place}")), error))
        if refused:
            first = refused[0][1]
            if len(refused) > 1:
                others = ", ".join(name for name, _ in refused[1:_MAX_NAMED])
                first.add_note(
                    f"{len(refused)} of {place + 1} tools are refused, and none is registered; also {others}"
                )
            raise first
        return checked

    def _change(self, change: Callable[[Batch], None], *, write: bool = True) -> None:
        """Apply a change to the store, the searcher and the catalogue, and notify the listeners."""
        # The store comes first, because it may fail and can be undone; then the searcher, whose hits are
        # ignored until the catalogue has the tool. Listeners are called after the locks are released, since
        # they may call the index.
        with self._shared.writing:
            batch = Batch(self._catalogue)
            change(batch)
            if not batch.changes:
                return
            entries, dropped = list(batch.put.values()), list(batch.dropped)
            rows = [] if self._store is None else [entry.to_row() for entry in entries]
            with self._write_to_store(rows, dropped) if write else nullcontext():
                self._searcher.update(entries, dropped)
            if rows:
                places = self._definitions.append([row.definition for row in rows])
                entries = [
                    entry.moved_to(self._definitions, place)
                    for entry, place in zip(entries, places, strict=True)
                ]
            with self._shared.lock:
                self._replace_entries(entries, dropped)
                self._shared.version += 1
                self._listeners.queue(batch.changes_at(self._shared.version))
        self._listeners.deliver_queued()

    def _replace_entries(self, put: Sequence[Entry], drop: Sequence[str]) -> None:
        """Replace entries of the catalogue, and the file of definitions if it has grown too much."""
        for known in self._catalogue.entries([*(entry.id for entry in put), *drop]):
            known.release()
        self._catalogue.replace(put, drop)
        if self._definitions.is_wasteful:
            self._definitions = self._definitions.empty_copy()
            self._catalogue.move_definitions(self._definitions)

    @contextmanager
    def _write_to_store(self, put: Sequence[StoredTool], drop: Sequence[str]) -> Iterator[None]:
        """Write a change to the store, and undo it if the body fails."""
        if self._store is None:
            yield
            return
        known = self._catalogue.entries([*(row.id for row in put), *drop])
        self._store.write(put, drop)
        done = False
        try:
            yield
            done = True
        finally:
            if not done:
                self._store.write([entry.to_row() for entry in known], [row.id for row in put])
