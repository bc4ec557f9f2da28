"""The `process` sandbox: CPython isolated by bubblewrap, one fresh interpreter for each run."""

import base64
import os
import signal
from time import perf_counter
from typing import Any, ClassVar

import anyio
import anyio.to_thread

from toolcrib.errors import LimitExceededError, RuntimeUnavailableError, SandboxViolationError, ToolcribError
from toolcrib.isolation.bubblewrap import GUEST_UID
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.protocols import Job
from toolcrib.runtime.request import BackendInfo, Limits, LimitsEnforced
from toolcrib.runtime.sandboxes.process.child import Child, Guest, boot, spawn
from toolcrib.runtime.sandboxes.process.conversation import MAX_CALL_BYTES, Conversation, GuestGoneError
from toolcrib.runtime.sandboxes.process.pool import PooledSandbox
from toolcrib.runtime.sandboxes.process.wall import Wall, find_wall, interpreter

_INTERPRETER_BYTES = 32 << 20
"""Memory of an interpreter before it runs any code, added to the limit of the code."""
_SPARE_ADDRESSES = 512 << 20
"""Address space that an interpreter reserves without using it, if a control group counts the used memory."""
_SPARE_ADDRESSES_WITHOUT_CGROUP = 160 << 20
"""The same if the address space is the only limit of memory, which must then be tighter."""
_BUBBLEWRAP_TASKS = 2
"""The two processes of bubblewrap are in the control group of the guest."""
_OPEN_FILES = 128
_STACK_BYTES = 8 << 20
_MAX_TASKS = 4096
"""RLIMIT_NPROC where it cannot be the limit of a guest, because it counts all tasks of a user."""
_EXIT_TIMEOUT = 5.0
"""Seconds that an interpreter has to exit, once it has closed its connection."""
_MAX_BYTES = 1 << 46
"""More than any machine has. Larger limits are refused by some systems, or overflow there."""
_MAX_SECONDS = 1e9
_SHELL_SIGNAL_BASE = 128
_CPU_LIMIT_SIGNALS = {signal.SIGXCPU, signal.SIGKILL}
_CLOCK_TOLERANCE = 2
"""Factor by which the clock of RLIMIT_CPU, which counts ticks, may differ from that of the control group."""
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT}


class ProcessSandbox(PooledSandbox[Child, int]):
    """Runs CPython in its own namespaces, without a network, as the user nobody.

    `warm` interpreters are kept booted; at most `concurrency` runs at once, others wait.
    """

    kind: ClassVar[str] = "process"

    def __init__(self, *, warm: int = 2, concurrency: int = 16) -> None:
        super().__init__(warm=warm, concurrency=concurrency)
        self._wall: Wall | None = None

    def info(self) -> BackendInfo:
        """Return whether it can run here, its layers of isolation, and what to install if it cannot."""
        try:
            wall = find_wall()
        except RuntimeUnavailableError as error:
            details: dict[str, Any] = {
                "available": False,
                "remedy": error.remedy,
                "isolation": [],
                "profiles": [],
            }
            return BackendInfo(kind=self.kind, readiness="beta", details=details)
        details = {
            "available": True,
            "isolation": list(wall.layers),
            "profiles": ["dev", "standard", *(["hardened"] if "cgroup" in wall.layers else [])],
            "engine": f"bubblewrap {wall.version}",
            "language": "Python",
            "host_uid": GUEST_UID if wall.bubblewrap.as_root else os.geteuid(),
            "memory": "a control group" if wall.cgroups.memory else "the address space of the interpreter",
            "cpu": "CPU time, rounded up to whole seconds",
            "cgroup": bool(wall.cgroups.parents),
        }
        return BackendInfo(kind=self.kind, readiness="beta", details=details)

    def enforces(self, limits: Limits) -> LimitsEnforced:  # noqa: ARG002 - the same whatever they are
        """Return the enforced limits: all, but threads only with a control group."""
        try:
            pids = find_wall().cgroups.pids
        except RuntimeUnavailableError:
            return LimitsEnforced()
        return LimitsEnforced(**{**dict.fromkeys(LimitsEnforced.model_fields, True), "pids": pids})

    async def run(self, job: Job, bridge: Bridge) -> Any:
        """Run the code and return the value of `__out`; see `Sandbox`."""
        wall = await self._find_wall()
        if job.profile == "hardened" and not wall.cgroups.memory:
            raise RuntimeUnavailableError(self.kind, "the 'hardened' profile needs a writable memory cgroup")
        pool = self._pool
        child = await pool.take(self._size(job.limits))
        try:
            _set_cgroup_limits(child, job.limits)
            return await converse(child, job, bridge, self._make_rlimits(wall, job.limits))
        finally:
            pool.give_back(child)

    def _size(self, limits: Limits) -> int:
        return min(limits.disk_bytes, _MAX_BYTES)

    async def _find_wall(self) -> Wall:
        if self._wall is None:  # the first time it is tested, which takes a while
            self._wall = await anyio.to_thread.run_sync(find_wall)
        return self._wall

    async def _start(self, size: int) -> Child:
        wall = await self._find_wall()
        cgroup = wall.cgroups.make()
        try:
            child = spawn(self.kind, wall.command(interpreter(), disk=size), cgroup=cgroup)
        except OSError as error:
            if cgroup is not None:
                cgroup.remove()
            raise RuntimeUnavailableError(self.kind, f"a guest cannot be started ({error})") from error
        _set_cgroup_limits(child, Limits.from_valid())
        user = GUEST_UID if wall.bubblewrap.as_root else None
        syscalls = base64.b64encode(wall.filter).decode()
        return await boot(child, {"uid": user, "gid": user, "filter": syscalls})

    @staticmethod
    def _make_rlimits(wall: Wall, limits: Limits) -> dict[str, int]:
        spare = _SPARE_ADDRESSES if wall.cgroups.memory else _SPARE_ADDRESSES_WITHOUT_CGROUP
        return {
            **process_limits(limits, spare),
            "NOFILE": _OPEN_FILES,
            "NPROC": _MAX_TASKS if wall.bubblewrap.as_root or wall.cgroups.pids else limits.pids,
            "STACK": _STACK_BYTES,
        }


