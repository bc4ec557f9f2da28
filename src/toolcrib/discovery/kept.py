"""Records that outlive the process: each is one JSON text in a collection of texts."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from toolcrib.errors import InvalidToolError, StoreError

T = TypeVar("T")


@runtime_checkable
class Texts(Protocol):
    """Keeps texts by collection and key; a `Store` does.

    A write is kept whole when the method returns and not at all when it raises. Both methods may be called
    from any thread.
    """

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the keys and texts of a collection; one that nothing was written to is empty."""
        ...

    def write_texts(self, collection: str, put: Mapping[str, str], delete: Iterable[str]) -> None:
        """Keep texts, in place of those with the same keys, and forget the deleted ones."""
        ...


class TextCollection:
    """One collection of texts, or a place that keeps nothing where there are none."""

    def __init__(self, texts: Texts | None, collection: str) -> None:
        self._texts = texts
        self._collection = collection

    def load(self, read: Callable[[str], T]) -> dict[str, T]:
        """Return what was kept, by key.

        Raises:
            StoreError: a text is not what was once written.
        """
        kept = self._texts.texts(self._collection) if self._texts else ()
        return {key: self._parse(key, text, read) for key, text in kept}

    def _parse(self, key: str, text: str, read: Callable[[str], T]) -> T:
        try:
            return read(text)
        except InvalidToolError as error:
            raise StoreError(self._collection, f"what is kept for {key!r} cannot be read: {error}") from error

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Keep a JSON object under a key."""
        if self._texts:
            self._texts.write_texts(self._collection, {key: json.dumps(value)}, ())

    def delete(self, key: str) -> None:
        """Forget what is kept under a key."""
        if self._texts:
            self._texts.write_texts(self._collection, {}, (key,))
