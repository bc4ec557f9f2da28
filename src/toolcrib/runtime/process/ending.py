"""Why a guest ended without an answer, as far as the host can tell."""

import os
import signal

from toolcrib.errors import LimitExceededError, SandboxViolationError
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.process.child import Child
from toolcrib.runtime.records import Limits

__all__ = ["why_gone"]

_SHELL_SIGNALS = 128
_TIME_IS_UP = {signal.SIGXCPU, signal.SIGKILL}
_ROUGHLY = 2
"""By how much the clock that ends a process may differ from the one that is read here: it counts in ticks."""
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT}


def why_gone(
    child: Child, limits: Limits, bridge: Bridge, elapsed: float
) -> LimitExceededError | SandboxViolationError:
    """Return what became of a guest that has ended: a limit where the kernel kept one, else a violation.

    The kernel ends code whose time is up by one signal, and code that ignores that by another a second later.
    Code can send itself either: it is believed where the kernel has counted so much computing, or, where
    nobody counts, where there was the time for it.
    """
    if child.cgroup is not None and child.cgroup.ran_out():
        return LimitExceededError("memory_bytes", f"the code used more than {limits.memory_bytes:,} bytes")
    number, computed = _signal(child.process.returncode), child.computed()
    if computed is None:
        computed = elapsed * (os.cpu_count() or 1)
    if number in _TIME_IS_UP and computed >= limits.cpu / _ROUGHLY:
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
