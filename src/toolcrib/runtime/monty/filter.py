"""The system calls that a worker may make: to compute, and to talk through the pipes it was given."""

import errno
import importlib
from pathlib import Path

__all__ = ["write_filter"]

_ALLOWED = (
    "read write readv writev pread64 close lseek fstat newfstatat statx access faccessat readlink readlinkat",
    "mmap mprotect munmap mremap madvise brk",
    "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall",
    "futex set_robust_list rseq set_tid_address gettid getpid sched_yield sched_getaffinity",
    "poll ppoll clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday getrandom",
    "exit exit_group tgkill arch_prctl prctl prlimit64 getrlimit",
    "execve",  # the worker, beside which there is nothing to execute
    "wait4",  # bubblewrap, which stays as the first process behind the wall, waits for the worker
    "getuid geteuid getgid getegid getresuid getresgid setresuid setresgid setgroups capget capset fstatfs",
)
"""What is allowed whatever its arguments; the last line is how the worker becomes nobody."""
_CLONE_THREAD = 0x10000
_ACCESS_MODE = 3


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
    rules.add_rule(seccomp.ALLOW, "openat", seccomp.Arg(2, seccomp.MASKED_EQ, _ACCESS_MODE, 0))
    rules.add_rule(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD))
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags cannot be seen; `clone` is tried then
    with path.open("wb") as file:
        rules.export_bpf(file)
