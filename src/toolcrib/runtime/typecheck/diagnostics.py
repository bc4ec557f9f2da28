"""Diagnostics of the type checker, with the code they are about."""

import ast
import re
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from toolcrib.runtime.typecheck.vocabulary import Vocabulary

_MAX_PARSED = 50_000
_MAX_LINE = 2_000
_OUT = "__out"
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LINES = re.compile(r"\r\n|\r|\n")
Engine = Literal["monty", "python"]
"""What the code is for: Monty's subset of Python, or a full one."""
_TICKED = re.compile(r"`([^`]*)`")
_FUNCTION = re.compile(r"(?:function|bound method) `([^`]*)`")
_MAX_BEFORE = 200


@dataclass(frozen=True)
class GuestSource:
    """The code, of which nothing is known where it is no Python, or long."""

    code: str

    @cached_property
    def _lines(self) -> list[str]:
        return _LINES.split(self.code)

    def line(self, number: int) -> str:
        """Return a line of the code, which is empty beyond its end."""
        return self._lines[number - 1] if number <= len(self._lines) else ""

    @cached_property
    def _nodes(self) -> tuple[ast.AST, ...]:
        if len(self.code) > _MAX_PARSED:
            return ()
        try:
            return tuple(ast.walk(ast.parse(_ESCAPE.sub(_harmless, self.code))))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ()

    @cached_property
    def _arguments(self) -> dict[tuple[int, int], int | None]:
        """The places of arguments without a name, where they are known, by where they are written."""
        found: dict[tuple[int, int], int | None] = {}
        for call in self._nodes:
            if isinstance(call, ast.Call):
                stars = [number for number, part in enumerate(call.args) if isinstance(part, ast.Starred)]
                known = min(stars, default=len(call.args))
                for number, argument in enumerate(call.args):
                    found[self._place(argument)] = number if number < known else None
        return found

    def _place(self, node: ast.expr) -> tuple[int, int]:
        """Return the line and the column, in characters, at which something begins."""
        line = self.line(node.lineno)
        if line.isascii():
            return node.lineno, node.col_offset + 1
        before = line[:_MAX_LINE].encode("utf-8", "replace")[: node.col_offset]
        return node.lineno, len(before.decode("utf-8", "replace")) + 1

    def argument(self, line: int, column: int) -> int | None:
        """Return which of a call's arguments begins at a place, counted from 0."""
        return self._arguments.get((line, column))

    def follows_unpacked(self, line: int, column: int) -> bool:
        """Return whether an argument is an unpacked one, `*values`, or comes after one."""
        return self._arguments.get((line, column), 0) is None

    def catches(self, line: int, *names: str) -> bool:
        """Return whether the code is ready for one of these exceptions where a line raises it."""
        around = [
            node
            for node in self._nodes
            if isinstance(node, ast.Try) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
        ]
        kinds = [handler.type for node in around for handler in node.handlers if handler.type]
        named = [part for kind in kinds for part in _parts(kind)]
        return any(isinstance(part, ast.Name) and part.id in names for part in named)

    def left_unawaited(self, paths: Container[str]) -> Iterator[tuple[str, int, int]]:
        """Yield calls whose coroutine is left in `__out`: calls of tools, and of the code's own coroutines.

        Each is the path that is called, a line and a column. Where `__out` is read, or assigned more than
        once, the code may still await it.
        """
        values = [node.value for node in self._nodes if isinstance(node, ast.Assign) and _is_out(node)]
        if len(values) != 1 or self._uses[_OUT, ast.Load] or self._uses[_OUT, ast.Store] != 1:
            return
        for part in _parts(values[0]):
            call = self._assigned.get(part.id) if isinstance(part, ast.Name) else part
            if isinstance(call, ast.Call):
                path = _path(call.func)
                if path in paths or path in self._coroutines:
                    yield path, *self._place(call)

    @cached_property
    def _coroutines(self) -> set[str]:
        """The coroutine functions of the code that nothing wraps or replaces."""
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        defined = Counter(node.name for node in self._nodes if isinstance(node, kinds))
        top = self._nodes[0].body if self._nodes and isinstance(self._nodes[0], ast.Module) else []
        plain = {
            node.name for node in top if isinstance(node, ast.AsyncFunctionDef) and not node.decorator_list
        }
        return {name for name in plain if defined[name] == 1 and not self._uses[name, ast.Store]}

    @cached_property
    def _uses(self) -> Counter[tuple[str, type[ast.expr_context]]]:
        return Counter((node.id, type(node.ctx)) for node in self._nodes if isinstance(node, ast.Name))

    @cached_property
    def _assigned(self) -> dict[str, ast.expr]:
        """What the names mean that are assigned once and read once."""
        return {
            node.targets[0].id: node.value
            for node in self._nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and self._uses[node.targets[0].id, ast.Store] == self._uses[node.targets[0].id, ast.Load] == 1
        }


