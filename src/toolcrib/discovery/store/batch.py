"""Validation of batches before they are written to a store.

Iterables are read completely first, so that an error in the middle of one writes nothing, and texts are
limited to those that every database can store.
"""

from collections.abc import Iterable, Mapping

from toolcrib.discovery.store.protocol import StoredTool
from toolcrib.errors import StoreError
from toolcrib.errors.base import short_repr

MAX_COUNT = 2**31 - 1
"""The largest count that a store accepts at once."""


def check_tools(path: str, tools: Iterable[StoredTool]) -> dict[str, StoredTool]:
    """Check tools, and return them by id.

    Raises:
        StoreError: a text of a tool cannot be stored.
    """
    batch = {}
    for tool in tools:
        for text in (
            tool.id,
            tool.definition,
            tool.backends,
            tool.facets,
            tool.examples,
            tool.content_hash,
        ):
            _check(path, text)
        batch[tool.id] = tool
    return batch


def check_ids(path: str, ids: Iterable[str]) -> set[str]:
    """Check ids, hashes or kinds, and return them as a set.

    Raises:
        StoreError: one cannot be stored, or a single text was given instead of several.
    """
    if isinstance(ids, str):
        raise StoreError(path, f"{short_repr(ids)} is one string; give a list of strings")
    batch = set()
    for text in ids:
        _check(path, text)
        batch.add(text)
    return batch


def check_texts(path: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Check texts by id, and return a copy.

    Raises:
        StoreError: one cannot be stored.
    """
    batch = dict(texts)
    for name, text in batch.items():
        _check(path, name)
        _check(path, text)
    return batch


def check_values(path: str, values: Mapping[str, bytes]) -> dict[str, bytes]:
    """Check values by content hash, and return a copy.

    Raises:
        StoreError: a value is not bytes, or a hash cannot be stored.
    """
    batch = dict(values)
    for name, value in batch.items():
        _check(path, name)
        if not isinstance(value, bytes):
            raise StoreError(
                path, f"the value of {short_repr(name)} must be bytes, not {type(value).__name__}"
            )
    return batch


def check_counts(path: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Check counts by tool id, and return a copy.

    Raises:
        StoreError: a count is not a number from 0 to 2,147,483,647, or an id cannot be stored.
    """
    batch = dict(counts)
    for name, count in batch.items():
        _check(path, name)
        if not _is_count(count):
            wanted = f"must be an integer from 0 to {MAX_COUNT}, not {short_repr(count)}"
            raise StoreError(path, f"the count of {short_repr(name)} {wanted}")
    return batch


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= MAX_COUNT


def _check(path: str, text: object) -> None:
    """Refuse values that are not text, and text that not every database can store."""
    if not isinstance(text, str):
        raise StoreError(path, f"{short_repr(text)} is not text; give a str")
    if "\0" in text:
        raise StoreError(path, f"{short_repr(text)} holds a NUL character; escape it, as json.dumps does")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            reason = f"{short_repr(text)} holds a lone surrogate; escape it, as json.dumps does"
            raise StoreError(path, reason) from None
