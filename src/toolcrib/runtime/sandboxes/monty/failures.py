"""Translates errors of the Monty engine into errors of toolcrib.

The engine reports limits, missing features of Python and failures of the code alike: as exceptions with a
message. So messages are compared with tables of patterns. The code may itself raise an exception with such a
message: a limit counts only if the exception does not come from a `raise` of the code, and a missing feature
is only named, never imported or called.

`find_unsupported` finds the opposite case, before the run: features that the engine accepts but gets wrong.
"""

import ast
import builtins
import importlib
import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pydantic_monty import MontyCrashedError, MontyError, MontyRuntimeError, MontySyntaxError, ResourceLimits

from toolcrib.errors import CodeError, LimitExceededError, SandboxViolationError, ToolcribError
from toolcrib.runtime.guest_errors import unsupported_message
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.request import Limits
from toolcrib.runtime.sandboxes.monty.wall import MAX_MEMORY

_LIMIT_MESSAGES: tuple[tuple[str, str], ...] = (
    (r"TimeoutError: (?:feed|turn) time limit exceeded: ", "cpu"),
    (r"MemoryError: memory limit exceeded: \d{1,30} bytes > \d{1,30} bytes$", "memory_bytes"),
    (r"MemoryError: the worker exceeded its memory limit", "memory_bytes"),
    (r"TimeoutError: sleep limit exceeded: ", "timeout"),
    (r"RuntimeError: suspension limit \d{1,30} exceeded$", "max_tool_calls"),
)
"""Messages of the engine's limits, and the field of `Limits` for each."""
_LIMIT_TEXTS = {
    "cpu": "it computed for more than {cpu:g} s",
    "memory_bytes": "it needs more than {memory:,.6g} MB",
    "timeout": "it would sleep for longer than the {timeout:g} s that it has",
    "max_tool_calls": "it called out more than {suspensions:,} times",
}
_NO_TOOL = re.compile(r"AttributeError: 'ToolNamespace' object has no attribute '(\w{1,200})'$")
_KILLED_STATUSES = {9, 137}
"""Exit statuses of a worker after SIGKILL, by which the kernel ends a process when memory runs out."""
_KILLED_TEXT = "(signal: 9 "
"""The same in the message of the engine, for a worker without bubblewrap, which has no exit status then."""
_MAX_REASON = 2000
_MAX_LINE = 200
_MAX_FRAMES = 20
_MAX_PARSED = 1 << 16
"""The most characters of code that are parsed a second time, to explain a failure."""
_MAX_MESSAGE = 1000
"""The most characters of a message that are compared; messages of the engine are shorter."""
_ENGINE_MODULES = (
    "asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib",
    "itertools json math os os.path pathlib posixpath random re sys time tomllib typing unicodedata",
)
"""The modules of which the engine has a part."""
_MODULE_MEMBERS = MappingProxyType(
    {name: frozenset(vars(importlib.import_module(name))) for name in " ".join(_ENGINE_MODULES).split()}
)
"""Their members in Python, so that a missing one can be told from a misspelt one."""
_OPTION = "return_exceptions"
_IGNORED_METHODS = re.compile(
    r"__(?:len|bool|lt|le|gt|ge|format|bytes|reversed|getattr|getattribute|setattr|new|get|set|delete|set_name"
    r"|class_getitem|i(?:add|sub|mul|truediv|floordiv|mod|pow|and|or|xor))__"
)
"""Methods that the engine never calls."""
_SUSPECT_CODE = re.compile(
    rf"^[ \t]++(?:async[ \t]++)?def[ \t]++({_IGNORED_METHODS.pattern})[ \t]*+\("
    rf"|\b{_OPTION}\s*+=|\bnext[ \t]*+\("
    r"|(?<==)[ \t]*+(?=\([^\n]{1,400}?\bfor\b)",
    re.MULTILINE,
)
_FEATURE_NAMES = {_OPTION: f"`{_OPTION}`", "next": "`next` of a generator", "for": "generators that are kept"}
_MAX_RECURSION = 1000
"""The default of CPython."""
_SUSPENSIONS_PER_CALL = 4
_OTHER_SUSPENSIONS = 10_000
"""For everything that is no call of a tool, such as sleeping and reading the clock."""


class _Frame(NamedTuple):
    """One frame of a traceback."""

    line: int
    column: int
    function_name: str | None
    source_line: str


def read_failure(error: MontyError, job: Job, *, before: int = 0) -> ToolcribError:
    """Return the toolcrib error for an exception of the engine.

    `before` is the number of lines before the code.
    """
    code = job.code
    if isinstance(error, MontyCrashedError):
        return _read_crash(error, job)
    if not isinstance(error, MontyRuntimeError | MontySyntaxError):
        return CodeError(_shorten(str(error)))
    frames = _list_own_frames(error, before)
    message = f"SyntaxError: {error}" if isinstance(error, MontySyntaxError) else str(error)
    own = bool(frames) and _is_raise(frames[-1])
    if not own and (limit := _read_limit(message, job)):
        return limit
    missing = None if own else _find_missing(error, message, code)
    lines = code.splitlines()
    line, column = _clamp_position(frames[-1], lines) if frames else (None, None)
    trace = _format_traceback(frames, lines, message)
    reason = (
        _shorten(message) + _suggest_call(message)
        if missing is None
        else unsupported_message(_shorten(missing))
    )
    return CodeError(reason, line=line, column=column, traceback=trace, unsupported=missing is not None)


