"""A request to run code, with its limits, and its output and result."""

from collections.abc import Container
from enum import StrEnum
from threading import Lock
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from toolcrib.errors import Problem, ToolcribError, ValidationError
from toolcrib.errors.base import count_noun
from toolcrib.execution.chains import ChainStep
from toolcrib.execution.chains.from_code import read_steps
from toolcrib.model import ToolCallRecord
from toolcrib.model.display import brief
from toolcrib.model.record import JsonObject, Record
from toolcrib.model.suggest import choose

MAX_CODE = 1 << 20
"""The maximum length of the code, in characters."""
Readiness = Literal["prod", "beta", "stub"]
"""The maturity of a backend, which says nothing about the strength of its isolation."""
_Count = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
_Bytes = Annotated[int, Field(strict=True, ge=0, le=64 << 30)]
_Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)]
Stream = Literal["stdout", "stderr"]
SandboxKind = Literal["monty", "process", "docker", "gvisor", "wasm", "unsafe"]
"""The built-in kinds of sandboxes."""
ProfileName = Literal["dev", "standard", "hardened"]
"""A `SecurityProfile` as text."""


class SecurityProfile(StrEnum):
    """The required isolation: none for `dev`, one layer for `standard`, two nested layers for `hardened`."""

    DEV = "dev"
    STANDARD = "standard"
    HARDENED = "hardened"


def _check_code(code: str) -> str:
    if len(code) > MAX_CODE:
        raise PydanticCustomError(
            "size", "must not be longer than {size} characters", {"size": f"{MAX_CODE:,}"}
        )
    code = code.removeprefix("\ufeff")  # the byte order mark that some editors write
    if not code.strip():
        raise PydanticCustomError("empty", "is empty: there is no code to run")
    return code


def _add_suggestion(problem: Problem, record: type[Record]) -> Problem:
    """Add to the problem of an unknown field the name of the nearest known field."""
    if problem.keyword != "extra_forbidden":
        return problem
    name = problem.path.rpartition("/")[2]
    fields = [*record.model_fields] if problem.path.count("/") == 1 else [*Limits.model_fields]
    return Problem(problem.path, problem.keyword, f"is not one of the fields{choose(name, fields)}")


class _CallerRecord(Record):
    """A record that a caller fills in; its problems are raised as a `ValidationError`."""

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:  # noqa: ARG003 - the base's signature
        return ValidationError(tuple(_add_suggestion(problem, cls) for problem in problems))


class Limits(_CallerRecord):
    """Limits on one run of code.

    >>> Limits(max_tool_calls=5).memory_bytes
    268435456
    """

    max_tool_calls: _Count = 100
    """Tool calls; each step of a chain counts as one."""
    max_chain_steps: _Count = 50
    """Steps of one chain."""
    memory_bytes: Annotated[int, Field(strict=True, ge=16 << 20, le=64 << 30)] = 256 << 20
    """Memory of the guest."""
    cpu: _Seconds = 10.0
    """Seconds of CPU time, not counting tools."""
    pids: Annotated[int, Field(strict=True, ge=1, le=4096)] = 32
    """Processes and threads."""
    disk_bytes: _Bytes = 16 << 20
    """Size of the guest's temporary folder, which is deleted after the run."""
    output_bytes: _Bytes = 1 << 20
    """Bytes of stdout that are kept, and likewise of stderr; also the limit for the returned value as
    JSON."""


class LimitsEnforced(Record):
    """The limits that a backend enforces."""

    timeout: bool = False
    """The deadline of the run."""
    tool_calls: bool = False
    """The number of calls."""
    chain_steps: bool = False
    """The number of steps in a chain."""
    memory: bool = False
    """Memory."""
    cpu: bool = False
    """CPU time."""
    pids: bool = False
    """Processes and threads."""
    disk: bool = False
    """Size of the temporary folder."""
    output: bool = False
    """Size of the output and of the value."""


