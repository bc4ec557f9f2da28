"""The names that a stub declares, in the form of the code and in that of the type checker."""

import ast
import re
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from toolcrib.runtime.stubs.guest import GUEST
from toolcrib.runtime.stubs.types import OPEN_DOCSTRING

_OPEN_CALL = re.compile(rf'^(\w+) = TypedDict\("\w+", {{  # {re.escape(OPEN_DOCSTRING)}$', re.MULTILINE)
_MAX_CACHED_CHARACTERS = 64 * 1024
"""Longer stubs are not cached, since callers choose the tools in one."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names of a stub."""

    names: tuple[str, ...] = ()
    """The names that code may use: namespaces and functions."""
    spaces: dict[str, str] = field(default_factory=dict)
    """Namespaces by the classes that stand for them."""
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The tools of each namespace."""
    arguments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The arguments of each tool, by its path in code."""
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys of each TypedDict."""
    open: frozenset[str] = frozenset()
    """TypedDicts that may have others."""

    def path(self, written: str) -> str | None:
        """Return the path in code of what the type checker calls `_Github.create_issue` or `add`."""
        kind, _, name = written.rpartition(".")
        path = f"{self.spaces[kind]}.{name}" if kind in self.spaces else written
        return path if path in self.arguments else None


def read_stub(stub: str) -> Vocabulary:
    """Return the names of a stub, with the functions that every guest has; only these if it is not Python.

    The names of short stubs are cached.
    """
    return _parse_stub_once(stub) if len(stub) <= _MAX_CACHED_CHARACTERS else _parse_stub(stub)


@lru_cache(maxsize=64)
def _parse_stub_once(stub: str) -> Vocabulary:
    return _parse_stub(stub)


def _parse_stub(stub: str) -> Vocabulary:
    declared, guest = _parse_declarations(stub), _guest_declarations()
    return replace(
        declared,
        names=(*declared.names, *guest.names),
        arguments={**guest.arguments, **declared.arguments},
        keys={**guest.keys, **declared.keys},
    )


@cache
def _guest_declarations() -> Vocabulary:
    return _parse_declarations(GUEST)


def _parse_declarations(stub: str) -> Vocabulary:
    try:
        body = ast.parse(stub).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Vocabulary()
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    spaces = {
        node.annotation.id: node.target.id
        for node in body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.annotation, ast.Name)
    }
    functions = [node for node in body if isinstance(node, ast.AsyncFunctionDef)]
    arguments = {node.name: _list_arguments(node) for node in functions}
    members: dict[str, tuple[str, ...]] = {}
    keys, opened = _list_keys(body), set(_OPEN_CALL.findall(stub))
    for node in classes:
        if node.name in spaces:
            methods = [member for member in node.body if isinstance(member, ast.AsyncFunctionDef)]
            members[spaces[node.name]] = tuple(method.name for method in methods)
            arguments |= {
                f"{spaces[node.name]}.{method.name}": _list_arguments(method)[1:] for method in methods
            }
        elif ast.get_docstring(node) == OPEN_DOCSTRING:
            opened.add(node.name)
    names = tuple(dict.fromkeys([*_list_variables(body), *(node.name for node in functions)]))
    known = {kind: space for kind, space in spaces.items() if space in members}
    return Vocabulary(names, known, members, arguments, keys, frozenset(opened))


def _list_variables(body: list[ast.stmt]) -> list[str]:
    declared = [node.target for node in body if isinstance(node, ast.AnnAssign)]
    return [
        target.id for target in declared if isinstance(target, ast.Name) and not target.id.startswith("_")
    ]


def _list_arguments(node: ast.AsyncFunctionDef) -> tuple[str, ...]:
    return tuple(
        argument.arg for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    )


def _list_keys(body: list[ast.stmt]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef) and node.bases:
            fields = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
            found[node.name] = tuple(target.id for target in fields if isinstance(target, ast.Name))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.value.args) > 1:
            name, fields_ = node.targets[0], node.value.args[1]
            if isinstance(name, ast.Name) and isinstance(fields_, ast.Dict):
                keys = [key.value for key in fields_.keys if isinstance(key, ast.Constant)]
                found[name.id] = tuple(key for key in keys if isinstance(key, str))
    return found
