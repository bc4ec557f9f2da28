"""Protocols that a runtime depends on: sandboxes, and a catalogue of tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from toolcrib.model import Tool
from toolcrib.model.protocols import Journal
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.request import BackendInfo, Limits, LimitsEnforced, Output, SecurityProfile


@dataclass(frozen=True, slots=True)
class Job:
    """Code that has been checked, for one run in one sandbox."""

    code: str
    """The code to run."""
    limits: Limits
    """The limits on what it may use."""
    timeout: float
    """Seconds left of the caller's timeout; the runtime also cancels the run when they run out."""
    profile: SecurityProfile
    """The required isolation."""
    names: tuple[str, ...]
    """The names that stand for namespaces: an attribute of one is an asynchronous function."""
    functions: tuple[str, ...]
    """The names that are asynchronous functions, such as `run_tool`."""
    output: Output = field(compare=False)
    """Collects the printed output, up to the limits."""
    journal: Journal | None = field(default=None, compare=False)
    """Journal of a durable run; only a sandbox whose attribute `durable` is true gets one."""


@runtime_checkable
class Sandbox(Protocol):
    """Runs untrusted code in isolation.

    Entering is cheap and starts nothing that is not needed; leaving ends every process. In between, many
    tasks of one event loop call `run` at once, up to the attribute `concurrency` or else 16. A run must not
    see anything of another. Plug-ins are found through the entry point group `toolcrib.sandboxes`: a name,
    and a class whose constructor takes no arguments.
    """

    kind: str

    def info(self) -> BackendInfo:
        """Return its properties; `details` say whether it can run here, and what to install if not."""
        ...

    def enforces(self, limits: Limits) -> LimitsEnforced:
        """Return the limits that it enforces on this machine."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def run(self, job: Job, bridge: Bridge) -> Any:
        """Run the code and return the value of `__out` as JSON; None if it set none.

        In the guest each name of `job.functions`, and each attribute of a name of `job.names`, is an
        asynchronous function. For each call of one, the sandbox awaits `bridge.call(path, args, kwargs)`; the
        path is `name` or `name.attribute`. It passes the result to the guest, and raises a `GuestError` there
        as the builtin exception that it names. Every other exception ends the run and must propagate. A call
        and the run may be cancelled at any time: no process may be left behind, and the output so far must
        be in `job.output`.

        Raises:
            CodeError: the code is wrong or raised an exception; `unsupported` if the sandbox's language lacks
                a feature.
            LimitExceededError: the run exceeded `memory_bytes`, `cpu`, `pids`, `disk_bytes`, `output_bytes`
                or `timeout`.
            SandboxViolationError: the guest broke the protocol, or was killed for trying.
            RuntimeUnavailableError: the sandbox cannot be started here.
        """
        ...


@runtime_checkable
class Catalogue(Protocol):
    """The tools that code may name; the methods must be fast, and may be called at any time."""

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces; an empty one stands for the tools without a namespace."""
        ...

    def names(self, namespace: str) -> Sequence[str]:
        """Return the names of the tools in a namespace, each once, whatever their versions."""
        ...

    def tools(self, refs: Sequence[str]) -> Mapping[str, Tool]:
        """Return the tools that the references name, without unknown ones.

        A tool without an output schema has the schema inferred from its results, if there is one.
        """
        ...
