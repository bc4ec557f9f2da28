"""Which system calls a guest may make: those of one process that computes; every other is refused."""

import errno
import os
from functools import cache
from types import ModuleType
from typing import Any

from toolcrib.errors import RuntimeUnavailableError

__all__ = ["ALLOWED", "filter_program"]

_CLONE_THREAD = 0x00010000
_INT = 0xFFFFFFFF
_AF_UNIX, _SOCK_STREAM, _SOCK_KIND = 1, 1, 0xF
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_PRCTLS = (15, 16, 0x53564D41)
"""PR_SET_NAME, PR_GET_NAME, PR_SET_VMA."""
_FCNTLS = (0, 1, 2, 3, 4, 5, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_DUPFD_CLOEXEC."""
_LOCKS = (6, 7)
"""F_SETLK, F_SETLKW: one process never locks itself out, so that these may do nothing."""
_SOL_SOCKET, _SOCKET_OPTIONS = 1, (3, 4, 38, 39)
"""SO_TYPE, SO_ERROR, SO_PROTOCOL, SO_DOMAIN, to be read."""
_MSG_OOB = 1
_MESSAGE_FLAGS = {"sendto": 3, "recvfrom": 3, "sendmsg": 2, "recvmsg": 2}
"""Which argument of a call holds its flags. Out-of-band bytes are refused: no program needs them on a unix
socket, where the kernel's support for them has had memory errors."""
_IDLE = ("utime", "utimes", "futimesat", "utimensat")
"""What does nothing: the times of files are all that a guest could change of the devices of this machine."""
_LACKING = ("getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr")
"""What fails as where file systems lack it, which whoever copies files expects."""

ALLOWED = (
    *("read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2"),
    *("pwritev2", "open", "openat", "openat2", "creat", "close", "close_range", "stat", "fstat"),
    *("lstat", "newfstatat", "fstatat64", "statx", "access", "faccessat", "faccessat2", "poll", "ppoll"),
    *("select", "pselect6", "lseek", "sendfile", "copy_file_range", "fallocate", "fadvise64"),
    *("readahead", "fsync", "fdatasync", "truncate", "ftruncate", "getdents", "getdents64"),
    *("getcwd", "chdir", "fchdir", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir"),
    *("link", "linkat", "unlink", "unlinkat", "symlink", "symlinkat", "readlink", "readlinkat", "chmod"),
    *("fchmod", "fchmodat", "fchmodat2", "umask", "statfs"),
    *("fstatfs", "dup", "dup2", "dup3", "pipe", "pipe2", "mmap", "mprotect", "munmap"),
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
    *("timerfd_create", "timerfd_settime", "timerfd_gettime", "shutdown", "getsockname"),
    "getpeername",
)
"""What is allowed whatever its arguments; some of it exists on some architectures only."""


@cache
def filter_program() -> bytes:
    """Return the filter as the kernel takes it.

    Refused calls fail as `PermissionError`, so that code can go on: processes, programs, sockets, tracing,
    mounts, namespaces, keys, kernel modules. Threads are allowed, and pairs of connected sockets, by
    which event loops wake themselves. Setting the times of a file, and locking one, succeeds and does
    nothing: a guest is alone with its own files, and must not touch those that it shares with others.

    Raises:
        RuntimeUnavailableError: the library that makes filters is missing.
    """
    seccomp = _library()
    program = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    whole = (
        *((seccomp.ALLOW, name) for name in ALLOWED),
        *((seccomp.ERRNO(0), name) for name in _IDLE),
        *((seccomp.ERRNO(errno.ENOTSUP), name) for name in _LACKING),
        (seccomp.ERRNO(errno.ENOSYS), "clone3"),  # its flags cannot be seen; C libraries use clone then
    )
    for action, name in whole:
        if seccomp.resolve_syscall(seccomp.system_arch(), name) >= 0:
            program.add_rule(action, name)
    _allow_by_arguments(seccomp, program)
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()


def _allow_by_arguments(seccomp: ModuleType, program: Any) -> None:
    """Add the rules for calls that are allowed with some arguments only."""
    arg, equal, masked = seccomp.Arg, seccomp.EQ, seccomp.MASKED_EQ
    program.add_rule(seccomp.ALLOW, "clone", arg(0, masked, _CLONE_THREAD, _CLONE_THREAD))
    stream = arg(1, masked, _SOCK_KIND, _SOCK_STREAM)
    program.add_rule(seccomp.ALLOW, "socketpair", arg(0, equal, _AF_UNIX), stream)
    for name, at, allowed in (("ioctl", 1, _IOCTLS), ("prctl", 0, _PRCTLS), ("fcntl", 1, _FCNTLS)):
        for value in allowed:
            program.add_rule(seccomp.ALLOW, name, arg(at, masked, _INT, value))
    for command in _LOCKS:
        program.add_rule(seccomp.ERRNO(0), "fcntl", arg(1, masked, _INT, command))
    for name, at in _MESSAGE_FLAGS.items():
        program.add_rule(seccomp.ALLOW, name, arg(at, masked, _MSG_OOB, 0))
    level = arg(1, masked, _INT, _SOL_SOCKET)
    for option in _SOCKET_OPTIONS:
        program.add_rule(seccomp.ALLOW, "getsockopt", level, arg(2, masked, _INT, option))


def _library() -> ModuleType:
    try:
        import pyseccomp  # type: ignore[import-untyped]  # noqa: PLC0415 - of an extra, and untyped
    except ImportError as error:
        raise RuntimeUnavailableError("process", "pip install 'toolcrib[code]' (pyseccomp)") from error
    except (OSError, RuntimeError) as error:
        raise RuntimeUnavailableError("process", "install libseccomp: apt install libseccomp2") from error
    module: ModuleType = pyseccomp
    return module