def has_syntax_error(error: MontyError) -> bool:
    """Return whether the code itself has a syntax error, and not a text that it gave to `eval`."""
    if not isinstance(error, MontySyntaxError):
        return False
    frames = error.traceback()
    return not frames or frames[-1].function_name is None


def is_value_error(error: MontyError, code: str) -> bool:
    """Return whether the code succeeded, and only the value in `__out` could not be written as JSON."""
    if not isinstance(error, MontyRuntimeError):
        return False
    frames = error.traceback()
    after = bool(frames) and frames[0].line > len(code.splitlines())
    return after and isinstance(error.exception(), TypeError | ValueError | RecursionError)


def _read_crash(error: MontyCrashedError, job: Job) -> ToolcribError:
    if error.timed_out:
        return LimitExceededError("cpu", f"{_describe_limit('cpu', job)}, and had to be killed")
    if error.exit_status in _KILLED_STATUSES or _KILLED_TEXT in str(error):
        return LimitExceededError("memory_bytes", "its worker was killed, most likely for the memory it used")
    return SandboxViolationError("its worker died")


def _read_limit(text: str, job: Job) -> LimitExceededError | None:
    for pattern, name in _LIMIT_MESSAGES:
        if re.match(pattern, text):
            return LimitExceededError(name, _describe_limit(name, job))
    return None


def _describe_limit(limit: str, job: Job) -> str:
    suspensions = engine_limits(job.limits, job.timeout)["max_suspensions"]
    memory = min(job.limits.memory_bytes, MAX_MEMORY) / (1 << 20)
    return _LIMIT_TEXTS[limit].format(
        cpu=job.limits.cpu, memory=memory, timeout=job.timeout, suspensions=suspensions
    )


def _list_own_frames(error: MontyRuntimeError | MontySyntaxError, before: int) -> list[_Frame]:
    """Return the frames of the code itself, without those of our prelude or of an `eval`."""
    frames = error.traceback()
    return [
        _Frame(frame.line - before, frame.column, frame.function_name, frame.source_line or "")
        for frame in frames
        if frame.filename == frames[0].filename != "<string>"
    ]


def _suggest_call(text: str) -> str:
    """Return a hint for a tool whose name is computed: a namespace has only the tools that the code names."""
    found = _NO_TOOL.match(text)
    return f"; write `.{found[1]}` after its name, or call run_tool" if found else ""


def _is_raise(frame: _Frame) -> bool:
    """Return whether the exception was raised by a `raise` statement of the code itself."""
    line = frame.source_line.partition("\n")[0]
    before, after = line[: frame.column - 1], line[frame.column - 1 :]
    return re.search(r"\braise\s*\(*$", before) is not None or re.match(r"raise\b", after) is not None


def _find_missing(error: MontyError, text: str, code: str) -> str | None:
    if not isinstance(error, MontySyntaxError):
        return find_missing_feature(text)
    return f"this: {error}" if has_syntax_error(error) and is_valid_python(code) else None


def _clamp_position(frame: _Frame, lines: Sequence[str]) -> tuple[int, int]:
    """Return the line and the column of a frame; a position after the code becomes its end."""
    if frame.line <= len(lines):
        return frame.line, frame.column
    return max(1, len(lines)), len(lines[-1]) + 1 if lines else 1


def _format_traceback(frames: Sequence[_Frame], lines: Sequence[str], text: str) -> str:
    half = _MAX_FRAMES // 2
    hidden = max(0, len(frames) - _MAX_FRAMES)
    parts = ["Traceback (most recent call last):"] if frames else []
    parts += [_format_frame(frame, lines) for frame in frames[:half]]
    parts += [f"  [{hidden} more]"] * bool(hidden)
    parts += [_format_frame(frame, lines) for frame in frames[half + hidden :]]
    return "\n".join([*parts, _shorten(text)])


def _format_frame(frame: _Frame, lines: Sequence[str]) -> str:
    line, _ = _clamp_position(frame, lines)
    source = lines[line - 1].strip() if lines else ""
    return f'  File "<code>", line {line}, in {frame.function_name or "<module>"}\n    {source[:_MAX_LINE]}'


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}... [{len(text):,} characters]"


def find_missing_feature(text: str) -> str | None:
    """Return the feature of Python that the engine lacks, if that caused an exception; else None.

    The code may have made up the message, so it is only compared with tables: no name in it is imported,
    called or looked up.

    >>> find_missing_feature("ModuleNotFoundError: No module named 'statistics'")
    "the module 'statistics'"
    >>> find_missing_feature("ModuleNotFoundError: No module named 'statistik'")
    """
    for pattern, describe in _MESSAGES:
        if found := re.match(pattern, text[:_MAX_MESSAGE], re.DOTALL):
            return found.expand(describe) if isinstance(describe, str) else describe(found)
    return None


