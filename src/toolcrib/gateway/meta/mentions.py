"""Which tools a piece of code names and where, by their ids or by the names that stand for them in code.

The code is only looked at, once, however many tools there are; at worst it names one too many.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from toolcrib.model import Tool
from toolcrib.runtime.stubs.naming import identifier
from toolcrib.runtime.surface import mentioned

__all__ = ["mentioned_in", "places_of"]

_ID = re.compile(r"[\w.-]++(?::[\w.-]++)?+", re.ASCII)
_AROUND = 80
"""How many characters before and after a name are shown of a long line."""


def mentioned_in(code: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return those tools that code names.

    >>> shop = Tool(name="drop-all", namespace="shop", input_schema={})
    >>> [tool.name for tool in mentioned_in("await shop.drop_all()", [shop])]
    ['drop-all']
    >>> mentioned_in("await other.drop_all()", [shop])
    []
    """
    paths = {_path(tool) for tool in tools}
    if not paths:
        return []
    ids = frozenset(_ID.findall(code))
    words = mentioned(code)
    spaces, names = {space for space, _ in paths}, {name for _, name in paths}
    reached = {
        (space, name)
        for first, attributes in words.items()
        for space, found in (("", (first,)), *((space, attributes) for space in _spelt(first)))
        if space in spaces
        for each in found
        for name in _spelt(each)
        if name in names
    }
    return [tool for tool in tools if _base(tool) in ids or _path(tool) in reached]


def places_of(code: str, tools: Iterable[Tool]) -> list[str]:
    r"""Return what stands around each place where code may name one of these tools, line by line.

    >>> places_of("x = 1\nawait shop.drop_all()\ny = 2", [Tool(name="drop-all", input_schema={})])
    ['await shop.drop_all()']
    """
    words = {word for tool in tools for word in (tool.name, identifier(tool.name))}
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    found: dict[tuple[int, int], str] = {}
    for match in re.finditer(pattern, code):
        first = max(0, match.start() - _AROUND)
        start = max(first, code.rfind("\n", first, match.start()) + 1)
        end = code.find("\n", match.end(), match.end() + _AROUND)
        end = match.end() + _AROUND if end < 0 else end
        found.setdefault((start, end), code[start:end].strip())
    return list(found.values())


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
