"""Why a guest ended without an answer, as far as the host can tell."""

import os
import signal

from toolcrib.errors import LimitExceededError, SandboxViolationError
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.process.child import Child
from toolcrib.runtime.records import Limits

__all__ = ["why_gone"]

_SHELL_SIGNALS = 128
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT}


def why_gone(
    child: Child, limits: Limits, bridge: Bridge, elapsed: float
) -> LimitExceededError | SandboxViolationError:
    """Return what became of a guest that has ended: a limit where the kernel kept one, else a violation.

    Code that ignores the signal which says that its time is up is killed a second later. Nobody tells why,
    but nobody else kills a guest that runs: it is believed where there was the time to compute so much.
    """
    if child.cgroup is not None and child.cgroup.ran_out():
        return LimitExceededError("memory_bytes", f"the code used more than {limits.memory_bytes:,} bytes")
    number, computed = _signal(child.process.returncode), elapsed * (os.cpu_count() or 1)
    if number == signal.SIGXCPU or (number == signal.SIGKILL and computed >= limits.cpu):
        return LimitExceededError("cpu", f"the code computed for more than {limits.cpu:g} s")
    if number in _CRASHES:
        said = "as it does when code recurses deeper than its stack or misuses memory"
        return bridge.violation(f"the interpreter crashed with {signal.Signals(number).name}, {said}")
    if number is not None:
        return bridge.violation(f"the interpreter was ended by signal {number}")
    return bridge.violation(
        f"the interpreter ended without an answer, with status {child.process.returncode}"
    )


def _signal(status: int | None) -> int | None:
    """Return the signal that ended a program; those that run one for us say it by its status."""
    if status is None:
        return None
    if status < 0:
        return -status
    known = status - _SHELL_SIGNALS
    return known if 0 < known < signal.NSIG else None
