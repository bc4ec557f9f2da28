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
    """How much it may use."""
    timeout: float
    """Seconds that are left of the caller's; whoever runs the job also cancels it when they are over."""
    profile: SecurityProfile
    """How strong the isolation must be."""
    names: tuple[str, ...]
    """The names that stand for namespaces: an attribute of one is an asynchronous function."""
    functions: tuple[str, ...]
    """The names that are asynchronous functions themselves; `run_tool` and its like are among them."""
    output: Output = field(compare=False)
    """Takes what the code prints, as it prints it, and keeps what the limits allow."""
    journal: Journal | None = field(default=None, compare=False)
    """Where a durable run is written down; only a sandbox whose attribute `durable` is true gets it."""


@runtime_checkable
class Sandbox(Protocol):
    """Runs untrusted code behind a wall.

    Entering is cheap and starts nothing that is not needed; leaving ends every process. Between the two, runs
    come from many tasks of one event loop at once, as many as an attribute `concurrency` says, or else 16,
    and no run sees anything of another. Plug-ins are found by the entry points `toolcrib.sandboxes`: a name,
    and a class that is made without arguments.
    """

    kind: str

    def info(self) -> BackendInfo:
        """Return its properties, with `details` about whether it can run here and what to install if not."""
        ...

    def enforces(self, limits: Limits) -> LimitsEnforced:
        """Return the limits that it really enforces on this machine."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def run(self, job: Job, bridge: Bridge) -> Any:
        """Run the code and return what it left in `__out`, as JSON; None where it left nothing.

        In the guest each name of `job.functions`, and each attribute of a name of `job.names`, is an
        asynchronous function; a call of it is answered by `await bridge.call(path, args, kwargs)`, where the
        path is `name` or `name.attribute`. What that returns is the result, and a `GuestError` is raised in
        the guest as the builtin exception that it names. Anything else that it raises ends the run: it is
        let through. A call may be cancelled at any time, and so may the run: no process may be left behind,
        and what the guest has printed until then is in `job.output`.

        Raises:
            CodeError: the code is wrong or raised; `unsupported` where the sandbox's language lacks it.
            LimitExceededError: of `memory_bytes`, `cpu`, `pids`, `disk_bytes`, `output_bytes` or `timeout`.
            SandboxViolationError: the guest broke the protocol or died of an attempt.
            RuntimeUnavailableError: the sandbox cannot be started here.
        """
        ...


@runtime_checkable
class Catalogue(Protocol):
    """The tools that code may name; its methods are fast, and may be called at any time."""

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces; an empty one stands for the tools without."""
        ...

    def names(self, namespace: str) -> Sequence[str]:
        """Return the names of the tools in a namespace, each once, whatever their versions."""
        ...

    def tools(self, refs: Sequence[str]) -> Mapping[str, Tool]:
        """Return the tools of references, without unknown ones.

        A tool that declares no output schema has the one that was learnt of its results, if there is one.
        """
        ...
