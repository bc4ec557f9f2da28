"""What the engine's part of Python lacks: told from its messages, and from what Python itself has."""

import ast
import builtins
import importlib
import io
import re
import sys
from collections.abc import Callable

__all__ = ["foreseen", "lacking", "lacking_syntax"]

_MAX_PARSED = 1 << 16
"""How long code may be to be read a second time; longer code takes too long for what it tells."""


_METHOD = re.compile(
    r"\s+(?:async\s+)?def\s+(__(?:len|bool|lt|le|gt|ge|format|bytes|reversed|getattr|getattribute|setattr|new"
    r"|get|set|delete|set_name|class_getitem|i(?:add|sub|mul|truediv|floordiv|mod|pow|and|or|xor))__)\s*\("
)
_GATHERED = re.compile(r"^[^#]*\breturn_exceptions\s*=")


def lacking(said: str) -> str | None:
    """Return what the engine lacks, where that is why an exception was raised; None where it is not.

    >>> lacking("ModuleNotFoundError: No module named 'statistics'")
    "the module 'statistics'"
    >>> lacking("ModuleNotFoundError: No module named 'statistik'")
    """
    for pattern, told in _MESSAGES:
        if found := re.match(pattern, said, re.DOTALL):
            return told(found)
    return None


def foreseen(code: str) -> tuple[int, str] | None:
    r"""Return the line of the first thing that the engine would get wrong, and what it is.

    It ignores these methods without a word, so that code would go on with a wrong value; and it refuses
    `return_exceptions` only once the tools that are gathered have been called.

    >>> foreseen("class Bag:\n    def __len__(self): return 3")
    (2, 'classes with `__len__`')
    """
    for number, line in enumerate(code.splitlines(), 1):
        if found := _METHOD.match(line):
            return number, f"classes with `{found[1]}`"
        if _GATHERED.search(line):
            return number, "`return_exceptions`"
    return None


def lacking_syntax(code: str) -> bool:
    """Return whether Python can read code that the engine cannot.

    >>> lacking_syntax("x = (1,")
    False
    """
    if len(code) > _MAX_PARSED:
        return False
    try:
        compile(code, "<code>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _as_said(found: re.Match[str]) -> str:
    return found[1]


def _unfinished(found: re.Match[str]) -> str:
    return f"this: {found[1]}"


def _synchronous(_: re.Match[str]) -> str:
    return "a call of a tool where it cannot be awaited, such as in `map`"


def _module(found: re.Match[str]) -> str | None:
    return f"the module {found[1]!r}" if found[1] in sys.stdlib_module_names else None


def _builtin(found: re.Match[str]) -> str | None:
    return f"the builtin {found[1]!r}" if hasattr(builtins, found[1]) else None


def _member(found: re.Match[str]) -> str | None:
    """Return a name that the engine's version of a module lacks."""
    module, name = found["module"], found["name"]
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return None
    try:
        known = hasattr(
            importlib.import_module(module), name
        )  # one that the engine has: it is safe to import
    except ImportError:
        return None
    return f"{module}.{name}" if known else None


def _attribute(found: re.Match[str]) -> str | None:
    kind = (
        io.TextIOWrapper if found["kind"] == "_io.TextIOWrapper" else getattr(builtins, found["kind"], None)
    )
    known = isinstance(kind, type) and hasattr(kind, found["name"])
    return f"{found['kind']}.{found['name']}" if known else None


_MESSAGES: tuple[tuple[str, Callable[[re.Match[str]], str | None]], ...] = (
    (r"NotImplementedError: The monty syntax parser does not yet support (.+)", _as_said),
    (r"NotImplementedError: .* cannot suspend in this synchronous context$", _synchronous),
    (r"\w+: (.*\bnot yet support.*|Internal error in monty: .*)", _unfinished),
    (r"ModuleNotFoundError: No module named '(\w+)[^']*'$", _module),
    (r"ImportError: cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'", _member),
    (r"AttributeError: module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'$", _member),
    (r"NameError: name '(\w+)' is not defined$", _builtin),
    (r"AttributeError: '(?P<kind>[\w.]+)' object has no attribute '(?P<name>\w+)'$", _attribute),
)
