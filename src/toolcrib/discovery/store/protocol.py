"""The store protocol: what is kept, and what is promised."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable


@dataclass(frozen=True, slots=True)
class StoredTool:
    """A tool as it is kept: texts that the store hands back as they came."""

    id: str
    """The id of the tool."""
    definition: str
    """The definition, as the text of a JSON object."""
    backends: str
    """Where the tool runs, as the text of a JSON array."""
    facets: str
    """What filters ask for, as the text of a JSON array, so that no definition need be parsed."""
    examples: str
    """Questions that the tool answers, as the text of a JSON array."""
    content_hash: str
    """The digest under which what is derived from the tool is kept."""


@runtime_checkable
class Store(Protocol):
    """Keeps tools, texts, what was derived from tools, and how often they were used.

    Every method may be called from any thread at any time. A write is one batch: all of it is kept when the
    method returns, none of it when the method raises, and a reader sees all of it or none. A batch is read
    to its end before anything is written; within it an id that is deleted and put is put, and of two values
    for one id the last counts. To delete what is not there is no error.

    An iterator gives the store as it was when the method was called, in the order of the ids' code points;
    it neither waits for a writer nor holds one up, for as long as it is kept.

    Ids, hashes, kinds and texts are any text without NUL characters and lone surrogates. JSON is such a text
    when it was written with `ensure_ascii`, as `json.dumps` does.

    Whatever goes wrong is a `StoreError`: a value that cannot be kept, a disk that is full, a store that is
    closed. An iterator that is not at its end when its store is closed raises it too.
    """

    def tools(self) -> Iterator[StoredTool]:
        """Return the tools, by id."""
        ...

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        """Keep tools, in place of those with the same ids, and forget the tools with the deleted ids.

        Texts, derived values and counts are not touched: a tool that comes back finds its own.
        """
        ...

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection, by id; one that nothing was written to is empty."""
        ...

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Keep texts in a collection, in place of those with the same ids, and forget the deleted ones."""
        ...

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return what was saved of a kind for these content hashes, by hash; what is unknown is left out."""
        ...

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Keep values of a kind by content hash."""
        ...

    def prune_derived(self, keep: Collection[str], *, kinds: Collection[str] | None = None) -> int:
        """Forget the values of all other content hashes, and of all other kinds where kinds are given.

        Returns:
            How many values were forgotten.
        """
        ...

    def usage(self) -> dict[str, int]:
        """Return how often each tool was used, by tool id."""
        ...

    def count_usage(self, counts: Mapping[str, int]) -> None:
        """Add to how often tools were used; each count is from 0 to 2,147,483,647."""
        ...

    def close(self) -> None:
        """Let go of what the store holds; a second time does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...
