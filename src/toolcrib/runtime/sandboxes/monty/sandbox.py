"""The `monty` sandbox: a separate interpreter for a subset of Python, without access to the machine."""

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio import to_thread

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.isolation.bubblewrap import GUEST_UID
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.request import BackendInfo, Limits, LimitsEnforced, SecurityProfile
from toolcrib.runtime.sandboxes.monty.calls import Calls
from toolcrib.runtime.sandboxes.monty.wall import find_isolation, monty_binary

if TYPE_CHECKING:
    from toolcrib.runtime.sandboxes.monty.pool import WorkerPool

_ALL_ENFORCED = LimitsEnforced(**dict.fromkeys(LimitsEnforced.model_fields, True))


class MontySandbox:
    """Runs code in a worker of the `monty` engine, isolated by bubblewrap and seccomp if they work here.

    Code in the interpreter has no access to files, sockets, processes or environment variables. In addition,
    the worker itself has no network, no files but its own program, no privileges and few system calls.

    Args:
        bubblewrap: Whether bubblewrap isolates the workers; None uses it if it works here, True requires it.
        workers: The number of parallel runs; others wait.
    """

    kind = "monty"
    durable = True

    def __init__(self, *, bubblewrap: bool | None = None, workers: int = 8) -> None:
        self._bubblewrap = bubblewrap
        self.concurrency = workers
        self._pool: WorkerPool | None = None
        self._retired: list[WorkerPool] = []
        self._starting = anyio.Lock()
        self._runs: set[anyio.CancelScope] = set()
        self._last = anyio.Event()
        self._open = False

    def info(self) -> BackendInfo:
        """Return whether it can run here, and its layers of isolation, which the first call tests."""
        remedy = self._remedy()
        walls = () if remedy else self._walls()
        details: dict[str, Any] = {"available": not remedy, "isolation": [*walls, "interpreter"]}
        details["profiles"] = ["dev", "standard", *(["hardened"] if "seccomp" in walls else [])]
        if remedy:
            details["profiles"] = []
            return BackendInfo(kind=self.kind, readiness="beta", details={**details, "remedy": remedy})
        from pydantic_monty import __version__  # noqa: PLC0415 - an extra

        details["engine"] = f"pydantic-monty {__version__}"
        details["language"] = "a part of Python"
        details["host_uid"] = GUEST_UID if walls and os.geteuid() == 0 else os.geteuid()
        details["memory"] = "the engine's own allocator; the address space of a worker as a second bound"
        details["cpu"] = "the time that passes while the code computes, not CPU time"
        details["cgroup"] = False
        if not walls and self._bubblewrap is None:
            details["remedy"] = "apt install bubblewrap, for a second wall and the profile 'hardened'"
        return BackendInfo(kind=self.kind, readiness="beta", details=details)

    def enforces(self, limits: Limits) -> LimitsEnforced:  # noqa: ARG002 - the same for all limits
        """Return the enforced limits: all of them, since a guest has no processes and no files."""
        return LimitsEnforced() if self._remedy() else _ALL_ENFORCED

    async def __aenter__(self) -> Self:
        self._open, self._last = True, anyio.Event()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        with anyio.CancelScope(shield=True):
            for scope in list(self._runs):
                scope.cancel()
            if self._runs:
                await self._last.wait()
            pools = [*self._retired, *([self._pool] if self._pool else [])]
            self._pool, self._retired = None, []
            for pool in pools:
                await pool.close()

    async def run(self, job: Job, bridge: Bridge) -> Any:
        """Run the code; see `Sandbox`."""
        calls: Calls | None = None
        with anyio.CancelScope() as scope:
            self._runs.add(scope)
            try:
                pool = self._pool or await self._start_pool()
                if job.profile == SecurityProfile.HARDENED and "seccomp" not in self._walls():
                    message = "the profile 'hardened' needs bubblewrap and seccomp: apt install bubblewrap"
                    raise RuntimeUnavailableError(self.kind, message)
                calls = Calls(bridge, end=scope.cancel)
                try:
                    return await pool.run(job, calls)
                except RuntimeUnavailableError:
                    if self._pool is pool:  # other runs may still use it, so it is closed with the sandbox
                        self._retired.append(pool)
                        self._pool = None
                    raise
            finally:
                self._runs.discard(scope)
                if not self._open and not self._runs:
                    self._last.set()
        if calls is not None and calls.failure is not None:
            raise calls.failure
        raise RuntimeUnavailableError(self.kind, "it was closed while the code ran")

    async def _start_pool(self) -> "WorkerPool":
        async with self._starting:
            if not self._open:
                raise RuntimeUnavailableError(self.kind, "it is not open; enter it with `async with`")
            if self._pool is None:
                remedy = await to_thread.run_sync(self._remedy)
                if remedy:
                    raise RuntimeUnavailableError(self.kind, remedy)
                from toolcrib.runtime.sandboxes.monty.pool import WorkerPool  # noqa: PLC0415 - needs an extra

                self._pool = await WorkerPool.start(self._walls(), workers=self.concurrency)
            return self._pool

    def _remedy(self) -> str:
        """Return what to install if it cannot run here; empty otherwise."""
        try:
            monty_binary()
        except RuntimeUnavailableError as error:
            return error.remedy
        if self._bubblewrap and not find_isolation():
            return "bubblewrap cannot be used here: apt install bubblewrap, and allow it to make namespaces"
        return ""

    def _walls(self) -> tuple[str, ...]:
        """Return the layers of isolation of its workers, beside the interpreter."""
        return () if self._bubblewrap is False else find_isolation()
