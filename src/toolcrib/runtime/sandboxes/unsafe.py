"""The `unsafe` sandbox: a plain subprocess, which protects against mistakes and not against attacks."""

import os
import shutil
import sys
import tempfile
import warnings
from types import TracebackType
from typing import Any, ClassVar, Self

import anyio

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.request import BackendInfo, Limits, LimitsEnforced
from toolcrib.runtime.sandboxes.process.child import Child, boot, spawn
from toolcrib.runtime.sandboxes.process.sandbox import converse, process_limits
from toolcrib.runtime.sandboxes.process.wall import interpreter

_SPARE_ADDRESSES = 512 << 20
_CLOSE_TIMEOUT = 30.0


class UnsafeSandboxWarning(UserWarning):
    """Code runs with all the rights of the program that runs it."""


class UnsafeSandbox:
    """Runs code in a child process with all rights of this one: files, network, background processes.

    It gets an empty environment, an empty working directory and resource limits; its process group is killed
    when it ends. Only for code that you would run yourself.
    """

    kind: ClassVar[str] = "unsafe"

    def __init__(self) -> None:
        self._children: set[Child] = set()

    def info(self) -> BackendInfo:
        """Return that it has no isolation."""
        details: dict[str, Any] = {"available": os.name == "posix", "isolation": [], "profiles": ["dev"]}
        if os.name == "posix":
            details |= {"language": "Python", "host_uid": os.geteuid(), "cgroup": False}
        else:
            details |= {"remedy": "it needs a POSIX system", "profiles": []}
        return BackendInfo(kind=self.kind, readiness="beta", details=details)

    def enforces(self, limits: Limits) -> LimitsEnforced:  # noqa: ARG002 - the same whatever they are
        """Return the enforced limits: only those that the host enforces itself."""
        return LimitsEnforced(timeout=True, tool_calls=True, chain_steps=True, output=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            child.evict()
        with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            while self._children:  # noqa: ASYNC110 - their runs remove them; sets have no event
                await anyio.sleep(0.001)

    async def run(self, job: Job, bridge: Bridge) -> Any:
        """Run the code and return the value of `__out`; see `Sandbox`."""
        message = "code runs without a sandbox, with all the rights of this program"
        warnings.warn(message, UnsafeSandboxWarning, stacklevel=2)
        if job.profile != "dev":
            raise RuntimeUnavailableError(
                self.kind, "it serves the 'dev' profile alone; use 'process' or 'monty'"
            )
        child = self._spawn()
        self._children.add(child)
        try:
            await boot(child, {"die_with_parent": sys.platform == "linux"})
            return await converse(child, job, bridge, _make_rlimits(job.limits))
        finally:
            await child.dispose()
            self._children.discard(child)

    def _spawn(self) -> Child:
        try:
            folder = tempfile.mkdtemp(prefix="toolcrib-")
        except OSError as error:
            raise RuntimeUnavailableError(self.kind, f"it needs a temporary folder ({error})") from error
        try:
            return spawn(
                self.kind,
                interpreter(),
                cwd=folder,
                cleanup=lambda: shutil.rmtree(folder, ignore_errors=True),
            )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise RuntimeUnavailableError(self.kind, f"an interpreter cannot be started ({error})") from error


def _make_rlimits(limits: Limits) -> dict[str, int]:
    """Return the rlimits of the process; macOS has none for address space."""
    asked = process_limits(limits, _SPARE_ADDRESSES)
    return {name: asked[name] for name in asked if name != "AS" or sys.platform != "darwin"}
