"""Finds the names of tools in code, and resolves them.

The code is scanned with regular expressions, never parsed: anything that looks like `name` or
`name.attribute` counts, also in a comment. The scan is linear and cannot be made to fail by hostile code. At
worst it finds a name that is none, which costs one lookup in the catalogue.

Everything that the type check and the sandbox need is looked up once, when a `Surface` is made. Only a call
of a tool that the code does not name literally (`getattr`, a tool added during the run) asks the catalogue
again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from toolcrib.errors.base import join_options
from toolcrib.model import Tool
from toolcrib.model.suggest import did_you_mean, nearest
from toolcrib.runtime.guest_errors import GuestError
from toolcrib.runtime.protocols import Catalogue
from toolcrib.runtime.stubs.guest import FUNCTIONS
from toolcrib.runtime.stubs.naming import TOP_RESERVED, names_of
from toolcrib.runtime.stubs.signature import parameters

_MENTION = re.compile(r"(?<![\w.])([A-Za-z_]\w*+)(?:[ \t]*+\.\s*+([A-Za-z_]\w*+))?", re.ASCII)
_IMPORT = re.compile(r"^[ \t]*+import[ \t]++(\w++)[ \t]*+(?:$|[;,#])", re.MULTILINE | re.ASCII)
_UNDEFINED = re.compile(r"\bname '(\w+)' is not defined$", re.MULTILINE)
_MAX_LOOKUPS = 1_000
"""Attributes of a namespace that are resolved before the run; others are resolved when they are called."""
_MAX_TYPED = 100
"""A namespace with more mentioned attributes gets the type `Any`, so that the type check stays fast."""
_MAX_SUGGESTIONS = 5


def find_mentions(code: str) -> dict[str, frozenset[str]]:
    """Return the names in code, each with the attributes used on it.

    >>> find_mentions("x = await github.create_issue(title=t)")["github"]
    frozenset({'create_issue'})
    """
    found: dict[str, set[str]] = {}
    for name, attribute in _MENTION.findall(code):
        attributes = found.setdefault(name, set())
        if attribute:
            attributes.add(attribute)
    return {name: frozenset(attributes) for name, attributes in found.items()}


class EmptyCatalogue:
    """A catalogue without tools: code has only the functions that every guest has."""

    def namespaces(self) -> Sequence[str]:
        """Return an empty tuple."""
        return ()

    def names(self, namespace: str) -> Sequence[str]:  # noqa: ARG002 - the protocol's signature
        """Return none."""
        return ()

    def tools(self, refs: Sequence[str]) -> Mapping[str, Tool]:  # noqa: ARG002 - the protocol's signature
        """Return none."""
        return {}


class Surface:
    """The names of tools in one piece of code, resolved with the catalogue before the run."""

    names: tuple[str, ...]
    """The names that stand for namespaces."""
    functions: tuple[str, ...]
    """The names that are functions: those of every guest, and tools without a namespace."""
    tools: dict[str, Tool]
    """The tools that the code mentions, by `namespace.name` or `name`.

    For a namespace that is used with an unknown attribute, the tool with the nearest name is included, so
    that the type check can report the attribute.
    """
    typed: dict[str, Tool]
    """The tools among `tools` that the type check gets stubs for."""
    members: dict[str, tuple[str, ...]]
    """The names of all tools of each typed namespace."""
    untyped_stubs: str
    """Stubs that declare namespaces as `Any`: their server is away, or the code names too many of their
    tools."""
    can_call: bool
    """Whether the code has any name that can call a tool."""

    def __init__(self, code: str, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        mentions = find_mentions(code)
        spaces = _names_by_identifier(tuple(name for name in catalogue.namespaces() if name), TOP_RESERVED)
        alone = _names_by_identifier(tuple(catalogue.names("")), TOP_RESERVED | frozenset(spaces))
        self._known = (*spaces, *alone)
        self._spaces = {name: spaces[name] for name in mentions if name in spaces}
        functions = {name: alone[name] for name in mentions if name in alone}
        self._imported = frozenset(_IMPORT.findall(code)) & self._spaces.keys()
        self.names = tuple(self._spaces)
        self.functions = (*FUNCTIONS, *functions)
        self.can_call = bool(self._spaces or functions or mentions.keys() & set(FUNCTIONS))

        tables = {name: self._names_in(namespace) for name, namespace in self._spaces.items()}
        # A server that is away has no listed tools; its tools are then called without a check before the run.
        self._unlisted = frozenset(name for name, table in tables.items() if not table)
        loose = self._unlisted | {name for name in tables if len(mentions[name]) > _MAX_TYPED}
        self.untyped_stubs = "".join(f"{name}: Any\n" for name in sorted(loose))
        if self.untyped_stubs:
            self.untyped_stubs = f"\nfrom typing import Any\n{self.untyped_stubs}"
        self.members = {name: tuple(table) for name, table in tables.items() if name not in loose}

        self._references = dict(functions)
        for name, table in tables.items():
            self._references |= self._find_tools(name, table, mentions[name])
        found = catalogue.tools(list(self._references.values()))
        self.tools = {path: found[ref] for path, ref in self._references.items() if ref in found}
        self.typed = {path: tool for path, tool in self.tools.items() if path.partition(".")[0] not in loose}
        self._orders: dict[str, Sequence[str]] = {}

    def resolve(self, path: str) -> str:
        """Return the reference of the tool called `namespace.name` or `name` in the code.

        Raises:
            GuestError: no tool has that name.
        """
        if path in self.tools:
            return self._references[path]
        first, _, rest = path.partition(".")
        if not rest:
            raise GuestError("NameError", f"name {first!r} is not defined")
        namespace = self._spaces.get(first, "")
        exact = f"{namespace}:{rest}"
        if first in self._unlisted or (namespace and self._catalogue.tools([exact])):
            return exact
        table = self._names_in(namespace)
        if namespace and rest in table:
            return f"{namespace}:{table[rest]}"
        raise GuestError("AttributeError", f"{first!r} has no tool {rest!r}{did_you_mean(rest, table)}")

    def parameters(self, path: str) -> Sequence[str]:
        """Return the names of a tool's arguments, in the order of its positional arguments."""
        if path not in self._orders:
            reference = self.resolve(path)
            tool = self.tools.get(path) or self._catalogue.tools([reference]).get(reference)
            self._orders[path] = () if tool is None else parameters(tool)
        return self._orders[path]

    def hint(self, reason: str) -> str:
        """Return a hint for an error in the code: an import that hides tools, or the nearest known name."""
        hidden = [name for name in sorted(self._imported) if re.search(rf"'{name}\b", reason)]
        if hidden:
            return f"; `import {hidden[0]}` hides the tools of that name: import it `as` something else"
        undefined = _UNDEFINED.findall(reason)
        if len(undefined) != 1:
            return ""
        [name] = undefined
        spaces = _names_by_identifier(tuple(filter(None, self._catalogue.namespaces())), TOP_RESERVED)
        holders = [space for space, namespace in spaces.items() if name in self._names_in(namespace)]
        paths = tuple(f"{space}.{name}" for space in holders[:_MAX_SUGGESTIONS])
        return f"; did you mean {join_options(paths)}?" if paths else did_you_mean(name, self._known)

    def _names_in(self, namespace: str) -> Mapping[str, str]:
        """Return the names of a namespace's tools, by the identifiers that stand for them."""
        return _names_by_identifier(tuple(self._catalogue.names(namespace)), frozenset())

    def _find_tools(self, space: str, table: Mapping[str, str], attributes: frozenset[str]) -> dict[str, str]:
        """Return the references of the mentioned tools of one namespace, by their paths."""
        namespace = self._spaces[space]
        few = frozenset(sorted(attributes)[:_MAX_LOOKUPS])
        exact = self._catalogue.tools([f"{namespace}:{name}" for name in sorted(few)])
        found = {name: f"{namespace}:{name}" for name in few if f"{namespace}:{name}" in exact}
        if len(found) < len(few):
            missing = sorted(few - found.keys())
            near = [nearest(name, table) for name in missing[:_MAX_SUGGESTIONS] if name not in table]
            known = {*table.keys() & set(missing), *filter(None, near)} or {*list(table)[:1]}
            found |= {name: f"{namespace}:{table[name]}" for name in known}
        return {f"{space}.{name}": found[name] for name in sorted(found)}


