"""Which system calls a guest may make: those of one process that computes; every other is refused."""

import errno
import tempfile
from functools import cache
from types import ModuleType

from toolcrib.errors import RuntimeUnavailableError

__all__ = ["ALLOWED", "filter_program"]

_CLONE_THREAD = 0x00010000
_AF_UNIX, _SOCK_STREAM, _SOCK_KIND = 1, 1, 0xF
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_PRCTLS = (15, 16, 0x53564D41)
"""PR_SET_NAME, PR_GET_NAME, PR_SET_VMA."""

ALLOWED = (
    *("read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2"),
    *("pwritev2", "open", "openat", "openat2", "creat", "close", "close_range", "stat", "fstat"),
    *("lstat", "newfstatat", "fstatat64", "statx", "access", "faccessat", "faccessat2", "poll", "ppoll"),
    *("select", "pselect6", "lseek", "sendfile", "copy_file_range", "fallocate", "fadvise64"),
    *("readahead", "flock", "fsync", "fdatasync", "truncate", "ftruncate", "getdents", "getdents64"),
    *("getcwd", "chdir", "fchdir", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir"),
    *("link", "linkat", "unlink", "unlinkat", "symlink", "symlinkat", "readlink", "readlinkat", "chmod"),
    *("fchmod", "fchmodat", "fchmodat2", "umask", "utime", "utimes", "futimesat", "utimensat", "statfs"),
    *("fstatfs", "dup", "dup2", "dup3", "pipe", "pipe2", "fcntl", "mmap", "mprotect", "munmap"),
    *("mremap", "madvise", "brk", "msync", "mincore", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn"),
    *("rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend", "sigaltstack", "pause", "restart_syscall"),
    *("kill", "tgkill", "alarm", "getitimer", "setitimer", "nanosleep", "clock_nanosleep"),
    *("clock_gettime", "clock_getres", "gettimeofday", "time", "times", "getrusage", "getrlimit"),
    *("setrlimit", "prlimit64", "sysinfo", "uname", "getpid", "gettid", "getppid", "getpgrp", "getpgid"),
    *("getsid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "exit"),
    *("exit_group", "wait4", "waitid", "futex", "set_robust_list", "get_robust_list", "rseq"),
    *("set_tid_address", "membarrier", "arch_prctl", "getcpu", "sched_yield", "sched_getaffinity"),
    *("sched_getparam", "sched_getscheduler", "getpriority", "getrandom", "epoll_create"),
    *("epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2"),
    *("timerfd_create", "timerfd_settime", "timerfd_gettime", "sendto", "recvfrom", "sendmsg"),
    *("recvmsg", "shutdown", "getsockname", "getpeername", "getsockopt", "setsockopt"),
)
"""What is allowed whatever its arguments; some of it exists on some architectures only."""


@cache
def filter_program() -> bytes:
    """Return the filter as the kernel takes it.

    Refused calls fail as `PermissionError`, so that code can go on: processes, programs, sockets, tracing,
    mounts, namespaces, keys, kernel modules. Threads are allowed, and pairs of connected sockets, by
    which event loops wake themselves.

    Raises:
        RuntimeUnavailableError: the library that makes filters is missing.
    """
    seccomp = _library()
    program = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    for name in ALLOWED:
        if seccomp.resolve_syscall(seccomp.system_arch(), name) >= 0:
            program.add_rule(seccomp.ALLOW, name)
    arg, equal, masked = seccomp.Arg, seccomp.EQ, seccomp.MASKED_EQ
    program.add_rule(seccomp.ALLOW, "clone", arg(0, masked, _CLONE_THREAD, _CLONE_THREAD))
    program.add_rule(
        seccomp.ERRNO(errno.ENOSYS), "clone3"
    )  # its flags cannot be seen; C libraries use clone then
    stream = arg(1, masked, _SOCK_KIND, _SOCK_STREAM)
    program.add_rule(seccomp.ALLOW, "socketpair", arg(0, equal, _AF_UNIX), stream)
    for request in _IOCTLS:
        program.add_rule(seccomp.ALLOW, "ioctl", arg(1, masked, 0xFFFFFFFF, request))
    for option in _PRCTLS:
        program.add_rule(seccomp.ALLOW, "prctl", arg(0, masked, 0xFFFFFFFF, option))
    with tempfile.TemporaryFile() as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()


def _library() -> ModuleType:
    try:
        import pyseccomp  # type: ignore[import-untyped]  # noqa: PLC0415 - of an extra, and untyped
    except ImportError as error:
        raise RuntimeUnavailableError("process", "pip install 'toolcrib[code]' (pyseccomp)") from error
    except (OSError, RuntimeError) as error:
        raise RuntimeUnavailableError("process", "install libseccomp: apt install libseccomp2") from error
    module: ModuleType = pyseccomp
    return module
