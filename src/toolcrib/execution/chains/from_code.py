"""Reads a chain from code that calls one tool after another, and finds the constants of code.

The code is parsed, never run. Only a run that has succeeded is read: its recorded calls resolve the tools
that the names in the code stand for, and must match the calls in the code one by one.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import NotStraightLineError
from toolcrib.execution.chains.steps import ChainStep
from toolcrib.model.plain import pointer
from toolcrib.model.results import ToolCallRecord

_TEMPLATE_KEYWORDS = {"$ref", "$literal"}
_GENERIC_CALLS = {"run_tool"}
_OTHER_FUNCTIONS = {"search_tools", "describe_tool", "run_chain"}


@dataclass(frozen=True, slots=True)
class _Result:
    """A part of the result of a step."""

    step: int
    path: tuple[str | int, ...] = ()

    def to_json(self) -> dict[str, str]:
        return {"$ref": f"steps.{self.step}{pointer(self.path)}"}


def read_steps(code: str, calls: Sequence[ToolCallRecord]) -> tuple[ChainStep, ...]:
    """Return the steps of a chain that makes the same calls as a run of the code.

    Each statement of the code must await a tool, or assign a literal or a part of an earlier result to a
    name; arguments are literals and such parts; `__out` is the result of the last call.

    Raises:
        NotStraightLineError: the code does something else, with the line.
    """
    reader = _Reader(calls)
    body = ast.parse(code).body
    for statement in body:
        reader.read_statement(statement)
    end = body[-1].end_lineno or 1 if body else 1
    last = _Result(len(reader.steps) - 1)
    value, line = reader.names.get("__out", (None, end))
    if not reader.steps or value != last:
        raise NotStraightLineError(
            "a chain returns the result of its last step; leave only that in `__out`", line
        )
    if len(reader.steps) != len(calls):
        raise NotStraightLineError("the run made other calls than the code shows", end)
    return tuple(reader.steps)


def read_constants(code: str) -> dict[str, Any]:
    r"""Return the names of code that get a literal once, at its top level, with their values.

    >>> read_constants('city = "Oslo"\nlimit = 5\n__out = await weather.now(city=city)')
    {'city': 'Oslo', 'limit': 5}
    """
    return {name: value for name, value, _ in _find_constants(code)}


def replace_constants(code: str, values: dict[str, Any]) -> str:
    r"""Return code in which constants have other values, written as literals.

    >>> replace_constants('city = "Oslo"\n__out = city', {"city": "Rome"})
    "city = 'Rome'\n__out = city"
    """
    # `ast` counts columns in bytes of UTF-8; replaced from the end, so that earlier positions stay valid
    lines = [line.encode() for line in code.splitlines(keepends=True)]
    for name, _, node in reversed(list(_find_constants(code))):
        if name in values:
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            lines[first : last + 1] = [before + repr(values[name]).encode() + after]
    return b"".join(lines).decode()


def _find_constants(code: str) -> Iterator[tuple[str, Any, ast.expr]]:
    body = ast.parse(code).body
    stored = [
        node.id
        for node in ast.walk(ast.Module(body, []))
        if isinstance(node, ast.Name) and _is_assigned(node)
    ]
    for statement in body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if stored.count(name) == 1 and not name.startswith("_"):
                try:
                    yield name, _Reader(()).read_literal(value), value
                except NotStraightLineError:
                    continue


def _is_assigned(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


class _Reader:
    """Reads statements in order."""

    def __init__(self, calls: Sequence[ToolCallRecord]) -> None:
        self._calls = calls
        self.steps: list[ChainStep] = []
        self.names: dict[str, tuple[Any, int]] = {}
        """The value of each name, and the line of its assignment."""

    def read_statement(self, statement: ast.stmt) -> None:
        """Read one statement."""
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                meant = (
                    self._read_call(value.value) if isinstance(value, ast.Await) else self._read_value(value)
                )
                self.names[name] = meant, statement.lineno
            case ast.Expr(value=ast.Await(value=call)):
                self._read_call(call)
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                kind = type(statement).__name__.lower()
                raise NotStraightLineError(f"a chain has no `{kind}`", statement.lineno)

    def read_literal(self, node: ast.expr) -> Any:
        """Return the JSON value of a literal."""
        value = self._read_value(node)
        if _has_results(value):
            raise NotStraightLineError("it is not a literal", node.lineno)
        return value

    def _read_call(self, node: ast.expr) -> _Result:
        place = len(self.steps)
        if not isinstance(node, ast.Call):
            raise NotStraightLineError("what is awaited is not a call of a tool", node.lineno)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _OTHER_FUNCTIONS or place >= len(self._calls):
            raise NotStraightLineError("it calls something that is not a tool", node.lineno)
        call = self._calls[place]
        if call.error is not None:
            raise NotStraightLineError(f"this call failed: {call.error}", node.lineno)
        args = self._read_arguments(node, ["tool_id", "args"] if name in _GENERIC_CALLS else list(call.args))
        if name in _GENERIC_CALLS:
            args = args.get("args") or {}
        if not isinstance(args, dict):
            raise NotStraightLineError("the arguments are not written out here", node.lineno)
        self.steps.append(ChainStep(tool_id=call.tool_id, args=_to_template(args, outermost=True)))
        return _Result(place)

    def _read_arguments(self, node: ast.Call, names: Sequence[str]) -> dict[str, Any]:
        starred = any(isinstance(each, ast.Starred) for each in node.args)
        if starred or any(keyword.arg is None for keyword in node.keywords):
            raise NotStraightLineError("a chain has no `*` or `**` arguments", node.lineno)
        placed = dict(zip(names, map(self._read_value, node.args), strict=False))
        return placed | {str(keyword.arg): self._read_value(keyword.value) for keyword in node.keywords}

    def _read_value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=str() | int() | float() | None as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.List(elts=members) | ast.Tuple(elts=members):
                return [self._read_value(member) for member in members]
            case ast.Dict(keys=keys, values=values) if all(_is_text(key) for key in keys):
                return {key.value: self._read_value(each) for key, each in zip(keys, values, strict=True)}  # type: ignore[union-attr]
            case ast.Name(id=name) if name in self.names:
                return self.names[name][0]
            case ast.Subscript(value=whole, slice=ast.Constant(value=str() | int() as key)):
                found = self._read_value(whole)
                if isinstance(found, _Result):
                    return _Result(found.step, (*found.path, key))
        raise NotStraightLineError(
            f"a chain passes on literals and parts of results, not {ast.unparse(node)[:60]!r}", node.lineno
        )


def _is_text(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def _has_results(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_results, value))
    return isinstance(value, _Result) or (isinstance(value, dict) and any(map(_has_results, value.values())))


def _to_template(value: Any, *, outermost: bool = False) -> Any:
    """Return a value in the form of a chain, with references for results."""
    if isinstance(value, _Result):
        return value.to_json()
    if isinstance(value, list):
        return [_to_template(member) for member in value]
    if not isinstance(value, dict):
        return value
    if value.keys() & _TEMPLATE_KEYWORDS and not outermost and not _has_results(value):
        return {"$literal": value}
    return {name: _to_template(member) for name, member in value.items()}
