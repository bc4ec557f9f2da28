"""A batch as a store takes it: read to its end, and every value one that any engine can keep."""

from collections.abc import Iterable, Mapping

from toolcrib.discovery.store.protocol import StoredTool
from toolcrib.errors import StoreError
from toolcrib.errors.base import shown

MAX_COUNT = 2**31 - 1
"""The largest count that a store takes at once."""


def checked_tools(path: str, tools: Iterable[StoredTool]) -> dict[str, StoredTool]:
    """Return tools by id.

    Raises:
        StoreError: a text of one cannot be kept.
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


def checked_ids(path: str, ids: Iterable[str]) -> set[str]:
    """Return ids, hashes or kinds.

    Raises:
        StoreError: one cannot be kept, or it is one text rather than several.
    """
    if isinstance(ids, str):
        raise StoreError(path, f"{shown(ids)} is one text; give a list of texts")
    batch = set()
    for text in ids:
        _check(path, text)
        batch.add(text)
    return batch


def checked_texts(path: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return texts by id.

    Raises:
        StoreError: one cannot be kept.
    """
    batch = dict(texts)
    for name, text in batch.items():
        _check(path, name)
        _check(path, text)
    return batch


def checked_values(path: str, values: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return values by content hash.

    Raises:
        StoreError: a value is not bytes, or a hash cannot be kept.
    """
    batch = dict(values)
    for name, value in batch.items():
        _check(path, name)
        if not isinstance(value, bytes):
            raise StoreError(path, f"the value of {shown(name)} must be bytes, not {type(value).__name__}")
    return batch


def checked_counts(path: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts by tool id.

    Raises:
        StoreError: a count is no number from 0 to 2,147,483,647, or an id cannot be kept.
    """
    batch = dict(counts)
    for name, count in batch.items():
        _check(path, name)
        if not _is_count(count):
            wanted = f"must be an integer from 0 to {MAX_COUNT}, not {shown(count)}"
            raise StoreError(path, f"the count of {shown(name)} {wanted}")
    return batch


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= MAX_COUNT


def _check(path: str, text: object) -> None:
    """Refuse what is not text, and text that not every engine can keep."""
    if not isinstance(text, str):
        raise StoreError(path, f"{shown(text)} is not text; give a str")
    if "\0" in text:
        raise StoreError(path, f"{shown(text)} holds a NUL character; escape it, as json.dumps does")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            reason = f"{shown(text)} holds a lone surrogate; escape it, as json.dumps does"
            raise StoreError(path, reason) from None
