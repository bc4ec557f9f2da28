"""Diagnostics of the type checker, with the code they are about."""

import ast
import re
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from toolcrib.execution.kept import KEPT
from toolcrib.runtime.typecheck.vocabulary import Vocabulary

_MAX_PARSED = 50_000
_MAX_LINE = 2_000
_OUT = "__out"
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LINES = re.compile(r"\r\n|\r|\n")
Engine = Literal["monty", "python"]
"""The interpreter that runs the code: Monty's subset of Python, or a full one."""
_TICKED = re.compile(r"`([^`]*)`")
_FUNCTION = re.compile(r"(?:function|bound method) `([^`]*)`")
_MAX_BEFORE = 200


@dataclass(frozen=True)
class GuestSource:
    """The code and its syntax tree; the tree is empty if the code is not Python, or too long."""

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
            return tuple(ast.walk(ast.parse(_ESCAPE.sub(_neutralize_escape, self.code))))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ()

    @cached_property
    def _arguments(self) -> dict[tuple[int, int], int | None]:
        """The indexes of positional arguments by their position in the code; None after an unpacked one."""
        found: dict[tuple[int, int], int | None] = {}
        for call in self._nodes:
            if isinstance(call, ast.Call):
                stars = [number for number, part in enumerate(call.args) if isinstance(part, ast.Starred)]
                known = min(stars, default=len(call.args))
                for number, argument in enumerate(call.args):
                    found[self._position(argument)] = number if number < known else None
        return found

    def _position(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        """Return the line and the column, in characters, at which a node begins."""
        line = self.line(node.lineno)
        if line.isascii():
            return node.lineno, node.col_offset + 1
        before = line[:_MAX_LINE].encode("utf-8", "replace")[: node.col_offset]
        return node.lineno, len(before.decode("utf-8", "replace")) + 1

    def argument(self, line: int, column: int) -> int | None:
        """Return the index of the positional argument that begins at a position."""
        return self._arguments.get((line, column))

    def follows_unpacked(self, line: int, column: int) -> bool:
        """Return whether an argument is an unpacked one, `*values`, or comes after one."""
        return self._arguments.get((line, column), 0) is None

    @cached_property
    def _handle_spans(self) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
        """The places of arguments that are, or have, a handle, which is no value of their type."""
        named = {
            target.id
            for node in self._nodes
            if isinstance(node, ast.Assign | ast.AnnAssign) and _has_handle(node.value)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        return tuple(
            (self._position(each), (each.end_lineno or 0, each.end_col_offset or 0))
            for call in self._nodes
            if isinstance(call, ast.Call)
            for each in _list_arguments(call)
            if _has_handle(each, named)
        )

    def is_in_handle(self, line: int, column: int) -> bool:
        """Return whether a position is in an argument with a handle of a kept result."""
        return any(first <= (line, column) <= last for first, last in self._handle_spans)

    def catches(self, line: int, *names: str) -> bool:
        """Return whether the code catches one of these exceptions around a line."""
        around = [
            node
            for node in self._nodes
            if isinstance(node, ast.Try) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
        ]
        kinds = [handler.type for node in around for handler in node.handlers if handler.type]
        named = [part for kind in kinds for part in _list_elements(kind)]
        return any(isinstance(part, ast.Name) and part.id in names for part in named)

    def left_unawaited(self, paths: Container[str]) -> Iterator[tuple[str, int, int]]:
        """Yield calls whose coroutine is left in `__out`: calls of tools, and of the code's own coroutines.

        Each is the path that is called, a line and a column. Where `__out` is read, or assigned more than
        once, the code may still await it.
        """
        values = [node.value for node in self._nodes if isinstance(node, ast.Assign) and _assigns_out(node)]
        if len(values) != 1 or self._uses[_OUT, ast.Load] or self._uses[_OUT, ast.Store] != 1:
            return
        for part in _list_elements(values[0]):
            call = self._assigned.get(part.id) if isinstance(part, ast.Name) else part
            if isinstance(call, ast.Call):
                path = _called_path(call.func)
                if path in paths or path in self._coroutines:
                    yield path, *self._position(call)

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
        """The values of the names that are assigned once and read once."""
        return {
            node.targets[0].id: node.value
            for node in self._nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and self._uses[node.targets[0].id, ast.Store] == self._uses[node.targets[0].id, ast.Load] == 1
        }


def _neutralize_escape(escape: re.Match[str]) -> str:
    """Replace an invalid escape by text of the same length, since the parser warns of it."""
    return escape[0] if escape[1] in "\\'\"\r\n" else f"/{escape[1]}"


def _called_path(called: ast.expr) -> str:
    """Return `space.tool` or `tool`, as a call names it."""
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        return f"{called.value.id}.{called.attr}"
    return called.id if isinstance(called, ast.Name) else ""


def _assigns_out(node: ast.Assign) -> bool:
    target = node.targets[0]
    return len(node.targets) == 1 and isinstance(target, ast.Name) and target.id == _OUT


def _has_handle(node: ast.AST | None, names: Container[str] = ()) -> bool:
    """Return whether a handle, or one of the names of handles, is written somewhere in a node."""
    return node is not None and any(
        (isinstance(part, ast.Name) and part.id in names)
        or (
            isinstance(part, ast.Dict)
            and any(isinstance(key, ast.Constant) and key.value == KEPT for key in part.keys)
        )
        for part in ast.walk(node)
    )


def _list_arguments(call: ast.Call) -> list[ast.expr | ast.keyword]:
    return [*call.args, *call.keywords]


def _list_elements(value: ast.expr) -> list[ast.expr]:
    """Return the elements of a written dict, list or tuple, or else the value itself."""
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
    """Whether it is something that a full Python has, and this engine lacks."""


@dataclass(frozen=True)
class Diagnostic:
    """One diagnostic of the type checker."""

    rule: str
    message: str
    line: int
    column: int

    @cached_property
    def ticked(self) -> tuple[str, ...]:
        """The names in its message: functions, types, arguments."""
        return tuple(_TICKED.findall(self.message))

    @property
    def subject(self) -> str:
        """The first name in its message."""
        return self.ticked[0] if self.ticked else ""

    def problem(self, text: str, *, unsupported: bool = False) -> CodeProblem:
        """Return a problem at this place."""
        return CodeProblem(self.line, self.column, text, unsupported)


@dataclass(frozen=True)
class CheckContext:
    """The code, the meaning of its names, and all diagnostics."""

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
        """The number of times that a key is reported at each position: once for each type that lacks it."""
        return Counter((found.line, found.column) for found in self.findings if found.rule == "invalid-key")

    def at(self, finding: Diagnostic) -> str:
        """Return the code from where a finding points to the end of the line."""
        return self.source.line(finding.line)[finding.column - 1 :]

    def before(self, finding: Diagnostic) -> str:
        """Return the code of the line before the place that a finding points at."""
        return self.source.line(finding.line)[: finding.column - 1][-_MAX_BEFORE:]

    def called(self, finding: Diagnostic) -> str | None:
        """Return the tool that a diagnostic is about, or the function of the code that nothing wraps."""
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
