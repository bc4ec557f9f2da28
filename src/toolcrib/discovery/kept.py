"""Persistent JSON records, each a text under a key in a named collection."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from toolcrib.errors import InvalidToolError, StoreError

T = TypeVar("T")


@runtime_checkable
class Texts(Protocol):
    """Storage of texts by collection and key; a `Store` has it.

    A write is complete when the method returns, and has no effect when it raises. Both methods may be called
    from any thread.
    """

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the keys and texts of a collection; an unknown collection is empty."""
        ...

    def write_texts(self, collection: str, put: Mapping[str, str], delete: Iterable[str]) -> None:
        """Write texts, replacing those with the same keys, and delete the keys in `delete`."""
        ...


class TextCollection:
    """One collection of JSON texts; without a storage it stores nothing and loads nothing."""

    def __init__(self, texts: Texts | None, collection: str) -> None:
        self._texts = texts
        self._collection = collection

    def load(self, read: Callable[[str], T]) -> dict[str, T]:
        """Return the stored records by key, each parsed by `read`.

        Raises:
            StoreError: a text cannot be parsed.
        """
        kept = self._texts.texts(self._collection) if self._texts else ()
        return {key: self._parse(key, text, read) for key, text in kept}

    def _parse(self, key: str, text: str, read: Callable[[str], T]) -> T:
        try:
            return read(text)
        except InvalidToolError as error:
            raise StoreError(self._collection, f"the record of {key!r} cannot be read: {error}") from error

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Store a JSON object under a key."""
        self.write({key: value})

    def delete(self, key: str) -> None:
        """Delete the record of a key."""
        self.write({}, (key,))

    def write(self, put: Mapping[str, dict[str, Any]], delete: Collection[str] = ()) -> None:
        """Store JSON objects by key, and delete others, as one batch."""
        if self._texts and (put or delete):
            texts = {key: json.dumps(value) for key, value in put.items()}
            self._texts.write_texts(self._collection, texts, delete)
