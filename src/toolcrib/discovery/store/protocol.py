"""The `Store` protocol."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable


@dataclass(frozen=True, slots=True)
class StoredTool:
    """A row of the table of tools: texts that the store returns unchanged."""

    id: str
    """The id of the tool."""
    definition: str
    """The definition, as the text of a JSON object."""
    backends: str
    """The backends, as the text of a JSON array."""
    facets: str
    """The facets for filters, as the text of a JSON array, so that filters need not parse the definition."""
    examples: str
    """Example questions, as the text of a JSON array."""
    content_hash: str
    """The digest of the content, under which derived values are stored."""


@runtime_checkable
class Store(Protocol):
    """Storage of tools, texts, values derived from tools, and usage counts.

    Every method may be called from any thread at any time. A write is one atomic batch: stored completely
    when the method returns, not at all when it raises, and readers see all of it or nothing. An iterable is
    read completely before anything is written. Within a batch, an id that is both deleted and put is put,
    and the last of several values for one id counts. Deleting an unknown id is not an error.

    An iterator yields the store as it was when the method was called, sorted by the code points of the ids.
    It neither waits for writers nor blocks them, however long it is held.

    Ids, hashes, kinds and texts can be any string without NUL characters or lone surrogates. JSON is such a
    string if it was written with `ensure_ascii`, the default of `json.dumps`.

    Every failure is a `StoreError`: a value that cannot be stored, a full disk, a closed store. An iterator
    raises it too if the store is closed before its end.
    """

    def tools(self) -> Iterator[StoredTool]:
        """Return the tools, sorted by id."""
        ...

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        """Put tools, replacing those with the same ids, and delete others.

        Texts, derived values and counts are not touched, in case the tool is registered again.
        """
        ...

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection, sorted by id; an unknown collection is empty."""
        ...

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Put texts in a collection, replacing those with the same ids, and delete others."""
        ...

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return the derived values of a kind by content hash; unknown hashes are left out."""
        ...

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Save derived values of a kind by content hash."""
        ...

    def prune_derived(self, keep: Collection[str], *, kinds: Collection[str] | None = None) -> int:
        """Delete the values of all other content hashes, and of all other kinds if kinds are given.

        Returns:
            The number of deleted values.
        """
        ...

    def usage(self) -> dict[str, int]:
        """Return the number of uses of each tool, by tool id."""
        ...

    def count_usage(self, counts: Mapping[str, int]) -> None:
        """Add to the usage counts; each count is from 0 to 2,147,483,647."""
        ...

    def close(self) -> None:
        """Release the resources of the store; a second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...
