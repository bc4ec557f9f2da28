"""The catalogue of tools: what there is, which is meant, and which fits a question."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import urandom
from threading import Lock
from typing import Any, TypeVar, Unpack

from toolcrib.discovery.index.arguments import (
    check_asked,
    check_count,
    check_parts,
    check_texts,
    compile_schemas,
    pairs,
    read_pair,
)
from toolcrib.discovery.index.batch import Batch
from toolcrib.discovery.index.catalogue import Catalogue
from toolcrib.discovery.index.changes import Change, Listeners
from toolcrib.discovery.index.cursor import Listing
from toolcrib.discovery.index.entry import Entry, readable
from toolcrib.discovery.index.filters import Filter, FilterOptions, filter_text, read_filter
from toolcrib.discovery.index.finding import Asked, Search
from toolcrib.discovery.index.references import latest, not_found, versions_of
from toolcrib.discovery.keys import key_of
from toolcrib.discovery.lexical import Bm25Searcher
from toolcrib.discovery.protocols import Searcher
from toolcrib.discovery.records import Page, Result, Summary
from toolcrib.discovery.store import Store
from toolcrib.errors import InvalidToolIdError, StoreError, ToolcribError
from toolcrib.model import DefaultValidator, LocalTool, SchemaValidator, Tool, ToolBackend, ToolId

__all__ = ["Index"]

_MAX_NAMED = 10
"""How many refused tools a note names."""
_NOTHING: frozenset[str] = frozenset()
"""A condition that no tool meets."""
Item = TypeVar("Item", Result, Summary)


class Index:
    """Tools by id, version and question; in memory, or kept in a store.

    Every method may be called from any thread. A change is seen wholly or not at all, and costs what the
    changed tools cost, however many others there are.

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
        """Open the catalogue of a store, or an empty one; the default searcher ranks by words.

        Raises:
            StoreError: the store cannot be read.
        """
        check_parts(searcher, store)
        self._searcher: Searcher = Bm25Searcher(cache=store) if searcher is None else searcher
        self._store = store
        self._validator: SchemaValidator = DefaultValidator() if validator is None else validator
        self._catalogue = Catalogue()
        self._listeners = Listeners()
        self._usage: Counter[str] = Counter()
        self._version = 0
        self._key = urandom(16)
        self._writing = Lock()
        self._lock = Lock()
        if store is not None:
            self._open(store)

    def _open(self, store: Store) -> None:
        """Take over what a store keeps; what cannot be read is logged and left out, until it is replaced."""
        entries = list(readable(store.tools()))
        try:
            self._searcher.update(entries, ())
        except StoreError:  # a definition that had to be read could not be
            entries = list(readable(store.tools(), parsed=True))
            self._searcher.update(entries, ())
        self._catalogue.replace(entries)
        self._usage.update(store.usage())

    def __len__(self) -> int:
        with self._lock:
            return len(self._catalogue)

    def __contains__(self, tool_id: str | ToolId) -> bool:
        try:
            wanted = key_of(tool_id)
        except InvalidToolIdError:
            return False
        with self._lock:
            return wanted in self._catalogue

    @property
    def store(self) -> Store | None:
        """Where the catalogue is kept."""
        return self._store

    @property
    def version(self) -> int:
        """A number that goes up with every change."""
        return self._version

    def register(self, tool: Tool | LocalTool[..., Any], backend: ToolBackend | None = None) -> None:
        """Add a tool, or what is different about one that is there: its definition, or one more backend.

        Raises:
            InvalidSchemaError: a schema of the tool cannot be used.
            InvalidBackendError: that is not a backend.
        """
        self.register_many([(tool, backend)])

    def register_many(self, tools: Iterable[tuple[Tool | LocalTool[..., Any], ToolBackend | None]]) -> None:
        """Add many tools: all of them, or, where one is refused, none.

        Raises:
            ToolcribError: the first refusal, with a note that names the others.
            ValidationError: they are not pairs.
        """
        checked = self._checked(tools)

        def change(batch: Batch) -> None:
            for tool, backend in checked:
                batch.register(tool, backend)

        self._change(change)

    def unregister(self, tool_id: str | ToolId, backend: ToolBackend | None = None) -> None:
        """Remove a tool, or one of its backends; a tool that loses its last backend goes with it.

        Raises:
            ToolNotFoundError: there is no such tool.
            InvalidBackendError: it does not run there.
        """
        self._change(lambda batch: batch.unregister(key_of(tool_id), backend))

    def set_examples(self, tool_id: str | ToolId, questions: Sequence[str]) -> None:
        """Replace the questions that a tool is known to answer; they are searched like its description.

        Raises:
            ToolNotFoundError: there is no such tool.
            ValidationError: they are not texts.
        """
        texts = check_texts(questions)
        self._change(lambda batch: batch.set_examples(key_of(tool_id), texts))

    def get(self, tool_id: str | ToolId) -> Tool:
        """Return the tool with exactly this id.

        Raises:
            ToolNotFoundError: with the nearest ids.
        """
        return self._entry(key_of(tool_id)).tool

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool that a reference means.

        A reference is an exact id, `namespace:name` for the highest stable version, or `namespace:name:^1.2`
        for the highest that the constraint admits.

        Raises:
            ToolNotFoundError: with the nearest ids.
        """
        with self._lock:
            (found,) = self._catalogue.entries([latest(self._catalogue, ref)])
        return found.tool

    def versions(self, tool_id: str | ToolId) -> tuple[str, ...]:
        """Return the ids of all versions of a tool that there are, the lowest first."""
        with self._lock:
            return versions_of(self._catalogue, tool_id)

    def backends(self, tool_id: str | ToolId) -> tuple[ToolBackend, ...]:
        """Return where a tool can run, in the order it was registered."""
        return self._entry(key_of(tool_id)).backends

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces in order; an empty one stands for the tools without."""
        with self._lock:
            return tuple(self._catalogue.namespaces())

    def tools(
        self, *, limit: int = 100, cursor: str | None = None, **filters: Unpack[FilterOptions]
    ) -> Page[Summary]:
        """Return the tools in the order of their ids, a page at a time.

        Raises:
            InvalidCursorError: the cursor is not one of this list as it is.
            ValidationError: the limit or a filter is none.
        """
        count = check_asked(limit=limit)
        conditions = read_filter(filters)
        return self._listed(f"tools {filter_text(conditions)}", conditions, count, cursor)

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        cursor: str | None = None,
        min_confidence: float = 0.0,
        **filters: Unpack[FilterOptions],
    ) -> Page[Result]:
        """Return the tools that fit a question, best first, a page at a time; a blank one lists them all.

        A tool that the question calls by its id, name or alias comes before all others.

        Raises:
            InvalidCursorError: the cursor is not one of this question to this catalogue as it is.
            ValidationError: the query, the limit, the confidence or a filter is none.
        """
        count = check_asked(limit=limit, query=query, min_confidence=min_confidence)
        asked = Asked(query, read_filter(filters), float(min_confidence))
        if not query.strip():
            return self._unranked(asked, count, cursor)
        page, is_whole = self._ranked(asked, count, cursor)
        if not is_whole:
            with self._writing:  # so that nothing changes while it is asked again
                page, _ = self._ranked(asked, count, cursor)
        return page

    def on_change(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Call back after every change; returns what stops that.

        Changes are told one by one, in the order of their versions, by the thread that made them, before its
        call returns; those made meanwhile, by callbacks or by other threads, are told after them.

        Raises:
            ValidationError: it cannot be called.
        """
        return self._listeners.add(callback)

    def count_use(self, tool_id: str | ToolId, times: int = 1) -> None:
        """Note that a tool was used; where there is a store, the count outlives the process.

        Raises:
            ToolNotFoundError: there is no such tool.
            ValidationError: that is no number of times.
        """
        count = check_count(times)
        used = self._entry(key_of(tool_id)).id
        if self._store is not None:
            self._store.count_usage({used: count})
        with self._lock:
            self._usage[used] += count

    def usage(self) -> dict[str, int]:
        """Return how often each tool was used."""
        with self._lock:
            return dict(self._usage)

    def prune(self) -> int:
        """Forget what was derived from definitions that are here no more, and return how much that was."""
        with self._writing:
            if self._store is None:
                return 0
            return self._store.prune_derived(self._catalogue.hashes())

    def _checked(self, tools: Iterable[tuple[Any, Any]]) -> list[tuple[Tool, ToolBackend | None]]:
        """Return tools that may all be registered."""
        checked: list[tuple[Tool, ToolBackend | None]] = []
        refused: list[tuple[str, ToolcribError]] = []
        for place, (tool, backend) in enumerate(pairs(tools)):
            try:
                record, bound = read_pair(tool, backend)
                compile_schemas(self._validator, record)
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

    def _change(self, change: Callable[[Batch], None]) -> None:
        """Change the store, the searcher and the catalogue, in this order, and tell the listeners."""
        with self._writing:
            batch = Batch(self._catalogue)
            change(batch)
            if not batch.changes:
                return
            entries, dropped = list(batch.put.values()), list(batch.dropped)
            with self._kept(entries, dropped):
                self._searcher.update(entries, dropped)
            with self._lock:
                self._catalogue.replace(entries, dropped)
                self._version += 1
                self._listeners.note(batch.changes_at(self._version))
        self._listeners.tell()

    @contextmanager
    def _kept(self, put: Sequence[Entry], drop: Sequence[str]) -> Iterator[None]:
        """Write a change to the store, and take it back where what follows fails."""
        if self._store is None:
            yield
            return
        known = self._catalogue.entries([*(entry.id for entry in put), *drop])
        self._store.write([entry.row() for entry in put], drop)
        done = False
        try:
            yield
            done = True
        finally:
            if not done:
                self._store.write([entry.row() for entry in known], [entry.id for entry in put])

    def _entry(self, tool_id: str) -> Entry:
        with self._lock:
            found = self._catalogue.get(tool_id)
            if found is None:
                raise not_found(self._catalogue, tool_id)
            return found

    def _listed(self, text: str, conditions: Filter, count: int, cursor: str | None) -> Page[Summary]:
        """Return a page of the tools that pass a filter, in order."""
        with self._lock:
            listing = Listing(text, self._version, self._key)
            start = listing.offset(cursor)
            listed = self._catalogue.listed(conditions)
            entries = self._catalogue.entries(listed[start : start + count])
            total = len(listed)
        return _page(tuple(entry.summary for entry in entries), listing, start + len(entries), total)

    def _unranked(self, asked: Asked, count: int, cursor: str | None) -> Page[Result]:
        """Return what a question that asks nothing is answered with: everything, with no confidence in it."""
        conditions = (_NOTHING,) if asked.min_confidence > 0 else asked.conditions
        page = self._listed(asked.text, conditions, count, cursor)
        results = tuple(self._result(summary, 0.0, 0.0) for summary in page.items)
        return Page.of_checked(items=results, next_cursor=page.next_cursor, total=page.total)

    def _ranked(self, asked: Asked, count: int, cursor: str | None) -> tuple[Page[Result], bool]:
        """Return a page of what fits a question, and whether nothing changed while it was gathered."""
        with self._lock:
            listing = Listing(asked.text, self._version, self._key)
            start = listing.offset(cursor)
            among = self._catalogue.selected(asked.conditions)
            named = self._catalogue.names.named_in(asked.query)
        search = Search(self._searcher, asked.query, named, among)
        ranking = search.find(start + count, asked.min_confidence)
        with self._lock:
            found = [(self._catalogue.get(hit.id), hit) for hit in ranking[start:]]
            is_whole = self._version == listing.version and all(entry for entry, _ in found)
        results = tuple(
            self._result(entry.summary, hit.score, hit.confidence) for entry, hit in found if entry
        )
        return _page(results, listing, start + len(found), ranking.total), is_whole

    def _result(self, summary: Summary, score: float, confidence: float) -> Result:
        return Result.of_checked(
            summary=summary, score=score, score_type=self._searcher.score_type, confidence=confidence
        )


def _page(items: tuple[Item, ...], listing: Listing, end: int, total: int) -> Page[Item]:
    following = listing.cursor(end) if items and end < total else None
    return Page.of_checked(items=items, next_cursor=following, total=total)
