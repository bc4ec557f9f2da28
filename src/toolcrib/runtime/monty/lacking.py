"""What the engine's part of Python lacks: told from its messages, and from what Python itself has.

A message may be one that the code made up, whatever it reads like. It is compared with tables only: nothing
is loaded, called or looked up by its word that could run anything here.
"""

import ast
import builtins
import importlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from types import MappingProxyType

__all__ = ["foreseen", "lacking", "lacking_syntax"]

_MAX_PARSED = 1 << 16
"""How long code may be to be read a second time; longer code takes too long for what it tells."""


_MAX_SAID = 1000
"""How much of a message is read; what the engine says is shorter."""
_MODULES = (
    "asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib",
    "itertools json math os os.path pathlib posixpath random re sys time tomllib typing unicodedata",
)
"""The modules that the engine has, and of which it has a part."""
_NAMES = MappingProxyType(
    {name: frozenset(vars(importlib.import_module(name))) for name in " ".join(_MODULES).split()}
)
"""What Python has in them."""
_OPTION = "return_exceptions"
_IGNORED = re.compile(
    r"__(?:len|bool|lt|le|gt|ge|format|bytes|reversed|getattr|getattribute|setattr|new|get|set|delete|set_name"
    r"|class_getitem|i(?:add|sub|mul|truediv|floordiv|mod|pow|and|or|xor))__"
)
"""Methods that the engine never calls."""
_SUSPECT = re.compile(
    rf"^[ \t]++(?:async[ \t]++)?def[ \t]++({_IGNORED.pattern})[ \t]*+\(|\b{_OPTION}\s*+=|\bnext[ \t]*+\("
    r"|(?<==)[ \t]*+(?=\([^\n]{1,400}?\bfor\b)",
    re.MULTILINE,
)
_SAID = {_OPTION: f"`{_OPTION}`", "next": "`next` of a generator", "for": "generators that are kept"}


def lacking(said: str) -> str | None:
    """Return what the engine lacks, where that is why an exception was raised; None where it is not.

    >>> lacking("ModuleNotFoundError: No module named 'statistics'")
    "the module 'statistics'"
    >>> lacking("ModuleNotFoundError: No module named 'statistik'")
    """
    for pattern, told in _MESSAGES:
        if found := re.match(pattern, said[:_MAX_SAID], re.DOTALL):
            return told(found)
    return None


def foreseen(code: str) -> tuple[int, str] | None:
    r"""Return the line of the first thing that the engine would get wrong, and what it is.

    It ignores these methods without a word, and makes lists of generators, so that code would go on with a
    wrong value; and it refuses `return_exceptions` only once the tools that are gathered have been called.

    >>> foreseen("class Bag:\n    def __len__(self): return 3")
    (2, 'classes with `__len__`')
    """
    suspect = _SUSPECT.search(code)
    if suspect is None:
        return None
    if len(code) > _MAX_PARSED:  # where it may stand in a text, which is not looked at
        found = _told(suspect[1]) if suspect[1] else _SAID[suspect[0].strip(" (=\t\n") or "for"]
        return code.count("\n", 0, suspect.end()) + 1, found
    tree = _parsed(code)
    return min(_found(tree), default=None) if tree is not None else None


def _found(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and _IGNORED.fullmatch(
                    member.name
                ):
                    yield member.lineno, _told(member.name)
        elif isinstance(node, ast.keyword) and node.arg == _OPTION:
            yield node.lineno, _SAID[_OPTION]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next":
            if node.args and _is_lazy(node.args[0]):
                yield node.lineno, _SAID["next"]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.GeneratorExp):
            yield node.lineno, _SAID["for"]


def _is_lazy(node: ast.expr) -> bool:
    """Return whether something is an iterator in Python, and a list in the engine."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return isinstance(node, ast.GeneratorExp) or name in {"map", "zip", "filter", "enumerate", "reversed"}


def _told(method: str) -> str:
    return f"classes with `{method}`"


def lacking_syntax(code: str) -> bool:
    """Return whether Python can read code that the engine cannot.

    >>> lacking_syntax("x = (1,")
    False
    """
    return _parsed(code) is not None


def _parsed(code: str) -> ast.Module | None:
    """Return code as Python reads it; None where it cannot, or where that would take too long."""
    if len(code) > _MAX_PARSED:
        return None
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree: ast.Module = compile(code, "<code>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree


def _as_said(found: re.Match[str]) -> str:
    return found[1]


def _unfinished(found: re.Match[str]) -> str:
    return f"this: {found[1]}"


def _iterator(_: re.Match[str]) -> str:
    return "iterators of this kind, which are lists there"


def _synchronous(_: re.Match[str]) -> str:
    return "a call of a tool where it cannot be awaited, such as in `map`"


def _module(found: re.Match[str]) -> str | None:
    return f"the module {found[1]!r}" if found[1] in sys.stdlib_module_names else None


def _builtin(found: re.Match[str]) -> str | None:
    return f"the builtin {found[1]!r}" if found[1] in vars(builtins) else None


def _member(found: re.Match[str]) -> str | None:
    """Return a name that the engine's version of a module lacks."""
    module, name = found["module"], found["name"]
    return f"{module}.{name}" if name in _NAMES.get(module, ()) else None


def _attribute(found: re.Match[str]) -> str | None:
    text = found["kind"] == "_io.TextIOWrapper"
    kind = io.TextIOWrapper if text else vars(builtins).get(found["kind"])
    bases = kind.__mro__ if type(kind) is type else ()
    known = any(found["name"] in vars(base) for base in bases)
    return f"{found['kind']}.{found['name']}" if known else None


_MESSAGES: tuple[tuple[str, Callable[[re.Match[str]], str | None]], ...] = (
    (r"NotImplementedError: The monty syntax parser does not yet support (.+)", _as_said),
    (r"NotImplementedError: .* cannot suspend in this synchronous context$", _synchronous),
    (r"\w+: (.*\bnot yet support.*|Internal error in monty: .*)", _unfinished),
    (r"NotImplementedError: (Wildcard imports) ", _as_said),
    (r"TypeError: '(?:list|tuple)' object is not an iterator$", _iterator),
    (r"ModuleNotFoundError: No module named '(\w++)[^']*+'$", _module),
    (r"ImportError: cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'", _member),
    (r"AttributeError: module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'$", _member),
    (r"NameError: name '(\w+)' is not defined$", _builtin),
    (r"AttributeError: '(?P<kind>[\w.]+)' object has no attribute '(?P<name>\w+)'$", _attribute),
)
