"""Tags in the one form the catalogue indexes."""

import re
from collections.abc import Iterable

from toolcrib.errors import InvalidToolError, Problem

__all__ = ["MAX_TAGS", "MAX_TAG_LENGTH", "normalize_tags"]

MAX_TAGS = 20
MAX_TAG_LENGTH = 64
_NOT_KEPT = re.compile(r"[^a-z0-9_.-]")


def normalize_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags lower case, hyphenated, of `[a-z0-9-_.]` only, unique, at most 20 of at most 64 characters.

    >>> normalize_tags(["Issue Tracking", "issue  tracking", "C++", "É!"])
    ('issue-tracking', 'c')

    Raises:
        InvalidToolError: they are not texts.
    """
    kept: dict[str, None] = {}
    if isinstance(tags, str | bytes) or not isinstance(tags, Iterable):
        raise _refusal(f"tags must be a list of texts, not one {type(tags).__name__}")
    for tag in tags:
        if not isinstance(tag, str):
            raise _refusal(f"a tag must be text, not {type(tag).__name__}")
        hyphenated = "-".join(tag.lower().split())
        if clean := _NOT_KEPT.sub("", hyphenated)[:MAX_TAG_LENGTH]:
            kept[clean] = None
        if len(kept) == MAX_TAGS:
            break
    return tuple(kept)


def _refusal(reason: str) -> InvalidToolError:
    return InvalidToolError((Problem("/tags", "type", reason),))
