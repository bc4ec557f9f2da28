"""Which tools a piece of code names, by their ids or by the names that stand for them in code.

The code is only looked at, once, however many tools there are; at worst it names one too many.
"""

import re
from collections.abc import Iterable, Iterator

from toolcrib.model import Tool
from toolcrib.runtime.stubs.naming import identifier
from toolcrib.runtime.surface import mentioned

__all__ = ["mentioned_in"]

_ID = re.compile(r"[\w.-]++(?::[\w.-]++)?+", re.ASCII)


def mentioned_in(code: str, tools: Iterable[Tool]) -> list[str]:
    """Return the ids of those tools that code names.

    >>> shop = Tool(name="drop-all", namespace="shop", input_schema={})
    >>> mentioned_in("await shop.drop_all()", [shop]), mentioned_in("await other.drop_all()", [shop])
    (['shop:drop-all'], [])
    """
    written = frozenset(_ID.findall(code))
    reached = {
        (space, name)
        for first, attributes in mentioned(code).items()
        for space, names in (("", (first,)), *((space, attributes) for space in _spelt(first)))
        for each in names
        for name in _spelt(each)
    }
    return [str(tool.id) for tool in tools if _base(tool) in written or _path(tool) in reached]


def _base(tool: Tool) -> str:
    return f"{tool.namespace}:{tool.name}" if tool.namespace else tool.name


def _path(tool: Tool) -> tuple[str, str]:
    return identifier(tool.namespace) if tool.namespace else "", identifier(tool.name)


def _spelt(word: str) -> Iterator[str]:
    """Yield what a word in code may stand for: itself, or what got a number or a dash so as to be another."""
    yield word
    base, dash, number = word.rpartition("_")
    if dash and (not number or number.isdecimal()):
        yield base
