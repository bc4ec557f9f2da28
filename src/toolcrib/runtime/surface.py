"""Which tools code mentions, and under which names it reaches them.

The code is only looked at, never parsed: whatever looks like `name` or `name.attribute` counts, also in a
comment. That is linear, cannot be made to fail by hostile code, and gives at worst a name too many.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from toolcrib.model import Tool
from toolcrib.model.suggest import did_you_mean, nearest
from toolcrib.runtime.bridge import FUNCTIONS
from toolcrib.runtime.protocols import Catalogue
from toolcrib.runtime.stubs.naming import TOP_RESERVED, names_of
from toolcrib.runtime.stubs.signature import parameters

__all__ = ["Nothing", "Surface", "mentioned"]

_MENTION = re.compile(r"(?<![\w.])([A-Za-z_]\w*+)(?:[ \t]*+\.\s*+([A-Za-z_]\w*+))?", re.ASCII)
_Mentions = Mapping[str, frozenset[str]]


def mentioned(code: str) -> dict[str, frozenset[str]]:
    """Return the names in code, each with the attributes that it is seen with.

    >>> mentioned("x = await github.create_issue(title=t)")["github"]
    frozenset({'create_issue'})
    """
    found: dict[str, set[str]] = {}
    for name, attribute in _MENTION.findall(code):
        attributes = found.setdefault(name, set())
        if attribute:
            attributes.add(attribute)
    return {name: frozenset(attributes) for name, attributes in found.items()}


class Nothing:
    """A catalogue without tools: code has the functions that every guest has."""

    def namespaces(self) -> Sequence[str]:
        """Return none."""
        return ()

    def names(self, namespace: str) -> Sequence[str]:  # noqa: ARG002 - the protocol's signature
        """Return none."""
        return ()

    def tools(self, refs: Sequence[str]) -> Mapping[str, Tool]:  # noqa: ARG002 - the protocol's signature
        """Return none."""
        return {}


class Surface:
    """The names of one piece of code that stand for tools."""

    def __init__(self, code: str, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        mentions = mentioned(code)
        spaces = _table(tuple(name for name in catalogue.namespaces() if name), TOP_RESERVED)
        self._spaces = {name: spaces[name] for name in mentions if name in spaces}
        alone = _table(tuple(catalogue.names("")), TOP_RESERVED | frozenset(spaces))
        self._alone = {name: alone[name] for name in mentions if name in alone}
        self._references = self._find(mentions)
        found = catalogue.tools(list(self._references.values()))
        self._tools = {path: found[ref] for path, ref in self._references.items() if ref in found}
        self._orders: dict[str, Sequence[str]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that stand for namespaces."""
        return tuple(self._spaces)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names that are functions."""
        return (*FUNCTIONS, *self._alone)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools that the code mentions, by `namespace.name` or `name`.

        Of a namespace that is used with a name nobody knows it has the nearest tool, so that what is written
        of the namespace can be told to be wrong.
        """
        return self._tools

    def reference(self, path: str) -> str | None:
        """Return the tool that a name stands for; None where there is none."""
        if path in self._tools:
            return self._references[path]
        first, _, rest = path.partition(".")
        namespace = self._spaces.get(first)
        if namespace is None or not rest:
            return None
        exact = f"{namespace}:{rest}"
        if self._catalogue.tools([exact]):
            return exact
        name = self._named(namespace).get(rest)
        return None if name is None else f"{namespace}:{name}"

    def parameters(self, path: str) -> Sequence[str]:
        """Return the names of a tool's arguments, in the order in which they may be given without them."""
        if path not in self._orders:
            reference = self.reference(path) or path
            tool = self._tools.get(path) or self._catalogue.tools([reference]).get(reference)
            self._orders[path] = () if tool is None else parameters(tool)
        return self._orders[path]

    def unknown(self, path: str) -> str:
        """Return what to tell of a name that stands for nothing."""
        first, _, rest = path.partition(".")
        if not rest:
            return f"name {first!r} is not defined"
        return f"{first!r} has no tool {rest!r}{did_you_mean(rest, self._named(self._spaces.get(first, '')))}"

    def _named(self, namespace: str) -> Mapping[str, str]:
        return _table(tuple(self._catalogue.names(namespace)), frozenset())

    def _find(self, mentions: _Mentions) -> dict[str, str]:
        """Return the references of all tools that are mentioned, by their paths."""
        wanted = dict(self._alone)
        for space, namespace in self._spaces.items():
            wanted |= self._find_in(space, namespace, mentions[space])
        return wanted

    def _find_in(self, space: str, namespace: str, attributes: frozenset[str]) -> dict[str, str]:
        """Return the references of the tools of one namespace that are mentioned, by their paths."""
        exact = self._catalogue.tools([f"{namespace}:{name}" for name in sorted(attributes)])
        found = {name: f"{namespace}:{name}" for name in attributes if f"{namespace}:{name}" in exact}
        if len(found) < len(attributes):
            table = self._named(namespace)
            for name in attributes - found.keys():
                known = name if name in table else (nearest(name, table) or next(iter(table), None))
                if known is not None:
                    found[known] = f"{namespace}:{table[known]}"
        return {f"{space}.{name}": found[name] for name in sorted(found)}


@lru_cache(maxsize=256)
def _table(names: tuple[str, ...], reserved: frozenset[str]) -> Mapping[str, str]:
    """Return names by the identifiers that stand for them."""
    return names_of(names, reserved=reserved)
