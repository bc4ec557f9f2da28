"""Which tools code mentions, and under which names it reaches them.

The code is only looked at, never parsed: whatever looks like `name` or `name.attribute` counts, also in a
comment. That is linear, cannot be made to fail by hostile code, and gives at worst a name too many.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from toolcrib.model import Tool
from toolcrib.model.suggest import did_you_mean, nearest
from toolcrib.runtime.protocols import Catalogue
from toolcrib.runtime.stubs.guest import FUNCTIONS
from toolcrib.runtime.stubs.naming import TOP_RESERVED, names_of
from toolcrib.runtime.stubs.signature import parameters

_MENTION = re.compile(r"(?<![\w.])([A-Za-z_]\w*+)(?:[ \t]*+\.\s*+([A-Za-z_]\w*+))?", re.ASCII)
_IMPORT = re.compile(r"^[ \t]*+import[ \t]++(\w++)[ \t]*+(?:$|[;,#])", re.MULTILINE | re.ASCII)
_UNDEFINED = re.compile(r"\bname '(\w+)' is not defined$", re.MULTILINE)
_MAX_LOOKED_UP = 1_000
"""Attributes of a namespace that are looked up before the run."""
_MAX_TYPED = 100
"""A namespace with more attributes is not typed."""
_MAX_GUESSED = 5
"""Missing attributes for which a near name is suggested."""
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


class EmptyCatalogue:
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
        self._known = (*spaces, *alone)
        self._imported = frozenset(_IMPORT.findall(code)) & self._spaces.keys()
        self._unlisted = frozenset(name for name in self._spaces if not self._named(self._spaces[name]))
        self._loose = self._unlisted | {name for name in self._spaces if len(mentions[name]) > _MAX_TYPED}
        self.can_call = bool(self._spaces or self._alone or mentions.keys() & set(FUNCTIONS))
        """Whether the code has any name by which a tool could be called."""
        self._references = self._find(mentions)
        found = catalogue.tools(list(self._references.values()))
        self._tools = {path: found[ref] for path, ref in self._references.items() if ref in found}
        self._orders: dict[str, Sequence[str]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that stand for namespaces."""
        return tuple(self._spaces)

    @property
    def closed(self) -> tuple[str, ...]:
        """The names that stand for namespaces whose tools are typed."""
        return tuple(name for name in self._spaces if name not in self._loose)

    @property
    def typed(self) -> Mapping[str, Tool]:
        """The tools that are typed, of these namespaces and of none."""
        return {path: tool for path, tool in self._tools.items() if path.partition(".")[0] not in self._loose}

    @property
    def anything(self) -> str:
        """What is written of the namespaces whose server is away, and of those with very many mentions."""
        lines = [f"{name}: Any\n" for name in sorted(self._loose)]
        return "".join(["\nfrom typing import Any\n", *lines]) if lines else ""

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        """The names of all tools of the namespaces that are typed."""
        return {name: tuple(self._named(self._spaces[name])) for name in self.closed}

    @property
    def functions(self) -> tuple[str, ...]:
        """The names that are functions."""
        return (*FUNCTIONS, *self._alone)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools that the code mentions, by `namespace.name` or `name`.

        Of a namespace that is used with a name nobody knows it has the nearest tool, so that what is written
        of the namespace can be found to be wrong.
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
        if first in self._unlisted or self._catalogue.tools([exact]):
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
        """Return the message about a name that stands for nothing."""
        first, _, rest = path.partition(".")
        if not rest:
            return f"name {first!r} is not defined"
        return f"{first!r} has no tool {rest!r}{did_you_mean(rest, self._named(self._spaces.get(first, '')))}"

    def advice(self, reason: str) -> str:
        """Return a hint for an error in the code: what hides a name, or which one was meant."""
        hidden = [name for name in sorted(self._imported) if re.search(rf"'{name}\b", reason)]
        if hidden:
            return f"; `import {hidden[0]}` hides the tools of that name: import it `as` something else"
        undefined = _UNDEFINED.findall(reason)
        return did_you_mean(undefined[0], self._known) if len(undefined) == 1 else ""

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
        few = frozenset(sorted(attributes)[:_MAX_LOOKED_UP])  # the others are looked up when they are called
        exact = self._catalogue.tools([f"{namespace}:{name}" for name in sorted(few)])
        found = {name: f"{namespace}:{name}" for name in few if f"{namespace}:{name}" in exact}
        if len(found) < len(few):
            table = self._named(namespace)
            missing = sorted(few - found.keys())
            near = [nearest(name, table) for name in missing[:_MAX_GUESSED] if name not in table]
            known = {*table.keys() & set(missing), *filter(None, near)} or {*list(table)[:1]}
            found |= {name: f"{namespace}:{table[name]}" for name in known}
        return {f"{space}.{name}": found[name] for name in sorted(found)}


def named_tools(catalogue: Catalogue, refs: Iterable[str]) -> dict[str, Tool]:
    """Return tools of a catalogue by the names that code has for them."""
    spaces = _places(tuple(name for name in catalogue.namespaces() if name), TOP_RESERVED)
    alone = _places(tuple(catalogue.names("")), TOP_RESERVED | frozenset(spaces.values()))
    found: dict[str, Tool] = {}
    for tool in catalogue.tools([*refs]).values():
        space = tool.namespace
        base = f"{space}:{tool.name}" if space else tool.name
        meant = catalogue.tools([base]).get(base)  # of several versions code reaches one
        if meant is not None:
            inside = _places(tuple(catalogue.names(space)), frozenset()) if space else alone
            path = f"{spaces[space]}.{inside[tool.name]}" if space else inside[tool.name]
            found[path] = meant
    return dict(sorted(found.items()))


@lru_cache(maxsize=256)
def _places(names: tuple[str, ...], reserved: frozenset[str]) -> Mapping[str, str]:
    """Return the identifiers that stand for names."""
    return {name: spelt for spelt, name in _table(names, reserved).items()}


@lru_cache(maxsize=256)
def _table(names: tuple[str, ...], reserved: frozenset[str]) -> Mapping[str, str]:
    """Return names by the identifiers that stand for them."""
    return names_of(names, reserved=reserved)