def find_unsupported(code: str) -> tuple[int, str] | None:
    r"""Return the line and the name of the first feature in code that the engine gets wrong.

    It silently ignores some special methods and turns generators into lists, so that code would continue with
    a wrong value. And it refuses `return_exceptions` only after the gathered tools have been called.

    >>> find_unsupported("class Bag:\n    def __len__(self): return 3")
    (2, 'classes with `__len__`')
    """
    suspect = _SUSPECT_CODE.search(code)
    if suspect is None:
        return None
    if len(code) > _MAX_PARSED:  # judged by the pattern alone, although the match may be in a string
        found = (
            _describe_method(suspect[1])
            if suspect[1]
            else _FEATURE_NAMES[suspect[0].strip(" (=\t\n") or "for"]
        )
        return code.count("\n", 0, suspect.end()) + 1, found
    tree = _parse_python(code)
    return min(_find_in_tree(tree), default=None) if tree is not None else None


def _find_in_tree(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and _IGNORED_METHODS.fullmatch(
                    member.name
                ):
                    yield member.lineno, _describe_method(member.name)
        elif isinstance(node, ast.keyword) and node.arg == _OPTION:
            yield node.lineno, _FEATURE_NAMES[_OPTION]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next":
            if node.args and _is_lazy(node.args[0]):
                yield node.lineno, _FEATURE_NAMES["next"]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.GeneratorExp):
            yield node.lineno, _FEATURE_NAMES["for"]


def _is_lazy(node: ast.expr) -> bool:
    """Return whether an expression is an iterator in Python but a list in the engine."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return isinstance(node, ast.GeneratorExp) or name in {"map", "zip", "filter", "enumerate", "reversed"}


def _describe_method(method: str) -> str:
    return f"classes with `{method}`"


def is_valid_python(code: str) -> bool:
    """Return whether code is valid Python.

    >>> is_valid_python("x = (1,")
    False
    """
    return _parse_python(code) is not None


def _parse_python(code: str) -> ast.Module | None:
    """Parse code as Python; None if it is not valid, or too long to parse again."""
    if len(code) > _MAX_PARSED:
        return None
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree: ast.Module = compile(code, "<code>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree


def _name_module(found: re.Match[str]) -> str | None:
    return f"the module {found[1]!r}" if found[1] in sys.stdlib_module_names else None


def _name_builtin(found: re.Match[str]) -> str | None:
    return f"the builtin {found[1]!r}" if found[1] in vars(builtins) else None


def _name_member(found: re.Match[str]) -> str | None:
    """Return the name of a member that the engine's version of a module lacks."""
    module, name = found["module"], found["name"]
    return f"{module}.{name}" if name in _MODULE_MEMBERS.get(module, ()) else None


def _name_attribute(found: re.Match[str]) -> str | None:
    text = found["kind"] == "_io.TextIOWrapper"
    kind = io.TextIOWrapper if text else vars(builtins).get(found["kind"])
    bases = kind.__mro__ if type(kind) is type else ()
    known = any(found["name"] in vars(base) for base in bases)
    return f"{found['kind']}.{found['name']}" if known else None


_MESSAGES: tuple[tuple[str, str | Callable[[re.Match[str]], str | None]], ...] = (
    (r"NotImplementedError: The monty syntax parser does not yet support (.+)", r"\1"),
    (
        r"NotImplementedError: .* cannot suspend in this synchronous context$",
        "a call of a tool where it cannot be awaited, such as in `map`",
    ),
    (r"\w+: (.*\bnot yet support.*|Internal error in monty: .*)", r"this: \1"),
    (r"NotImplementedError: (Wildcard imports) ", r"\1"),
    (
        r"TypeError: '(?:list|tuple)' object is not an iterator$",
        "iterators of this kind, which are lists there",
    ),
    (r"ModuleNotFoundError: No module named '(\w++)[^']*+'$", _name_module),
    (r"ImportError: cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'", _name_member),
    (r"AttributeError: module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'$", _name_member),
    (r"NameError: name '(\w+)' is not defined$", _name_builtin),
    (r"AttributeError: '(?P<kind>[\w.]+)' object has no attribute '(?P<name>\w+)'$", _name_attribute),
)
"""Messages about missing features, each with a template or a function for the name of the feature."""


def engine_limits(limits: Limits, timeout: float) -> ResourceLimits:
    """Return limits in the form of the engine.

    Each call, each sleep and each reading of the clock suspends the engine.

    >>> engine_limits(Limits(max_tool_calls=10), 1.0)["max_suspensions"]
    10040
    """
    return {
        "max_memory": min(limits.memory_bytes, MAX_MEMORY),
        "max_feed_duration_secs": limits.cpu,
        "max_recursion_depth": _MAX_RECURSION,
        "max_suspensions": _OTHER_SUSPENSIONS + _SUSPENSIONS_PER_CALL * limits.max_tool_calls,
        "max_total_sleep_secs": timeout,
    }
