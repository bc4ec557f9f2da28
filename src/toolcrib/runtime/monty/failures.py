"""What the engine says when code fails, in our words."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from pydantic_monty import MontyCrashedError, MontyError, MontyRuntimeError, MontySyntaxError

from toolcrib.errors import CodeError, LimitExceededError, SandboxViolationError, ToolcribError
from toolcrib.runtime.monty.bounds import memory_of, suspensions_of
from toolcrib.runtime.monty.lacking import foreseen, lacking, lacking_syntax
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.wording import lacks

__all__ = ["check_foreseen", "failure", "in_value", "is_unread"]

_LIMITS: tuple[tuple[str, str], ...] = (
    (r"TimeoutError: (?:feed|turn) time limit exceeded: ", "cpu"),
    (r"MemoryError: memory limit exceeded: \d{1,30} bytes > \d{1,30} bytes$", "memory_bytes"),
    (r"MemoryError: the worker exceeded its memory limit", "memory_bytes"),
    (r"TimeoutError: sleep limit exceeded: ", "timeout"),
    (r"RuntimeError: suspension limit \d{1,30} exceeded$", "max_tool_calls"),
)
"""How a limit of the engine reads, and which of ours it is."""
_SAID = {
    "cpu": "it computed for more than {cpu:g} s",
    "memory_bytes": "it needs more than {memory:,.6g} MB",
    "timeout": "it would sleep for longer than the {timeout:g} s that it has",
    "max_tool_calls": "it called out more than {suspensions:,} times",
}
_NO_TOOL = re.compile(r"AttributeError: 'ToolNamespace' object has no attribute '(\w{1,200})'$")
_KILLED = {9, 137}
"""How a worker ends that the system took the memory from."""
_KILLED_BARE = "(signal: 9 "
"""How that reads of a worker without a wall, which has no exit status then, in the words of the engine."""
_MAX_TEXT, _MAX_LINE, _MAX_FRAMES = 2000, 200, 20


class _Place(NamedTuple):
    """A line of the code that was under way."""

    line: int
    column: int
    function_name: str | None
    source_line: str


def failure(error: MontyError, job: Job, *, before: int = 0) -> ToolcribError:
    """Return what an exception of the engine means to whoever wrote the code.

    `before` is how many lines stood before the code.
    """
    code = job.code
    if isinstance(error, MontyCrashedError):
        return _crash(error, job)
    if not isinstance(error, MontyRuntimeError | MontySyntaxError):
        return CodeError(_cut(str(error)))
    frames = _own_frames(error, before)
    said = f"SyntaxError: {error}" if isinstance(error, MontySyntaxError) else str(error)
    own = bool(frames) and _raised(frames[-1])
    if not own and (limit := _limit(said, job)):
        return limit
    missing = None if own else _missing(error, said, code)
    lines = code.splitlines()
    line, column = _place(frames[-1], lines) if frames else (None, None)
    trace = _traceback(frames, lines, said)
    reason = _cut(said) + _hint(said) if missing is None else lacks(_cut(missing))
    return CodeError(reason, line=line, column=column, traceback=trace, unsupported=missing is not None)


def is_unread(error: MontyError) -> bool:
    """Return whether code could not be read at all; an `eval` in it fails alike, and in a function."""
    if not isinstance(error, MontySyntaxError):
        return False
    frames = error.traceback()
    return not frames or frames[-1].function_name is None


def in_value(error: MontyError, code: str) -> bool:
    """Return whether the code itself went well, and only what it left in `__out` could not be written."""
    if not isinstance(error, MontyRuntimeError):
        return False
    frames = error.traceback()
    after = bool(frames) and frames[0].line > len(code.splitlines())
    return after and isinstance(error.exception(), TypeError | ValueError | RecursionError)


def _crash(error: MontyCrashedError, job: Job) -> ToolcribError:
    if error.timed_out:
        return LimitExceededError("cpu", f"{_told('cpu', job)}, and had to be killed")
    if error.exit_status in _KILLED or _KILLED_BARE in str(error):
        return LimitExceededError("memory_bytes", "its worker was killed, most likely for the memory it took")
    return SandboxViolationError("its worker died")


def _limit(said: str, job: Job) -> LimitExceededError | None:
    for pattern, name in _LIMITS:
        if re.match(pattern, said):
            return LimitExceededError(name, _told(name, job))
    return None


def _told(limit: str, job: Job) -> str:
    limits = job.limits
    memory = memory_of(limits) / (1 << 20)
    return _SAID[limit].format(
        cpu=limits.cpu, memory=memory, timeout=job.timeout, suspensions=suspensions_of(limits)
    )


def _own_frames(error: MontyRuntimeError | MontySyntaxError, before: int) -> list[_Place]:
    """Return the frames of the code itself, in which it begins: not those of our prelude, or of an `eval`."""
    frames = error.traceback()
    return [
        _Place(frame.line - before, frame.column, frame.function_name, frame.source_line or "")
        for frame in frames
        if frame.filename == frames[0].filename != "<string>"
    ]


def _hint(said: str) -> str:
    """Return how else to reach a tool: those of a namespace are known by where the code names them."""
    found = _NO_TOOL.match(said)
    return f"; write `.{found[1]}` after its name, or call run_tool" if found else ""


def _raised(frame: _Place) -> bool:
    """Return whether a `raise` of the code itself stands at a frame, whatever the exception says."""
    line = frame.source_line.partition("\n")[0]
    before, after = line[: frame.column - 1], line[frame.column - 1 :]
    return re.search(r"\braise\s*\(*$", before) is not None or re.match(r"raise\b", after) is not None


def _missing(error: MontyError, said: str, code: str) -> str | None:
    if not isinstance(error, MontySyntaxError):
        return lacking(said)
    return f"this: {error}" if is_unread(error) and lacking_syntax(code) else None


def check_foreseen(code: str) -> None:
    """Refuse code that the engine would run wrongly.

    Raises:
        CodeError: with the first thing in it that the engine lacks.
    """
    found = foreseen(code)
    if found is not None:
        raise CodeError(lacks(found[1]), found[0], unsupported=True)


def _place(frame: _Place, lines: Sequence[str]) -> tuple[int, int]:
    """Return line and column, of which those beyond the code are its end."""
    if frame.line <= len(lines):
        return frame.line, frame.column
    return max(1, len(lines)), len(lines[-1]) + 1 if lines else 1


def _traceback(frames: Sequence[_Place], lines: Sequence[str], said: str) -> str:
    half = _MAX_FRAMES // 2
    hidden = max(0, len(frames) - _MAX_FRAMES)
    told = ["Traceback (most recent call last):"] if frames else []
    told += [_shown(frame, lines) for frame in frames[:half]]
    told += [f"  [{hidden} more]"] * bool(hidden)
    told += [_shown(frame, lines) for frame in frames[half + hidden :]]
    return "\n".join([*told, _cut(said)])


def _shown(frame: _Place, lines: Sequence[str]) -> str:
    line, _ = _place(frame, lines)
    source = lines[line - 1].strip() if lines else ""
    return f'  File "<code>", line {line}, in {frame.function_name or "<module>"}\n    {source[:_MAX_LINE]}'


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... [{len(text):,} characters]"