def tools_by_path(catalogue: Catalogue, refs: Iterable[str]) -> dict[str, Tool]:
    """Return tools of a catalogue by their names in code."""
    spaces = _identifiers(tuple(name for name in catalogue.namespaces() if name), TOP_RESERVED)
    alone = _identifiers(tuple(catalogue.names("")), TOP_RESERVED | frozenset(spaces.values()))
    found: dict[str, Tool] = {}
    for tool in catalogue.tools([*refs]).values():
        space = tool.namespace
        base = f"{space}:{tool.name}" if space else tool.name
        latest = catalogue.tools([base]).get(base)  # code cannot name a version, so it reaches the latest
        if latest is not None:
            inside = _identifiers(tuple(catalogue.names(space)), frozenset()) if space else alone
            path = f"{spaces[space]}.{inside[tool.name]}" if space else inside[tool.name]
            found[path] = latest
    return dict(sorted(found.items()))


@lru_cache(maxsize=256)
def _identifiers(names: tuple[str, ...], reserved: frozenset[str]) -> Mapping[str, str]:
    """Return the identifiers that stand for names, by name."""
    return {name: spelt for spelt, name in _names_by_identifier(names, reserved).items()}


@lru_cache(maxsize=256)
def _names_by_identifier(names: tuple[str, ...], reserved: frozenset[str]) -> Mapping[str, str]:
    """Return names by the identifiers that stand for them."""
    return names_of(names, reserved=reserved)