def _set_cgroup_limits(child: Child, limits: Limits) -> None:
    child.set_cgroup_limits(
        min(limits.memory_bytes, _MAX_BYTES) + _INTERPRETER_BYTES, limits.pids + _BUBBLEWRAP_TASKS
    )


def process_limits(limits: Limits, spare: int) -> dict[str, int]:
    """Return the rlimits of a guest, with `CPU` in milliseconds; `spare` is address space beyond its memory.

    The guest adds the CPU time that its boot has used, and rounds up to whole seconds.
    """
    return {
        "AS": min(limits.memory_bytes, _MAX_BYTES) + spare,
        "CPU": int(min(limits.cpu, _MAX_SECONDS) * 1000),
        "FSIZE": min(limits.disk_bytes, _MAX_BYTES),
    }


async def _explain_end(child: Guest, job: Job, bridge: Bridge, started: float) -> ToolcribError:
    """Return the error for a guest that ended without a result."""
    gone = await child.wait_until_ended(_EXIT_TIMEOUT)
    if child.evicted:
        return RuntimeUnavailableError(child.kind, "it was closed while the code ran")
    if not gone:
        return bridge.violation("the interpreter closed its connection without a result, and continued")
    return _explain_exit(child, job.limits, bridge, perf_counter() - started)


async def converse(child: Guest, job: Job, bridge: Bridge, rlimits: dict[str, int]) -> Any:
    """Run a job in a booted guest, and return its value; its outputs are copied to the job's output.

    Raises:
        CodeError: the code failed.
        LimitExceededError: it exceeded a limit.
        SandboxViolationError: it broke the rules, or died.
        RuntimeUnavailableError: the sandbox was closed during the run.
    """
    payload = {
        "code": job.code,
        "names": list(job.names),
        "functions": list(job.functions),
        "rlimits": rlimits,
        "output_bytes": job.limits.output_bytes,
        "call_bytes": MAX_CALL_BYTES,
    }
    child.start_cpu_count()
    started = perf_counter()
    value: Any = None
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as readers:
            readers.start_soon(child.copy_output, "stdout", job.output)
            readers.start_soon(child.copy_output, "stderr", job.output)
            try:
                value = await Conversation(child.channel, bridge, job.limits, stop=child.kill).run(payload)
            except GuestGoneError:
                failure = await _explain_end(child, job, bridge, started)
            except Exception as error:  # noqa: BLE001 - raised below, since a task group would wrap it
                failure = error
            readers.cancel_scope.cancel()
    finally:
        child.drain_outputs(job.output)
    if failure is not None:
        raise failure
    return value


def _explain_exit(
    child: Guest, limits: Limits, bridge: Bridge, elapsed: float
) -> LimitExceededError | SandboxViolationError:
    """Return the error for the exit of a guest: a limit that the kernel enforced, else a violation.

    At the limit of CPU time the kernel sends SIGXCPU, and SIGKILL a second later if the code ignores that.
    But code can send itself either signal. So the signal counts only if the control group has counted enough
    CPU time, or, without a group, if enough time has passed for all cores to have computed that long.
    """
    if child.ran_out_of_memory():
        return LimitExceededError("memory_bytes", f"the code used more than {limits.memory_bytes:,} bytes")
    number, cpu_seconds = _signal_of(child.returncode), child.cpu_seconds()
    if cpu_seconds is None:
        cpu_seconds = elapsed * (os.cpu_count() or 1)
    if number in _CPU_LIMIT_SIGNALS and cpu_seconds >= limits.cpu / _CLOCK_TOLERANCE:
        return LimitExceededError("cpu", f"the code computed for more than {limits.cpu:g} s")
    if number in _CRASHES:
        message = "as it does when code recurses deeper than its stack or misuses memory"
        return bridge.violation(f"the interpreter crashed with {signal.Signals(number).name}, {message}")
    if number is not None:
        return bridge.violation(f"the interpreter was ended by signal {number}")
    return bridge.violation(f"the interpreter ended without a result, with status {child.returncode}")


def _signal_of(status: int | None) -> int | None:
    """Return the signal that ended a program; bubblewrap, like a shell, reports it as 128 plus its number."""
    if status is None:
        return None
    if status < 0:
        return -status
    known = status - _SHELL_SIGNAL_BASE
    return known if 0 < known < signal.NSIG else None