class ExecuteRequest(_CallerRecord):
    """Code that calls tools, and the settings of its run.

    >>> ExecuteRequest(code="__out = 1 + 1").timeout
    30.0

    Raises:
        ValidationError: with every problem found.
    """

    code: Annotated[str, AfterValidator(_check_code)]
    """The code, of at most `MAX_CODE` characters."""
    language: Literal["python"] = "python"
    """The language of the code."""
    timeout: _Seconds = 30.0
    """Seconds for everything: waiting for a sandbox, computing, and the tools."""
    limits: Limits = Limits.from_valid()
    """Limits of the run."""
    profile: SecurityProfile = SecurityProfile.STANDARD
    """The required isolation."""
    backend: str | None = None
    """A kind of sandbox; None takes the first that the profile allows."""
    language_fallback: bool = False
    """Whether to run the code in `process` if the sandbox does not support it, and no tool was called."""


class BackendInfo(Record):
    """The properties of a kind of sandbox on this machine."""

    kind: str
    """The kind of sandbox."""
    readiness: Readiness
    """Its maturity."""
    details: JsonObject = Field(default_factory=dict)
    """`available`; `remedy`: what to install if it is not; `isolation`: the layers by name; `profiles`."""


class ExecuteResult(Record):
    """The result of one run of code."""

    value: Any = None
    """The value of `__out` as JSON. Untrusted: the code may have set it to anything."""
    stdout: str = ""
    """Standard output of the code, up to the limit."""
    stderr: str = ""
    """Standard error of the code, up to the limit."""
    tool_calls: tuple[ToolCallRecord, ...] = ()
    """All tool calls in the order they began, as the host saw them."""
    duration: float
    """Seconds."""
    backend: BackendInfo
    """The sandbox that ran it."""
    limits_enforced: LimitsEnforced
    """The limits that the sandbox enforced."""
    notes: tuple[str, ...] = ()
    """Other events of the run, such as moving to another backend."""
    run_id: str | None = None
    """The id of a durable run, for `resume`."""
    code: str = Field(default="", repr=False)
    """The code, if it ran to its end; not part of the JSON form."""

    def __repr__(self) -> str:
        calls = count_noun(len(self.tool_calls), "call")
        return f"<ExecuteResult {brief(self.value)}, {calls}, {self.duration * 1000:.1f} ms>"

    __str__ = __repr__

    def to_chain(self) -> tuple[ChainStep, ...]:
        """Return the steps of a chain that makes the same calls, if the code only makes calls in sequence.

        Raises:
            NotStraightLineError: the code does more than a chain can, or did not run to its end.
        """
        return read_steps(self.code, self.tool_calls)

    def to_json(self, *, without: Container[str] = ()) -> dict[str, Any]:
        """Return the JSON form, without the code."""
        names = type(self).model_fields
        return super().to_json(without={"code"} | {name for name in names if name in without})


class Output:
    r"""Collects the two output streams of one run, up to a limit in bytes for each.

    >>> output = Output(limit=5)
    >>> output.write("stdout", b"hello, world")
    >>> output.text("stdout")
    'hello\n[7 more bytes were printed]'
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()  # an engine may print from threads of its own
        self._is_closed = False
        self._kept: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._lost: dict[Stream, int] = {"stdout": 0, "stderr": 0}

    def write(self, stream: Stream, data: bytes | str) -> None:
        """Keep as much as fits, until the output is closed."""
        if isinstance(data, str):
            data = data.encode("utf-8", "replace")
        with self._lock:
            if self._is_closed:
                return
            kept = self._kept[stream]
            room = self._limit - len(kept)
            kept += data[:room]
            self._lost[stream] += max(0, len(data) - room)

    def close(self) -> None:
        """Drop all later writes, because the run has ended."""
        with self._lock:
            self._is_closed = True

    def dump(self) -> dict[str, Any]:
        """Return everything as JSON, for `load`."""
        return {name: [kept.decode("latin-1"), self._lost[name]] for name, kept in self._kept.items()}

    def load(self, dumped: dict[str, Any]) -> None:
        """Restore a dumped state."""
        for name in self._kept:
            text, self._lost[name] = dumped[name]
            self._kept[name] = bytearray(text.encode("latin-1"))

    def text(self, stream: Stream) -> str:
        """Return the kept text, with a last line about the size of the rest."""
        text = self._kept[stream].decode("utf-8", "replace")
        lost = self._lost[stream]
        return f"{text}\n[{lost:,} more bytes were printed]" if lost else text
