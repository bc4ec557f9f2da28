"""What is wrong with tools because of each other: names that stand twice, descriptions that are alike."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from toolcrib.model import Tool

__all__ = ["alike", "same_names"]

_WORD = re.compile(r"\w+")
_LEAST_WORDS = 4
_RAREST = 3
_ALIKE = 0.9
_MAX_BUCKET = 50
"""With how many others at most a tool is compared for each of its words."""


def same_names(tools: Sequence[Tool]) -> Iterator[tuple[Tool, list[str]]]:
    """Yield each tool whose name stands in other namespaces too, and the ids there."""
    by_name: dict[str, list[Tool]] = defaultdict(list)
    for tool in tools:
        by_name[tool.name].append(tool)
    for group in by_name.values():
        if len({tool.namespace for tool in group}) > 1:
            for tool in group:
                yield tool, [str(each.id) for each in group if each.namespace != tool.namespace]


def alike(tools: Sequence[Tool]) -> Iterator[tuple[Tool, Tool]]:
    """Yield pairs of tools that a reader cannot tell apart by what is said of them."""
    words = [frozenset(_WORD.findall((tool.description or "").lower())) for tool in tools]
    counts = Counter(word for each in words for word in each)
    buckets: dict[str, list[int]] = defaultdict(list)
    for place, own in enumerate(words):
        if len(own) < _LEAST_WORDS:
            continue
        met: set[int] = set()
        for word in sorted(own, key=lambda each: (counts[each], each))[:_RAREST]:
            for other in buckets[word][:_MAX_BUCKET]:
                if other not in met and _are_alike(tools[place], tools[other], own, words[other]):
                    yield tools[other], tools[place]
                met.add(other)
            buckets[word].append(place)


def _are_alike(one: Tool, other: Tool, words: frozenset[str], others: frozenset[str]) -> bool:
    if one.namespace == other.namespace and one.name == other.name:
        return False  # two versions of one tool
    if _differ(one, other):
        return False
    return len(words & others) >= _ALIKE * len(words | others)


def _differ(one: Tool, other: Tool) -> bool:
    """Return whether the names say what the descriptions do not: one thing for another, `list` for `get`."""
    own, others = (set(_WORD.findall(tool.name.lower().replace("_", " "))) for tool in (one, other))
    told = _WORD.findall(f"{one.description} {other.description}".lower())
    return one.description != other.description and bool((own ^ others) & set(told))
