"""The system calls that a worker may make: to compute, and to talk through the pipes it was given."""

import errno
import importlib
import os
from pathlib import Path

__all__ = ["write_filter"]

_ALLOWED = (
    "read write readv writev pread64 close lseek fstat newfstatat statx access faccessat readlink readlinkat",
    "mmap mprotect munmap mremap madvise brk",
    "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall",
    "futex set_robust_list rseq set_tid_address gettid getpid sched_yield sched_getaffinity",
    "poll ppoll clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday getrandom",
    "exit exit_group tgkill arch_prctl prlimit64 getrlimit",
    "execve",  # the worker, beside which there is nothing to execute
    "wait4",  # bubblewrap, which stays as the first process behind the wall, waits for the worker
    "getuid geteuid getgid getegid getresuid getresgid setresuid setresgid setgroups capget capset fstatfs",
)
"""What is allowed whatever its arguments; the last line is how the worker becomes nobody."""
_CLONE_THREAD = 0x10000
_WRITING = (
    os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY
)
"""What of the flags of a file that is opened must not be set."""
_CONTROLS = {
    "PR_SET_KEEPCAPS": 8,
    "PR_SET_NAME": 15,
    "PR_GET_NAME": 16,
    "PR_CAPBSET_READ": 23,
    "PR_CAPBSET_DROP": 24,
    "PR_GET_SECUREBITS": 27,
    "PR_SET_NO_NEW_PRIVS": 38,
    "PR_GET_NO_NEW_PRIVS": 39,
    "PR_CAP_AMBIENT": 47,
}
"""What of itself a worker may change: the name of a thread, and privileges, which it can only lose."""


def write_filter(path: Path) -> None:
    """Write a filter that refuses everything else with EPERM, in the form that the kernel reads.

    Raises:
        ImportError: `pyseccomp` is missing.
        OSError: the library that it speaks to is missing, or the file cannot be written.
    """
    seccomp = importlib.import_module("pyseccomp")  # an extra
    rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    for name in " ".join(_ALLOWED).split():
        if seccomp.resolve_syscall(seccomp.system_arch(), name) >= 0:  # some are of some architectures only
            rules.add_rule(seccomp.ALLOW, name)
    rules.add_rule(seccomp.ALLOW, "openat", seccomp.Arg(2, seccomp.MASKED_EQ, _WRITING, 0))
    for option in _CONTROLS.values():
        rules.add_rule(seccomp.ALLOW, "prctl", seccomp.Arg(0, seccomp.EQ, option))
    rules.add_rule(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD))
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags cannot be seen; `clone` is tried then
    with path.open("wb") as file:
        rules.export_bpf(file)