def _harmless(escape: re.Match[str]) -> str:
    """Return something as long for an escape that need not be one: the parser warns of some of them."""
    return escape[0] if escape[1] in "\\'\"\r\n" else f"/{escape[1]}"


def _path(called: ast.expr) -> str:
    """Return `space.tool` or `tool`, as a call names it."""
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        return f"{called.value.id}.{called.attr}"
    return called.id if isinstance(called, ast.Name) else ""


def _is_out(node: ast.Assign) -> bool:
    target = node.targets[0]
    return len(node.targets) == 1 and isinstance(target, ast.Name) and target.id == _OUT


def _parts(value: ast.expr) -> list[ast.expr]:
    """Return what a value is made of where it is written out."""
    if isinstance(value, ast.Dict):
        return value.values
    return value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


@dataclass(frozen=True, slots=True)
class CodeProblem:
    """One thing that is wrong with the code."""

    line: int
    column: int
    message: str
    unsupported: bool = False
    """Whether a full Python has what this engine lacks."""


@dataclass(frozen=True)
class Diagnostic:
    """One finding of the type checker."""

    rule: str
    message: str
    line: int
    column: int

    @cached_property
    def ticked(self) -> tuple[str, ...]:
        """What it names: functions, types, arguments."""
        return tuple(_TICKED.findall(self.message))

    @property
    def subject(self) -> str:
        """What it names first."""
        return self.ticked[0] if self.ticked else ""

    def problem(self, text: str, *, unsupported: bool = False) -> CodeProblem:
        """Return a problem at this place."""
        return CodeProblem(self.line, self.column, text, unsupported)


@dataclass(frozen=True)
class CheckContext:
    """The code, what its names mean, and all that was found."""

    source: GuestSource
    words: Vocabulary
    engine: Engine
    findings: Sequence[Diagnostic]
    shadowed: Collection[str] = ()
    """Names that the code gives a meaning of its own."""
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """All tools of namespaces, where they are known: a stub may have only those that the code mentions."""
    echoes: set[tuple[int, str]] = field(default_factory=set)
    """Lines and messages that only follow from others."""

    @cached_property
    def unknown_keys(self) -> Counter[tuple[int, int]]:
        """How often a key is called unknown at each place: once for each type that lacks it."""
        return Counter((found.line, found.column) for found in self.findings if found.rule == "invalid-key")

    def at(self, finding: Diagnostic) -> str:
        """Return the code from where a finding points to the end of the line."""
        return self.source.line(finding.line)[finding.column - 1 :]

    def before(self, finding: Diagnostic) -> str:
        """Return the code of the line before the place that a finding points at."""
        return self.source.line(finding.line)[: finding.column - 1][-_MAX_BEFORE:]

    def called(self, finding: Diagnostic) -> str | None:
        """Return which tool a finding is about, or which function of the code itself that nothing wraps."""
        found = _FUNCTION.search(finding.message)
        if found is None:
            return None
        own = re.search(
            rf"^([^\n]*\n)?[ \t]*+(?:async[ \t]++)?def[ \t]++{re.escape(found[1])}\b",
            self.source.code,
            re.MULTILINE,
        )
        if own is None:
            return self.words.path(found[1])
        return None if (own[1] or "").lstrip().startswith("@") else found[1]
