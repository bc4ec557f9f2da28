"""Facade over the index of tools and their documentation."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, Unpack

from toolcrib.discovery.docs import DetailLevel, DetailName, DocEntry, DocStore
from toolcrib.discovery.enriched import Enrichment, Enrichments
from toolcrib.discovery.index import Change, FilterOptions, Index
from toolcrib.discovery.index.arguments import AnyTool, read_pair, read_pairs
from toolcrib.discovery.keys import is_exact, key_of
from toolcrib.discovery.protocols import Searcher
from toolcrib.discovery.records import Page, Result, Summary
from toolcrib.discovery.store import Store
from toolcrib.errors import Problem, ToolNotFoundError, ValidationError
from toolcrib.model import ToolBackend, ToolDoc, ToolExample, ToolId


class ListOptions(FilterOptions, total=False):
    """Filters and paging of a list."""

    limit: int
    cursor: str | None


class SearchOptions(ListOptions, total=False):
    """Filters, paging and the minimum confidence of a search, and whether its results are explained."""

    min_confidence: float
    explain: bool


class Discovery:
    """Registers tools with their documentation, finds them, and explains them.

    >>> from toolcrib import tool
    >>> @tool(namespace="shop")
    ... def order_total(prices: list[float]) -> float:
    ...     "Add up an order."
    ...     return sum(prices)
    >>> crib = Discovery()
    >>> crib.register(order_total, doc={"notes": "Prices are in euros."})
    >>> found = crib.search("sum of the bill")[0].id
    >>> crib.describe(found, "full").notes
    'Prices are in euros.'
    """

    def __init__(
        self,
        index: Index | None = None,
        docs: DocStore | None = None,
        *,
        searcher: Searcher | None = None,
        store: Store | None = None,
    ) -> None:
        """Combine an index and documentation; either one that is not given is created on the store.

        Raises:
            ValidationError: a searcher, or another store, is given for an index that has one already.
            StoreError: the store cannot be read.
        """
        if index is not None and searcher is not None:
            message = "must be given to the index, which has a searcher of its own"
            raise ValidationError((Problem("/searcher", "type", message),))
        if index is not None and store is not None and store is not index.store:
            message = (
                "must be given to the index too, or to it alone; what is written about tools goes with them"
            )
            raise ValidationError((Problem("/store", "type", message),))
        self._store = store
        self.index = Index(searcher, store=store) if index is None else index
        self.docs = DocStore(self.index, texts=self.index.store) if docs is None else docs
        self.enriched = Enrichments(self.index.store)
        """What a language model wrote about the tools."""

    def register(
        self,
        tool: AnyTool,
        backend: ToolBackend | None = None,
        doc: DocEntry | ToolDoc | Mapping[str, Any] | None = None,
    ) -> None:
        """Add a tool, its backend and its documentation; if one is invalid, nothing is added.

        A store that fails in between may keep the tool without its documentation; register it again then.

        Raises:
            InvalidSchemaError: a schema of the tool cannot be used.
            InvalidBackendError: `backend` is not a backend.
            InvalidToolError: `doc` is not valid documentation.
            ArgsTooLargeError: the arguments of an example are too large to show.
        """
        # The documentation is checked before the tool is added, so that bad documentation adds nothing.
        checked = None if doc is None else DocEntry.of(doc)
        self.index.register(tool, backend)
        if checked is None:
            self._search_known_examples(_id_of(tool))
        else:
            self.register_doc(_id_of(tool), checked)

    def register_many(
        self,
        tools: Iterable[tuple[AnyTool, ToolBackend | None]],
        *,
        remove: Iterable[tuple[str | ToolId, ToolBackend | None]] = (),
        write: bool = True,
    ) -> None:
        """Add many tools and remove others, as `Index.register_many` does."""
        listed = list(read_pairs(tools))
        self.index.register_many(listed, remove=remove, write=write)
        for tool, _ in listed:
            self._search_known_examples(_id_of(tool))

    def unregister(self, tool_id: str | ToolId, backend: ToolBackend | None = None) -> None:
        """Remove a tool, or one of its backends; its documentation is kept in case it is registered again."""
        self.index.unregister(tool_id, backend)

    def register_doc(
        self,
        tool_id: str | ToolId,
        doc: DocEntry | ToolDoc | Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Replace the documentation of a tool; searches find the tool by its examples too.

        An id without a version stands for all versions of the tool.
        """
        self.docs.register_doc(tool_id, doc, **fields)
        self._search_examples(tool_id)

    def register_examples(self, tool_id: str | ToolId, examples: Iterable[ToolExample]) -> None:
        """Replace the examples of a tool; searches find the tool by them too."""
        self.docs.register_examples(tool_id, examples)
        self._search_examples(tool_id)

    def enrich(self, enrichment: Enrichment) -> None:
        """Store what a language model wrote about a tool; searches find the tool by it too.

        Raises:
            ToolNotFoundError: there is no such tool.
            StoreError: it cannot be stored.
        """
        self.index.get(enrichment.tool_id)
        self.enriched.save(enrichment)
        self._search_examples(enrichment.tool_id)

    def forget_enrichment(self, tool_id: str | ToolId) -> bool:
        """Delete what a language model wrote about a tool; return whether there was anything."""
        key = key_of(tool_id)
        if not self.enriched.forget(key):
            return False
        if key in self.index:
            self._search_examples(key)
        return True

    def search(self, query: str, **options: Unpack[SearchOptions]) -> Page[Result]:
        """Return the tools that fit a question, as `Index.search` does."""
        return self.index.search(query, **options)

    def tools(self, **options: Unpack[ListOptions]) -> Page[Summary]:
        """Return the tools in the order of their ids, as `Index.tools` does."""
        return self.index.tools(**options)

    def describe(
        self, tool_id: str | ToolId, level: DetailLevel | DetailName = DetailLevel.SUMMARY
    ) -> ToolDoc:
        """Return the documentation of a tool at a level of detail."""
        return self.docs.describe(tool_id, level)

    def examples(self, tool_id: str | ToolId, max: int | None = None) -> tuple[ToolExample, ...]:  # noqa: A002 - the contract's word
        """Return the examples of a tool."""
        return self.docs.examples(tool_id, max)

    def on_change(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Call back after every change to the catalogue; return a function that unsubscribes."""
        return self.index.on_change(callback)

    def close(self) -> None:
        """Write pending changes, drop cached values that no tool needs, and close the store."""
        store, self._store = self._store, None
        try:
            self.docs.flush()
            if store is not None:
                self.index.prune()
        finally:
            if store is not None:
                store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _search_examples(self, tool_id: str | ToolId) -> None:
        """Make a tool searchable by its examples; an id without a version stands for all its versions."""
        asked = key_of(tool_id)
        for version in self.index.versions(asked):
            if version == asked or not is_exact(asked):
                self.index.set_examples(version, self._example_texts(version))

    def _search_known_examples(self, tool_id: ToolId) -> None:
        """Make a tool searchable by examples that were documented before the tool was registered."""
        examples = self._example_texts(tool_id)
        if examples or key_of(tool_id) in self.enriched:  # maybe of an earlier definition
            self.index.set_examples(tool_id, examples)

    def _example_texts(self, tool_id: str | ToolId) -> list[str]:
        try:
            examples = self.docs.examples(tool_id)
        except ToolNotFoundError:  # the documentation may know other tools than the index
            examples = ()
        told = [text for example in examples for text in (example.title, example.description) if text]
        if key_of(tool_id) not in self.enriched:
            return told
        written = self.enriched.find(self.index.get(tool_id))
        return told if written is None else [*told, *written.texts]


def _id_of(tool: AnyTool) -> ToolId:
    return read_pair(tool, None)[0].id
