"""A chain read from code that calls one tool after another, and the constants of code."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import NotStraightLineError
from toolcrib.execution.chains.steps import ChainStep
from toolcrib.model.plain import pointer
from toolcrib.model.results import ToolCallRecord

_MEANINGS = {"$ref", "$literal"}
_CALLERS = {"run_tool"}
_NO_STEP = {"search_tools", "describe_tool", "run_chain"}


@dataclass(frozen=True, slots=True)
class _Result:
    """A part of what a step gave."""

    step: int
    path: tuple[str | int, ...] = ()

    def to_json(self) -> dict[str, str]:
        return {"$ref": f"steps.{self.step}{pointer(self.path)}"}


def read_steps(code: str, calls: Sequence[ToolCallRecord]) -> tuple[ChainStep, ...]:
    """Return the steps of a chain that makes the calls that a run of the code made.

    Each statement of the code awaits a tool, or names a literal or a part of an earlier result; arguments are
    literals and such parts; `__out` is what the last call gave.

    Raises:
        NotStraightLineError: the code does something else, with the line.
    """
    reader = _Reader(calls)
    body = ast.parse(code).body
    for statement in body:
        reader.read(statement)
    end = body[-1].end_lineno or 1 if body else 1
    last = _Result(len(reader.steps) - 1)
    value, line = reader.names.get("__out", (None, end))
    if not reader.steps or value != last:
        raise NotStraightLineError("a chain gives what its last step gave; leave just that in `__out`", line)
    if len(reader.steps) != len(calls):
        raise NotStraightLineError("the run made other calls than the code shows", end)
    return tuple(reader.steps)


def constants(code: str) -> dict[str, Any]:
    r"""Return the literals that code names at its top, each once, by name.

    >>> constants('city = "Oslo"\nlimit = 5\n__out = await weather.now(city=city)')
    {'city': 'Oslo', 'limit': 5}
    """
    return {name: value for name, value, _ in _constants(code)}


def with_constants(code: str, values: dict[str, Any]) -> str:
    r"""Return code in which constants have other values; they are written as literals.

    >>> with_constants('city = "Oslo"\n__out = city', {"city": "Rome"})
    "city = 'Rome'\n__out = city"
    """
    lines = [line.encode() for line in code.splitlines(keepends=True)]
    for name, _, node in reversed(list(_constants(code))):
        if name in values:
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            lines[first : last + 1] = [before + repr(values[name]).encode() + after]
    return b"".join(lines).decode()


def _constants(code: str) -> Iterator[tuple[str, Any, ast.expr]]:
    body = ast.parse(code).body
    stored = [
        node.id for node in ast.walk(ast.Module(body, [])) if isinstance(node, ast.Name) and _is_set(node)
    ]
    for statement in body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if stored.count(name) == 1 and not name.startswith("_"):
                try:
                    yield name, _Reader(()).literal(value), value
                except NotStraightLineError:
                    continue


def _is_set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


class _Reader:
    """Reads statements one after another."""

    def __init__(self, calls: Sequence[ToolCallRecord]) -> None:
        self._calls = calls
        self.steps: list[ChainStep] = []
        self.names: dict[str, tuple[Any, int]] = {}
        """What each name stands for, and in which line it got that."""

    def read(self, statement: ast.stmt) -> None:
        """Take one statement up."""
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                meant = self._call(value.value) if isinstance(value, ast.Await) else self._value(value)
                self.names[name] = meant, statement.lineno
            case ast.Expr(value=ast.Await(value=call)):
                self._call(call)
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                kind = type(statement).__name__.lower()
                raise NotStraightLineError(f"a chain has no `{kind}`", statement.lineno)

    def literal(self, node: ast.expr) -> Any:
        """Return the JSON value that a literal means."""
        value = self._value(node)
        if _has_results(value):
            raise NotStraightLineError("it is not a literal", node.lineno)
        return value

    def _call(self, node: ast.expr) -> _Result:
        place = len(self.steps)
        if not isinstance(node, ast.Call):
            raise NotStraightLineError("what is awaited is no call of a tool", node.lineno)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _NO_STEP or place >= len(self._calls):
            raise NotStraightLineError("it calls something that is no tool", node.lineno)
        call = self._calls[place]
        if call.error is not None:
            raise NotStraightLineError(f"this call failed: {call.error}", node.lineno)
        args = self._arguments(node, ["tool_id", "args"] if name in _CALLERS else list(call.args))
        if name in _CALLERS:
            args = args.get("args") or {}
        if not isinstance(args, dict):
            raise NotStraightLineError("the arguments are not written here", node.lineno)
        self.steps.append(ChainStep(tool_id=call.tool_id, args=_template(args, outermost=True)))
        return _Result(place)

    def _arguments(self, node: ast.Call, names: Sequence[str]) -> dict[str, Any]:
        starred = any(isinstance(each, ast.Starred) for each in node.args)
        if starred or any(keyword.arg is None for keyword in node.keywords):
            raise NotStraightLineError("a chain has no `*` or `**` arguments", node.lineno)
        placed = dict(zip(names, map(self._value, node.args), strict=False))
        return placed | {str(keyword.arg): self._value(keyword.value) for keyword in node.keywords}

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=str() | int() | float() | None as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.List(elts=members) | ast.Tuple(elts=members):
                return [self._value(member) for member in members]
            case ast.Dict(keys=keys, values=values) if all(_is_text(key) for key in keys):
                return {key.value: self._value(each) for key, each in zip(keys, values, strict=True)}  # type: ignore[union-attr]
            case ast.Name(id=name) if name in self.names:
                return self.names[name][0]
            case ast.Subscript(value=whole, slice=ast.Constant(value=str() | int() as key)):
                found = self._value(whole)
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


def _template(value: Any, *, outermost: bool = False) -> Any:
    """Return a value as a chain writes it."""
    if isinstance(value, _Result):
        return value.to_json()
    if isinstance(value, list):
        return [_template(member) for member in value]
    if not isinstance(value, dict):
        return value
    if value.keys() & _MEANINGS and not outermost and not _has_results(value):
        return {"$literal": value}
    return {name: _template(member) for name, member in value.items()}
