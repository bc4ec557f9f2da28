"""Tags in the one form the catalogue indexes."""

import re
from collections.abc import Iterable

__all__ = ["MAX_TAGS", "MAX_TAG_LENGTH", "normalize_tags"]

MAX_TAGS = 20
MAX_TAG_LENGTH = 64
_NOT_KEPT = re.compile(r"[^a-z0-9_.-]")


def normalize_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags lower case, hyphenated, of `[a-z0-9-_.]` only, unique, at most 20 of at most 64 characters.

    >>> normalize_tags(["Issue Tracking", "issue  tracking", "C++", "É!"])
    ('issue-tracking', 'c')
    """
    kept: dict[str, None] = {}
    for tag in tags:
        hyphenated = "-".join(tag.lower().split())
        if clean := _NOT_KEPT.sub("", hyphenated)[:MAX_TAG_LENGTH]:
            kept[clean] = None
        if len(kept) == MAX_TAGS:
            break
    return tuple(kept)
