"""Bubblewrap and seccomp: the command line that isolates a program, and the system calls that it may make.

All sandboxes of local processes share it. Every isolated program gets new namespaces (without a network), an
empty read-only root, no capabilities, and user `GUEST_UID`. A sandbox adds what its own program needs: files
that it may read, a writable folder, and one of the two policies for system calls: `WORKER` for the engine of
Monty, installed by bubblewrap, or `INTERPRETER` for CPython, which installs it by itself after it has
started.

As root, bubblewrap keeps the capabilities to become another user, and the program inside drops them;
otherwise a user namespace maps the user, and no privilege is needed at all.
"""

import errno
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from toolcrib.errors import RuntimeUnavailableError

GUEST_UID = 65534
"""The user that guests run as where we are root: nobody."""
TRY_TIMEOUT = 20.0
_UNSHARED_NAMESPACES = ("net", "pid", "ipc", "uts", "cgroup-try")
_CHANGE_USER = ("CAP_SETUID", "CAP_SETGID")
"""Capabilities that a program started by root keeps until it has become another user."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """The program `bwrap`, and whether it runs as root."""

    program: str
    as_root: bool
    """Whether root starts guests, which then change to another user; otherwise a user namespace maps them."""

    def command(
        self,
        program: Sequence[str],
        *,
        files: Mapping[Path, Path],
        mounts: Sequence[str] = (),
        capabilities: Sequence[str] = (),
        filter_fd: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return the command that runs a program with these files, a read-only root and nothing else.

        Args:
            program: The program and its arguments, as seen inside.
            files: The files and folders of this machine that it may read, by their paths inside.
            mounts: Options of bubblewrap for everything else in the root, which becomes read-only.
            capabilities: What the program keeps beyond `_CHANGE_USER`, if root starts it.
            filter_fd: The descriptor that the filter of system calls is read from; None if the program
                installs it by itself.
            environment: All of its variables; it starts in `HOME`, or else in the root.
        """
        unshared = [f"--unshare-{kind}" for kind in _UNSHARED_NAMESPACES]
        user = [option for name in (*_CHANGE_USER, *capabilities) for option in ("--cap-add", name)]
        if not self.as_root:
            user = ["--unshare-user", "--uid", str(GUEST_UID), "--gid", str(GUEST_UID)]
        variables = [option for pair in (environment or {}).items() for option in ("--setenv", *pair)]
        folder = (environment or {}).get("HOME", "/")
        # The order counts: bubblewrap carries out mounts one after another, so the root can become read-only
        # only after everything was mounted. A new session keeps the guest from typing into our terminal
        # (TIOCSTI).
        return [
            *(self.program, *unshared, "--hostname", "guest", "--die-with-parent", "--new-session"),
            *("--clearenv", "--cap-drop", "ALL", *user),
            *(["--seccomp", str(filter_fd)] if filter_fd is not None else []),
            *(*_bind_read_only(files), *mounts, "--remount-ro", "/", "--chdir", folder, *variables),
            *("--", *program),
        ]


def _bind_read_only(files: Mapping[Path, Path]) -> Iterator[str]:
    """Yield the options that bind files and folders of this machine, read-only.

    A link to a folder stays a link: its target must be among the files too.
    """
    made: set[Path] = set()
    for path, source in files.items():
        for parent in reversed(path.parents[:-1]):
            if parent not in made:
                made.add(parent)
                yield from ("--perms", "0755", "--dir", str(parent))
        if source.is_symlink() and source.is_dir():
            yield from ("--symlink", str(source.readlink()), str(path))
        else:
            yield from ("--ro-bind", os.path.realpath(source), str(path))


def try_command(command: Sequence[str]) -> tuple[bool, str]:
    """Run a command, and return whether it succeeds, and its output."""
    try:
        ended = subprocess.run(  # noqa: S603 - our own
            command,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TRY_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return ended.returncode == 0, ended.stdout.decode(errors="replace")


# The kernel passes an `int` in a 64-bit register whose upper half is undefined, so only the lower half
# counts.
_INT_MASK = 0xFFFFFFFF
_CLONE_THREAD = 0x10000
_BASE_CALLS = """
read write readv writev pread64 close lseek fstat newfstatat statx access faccessat readlink readlinkat
fstatfs mmap mprotect munmap mremap madvise brk rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack
restart_syscall futex set_robust_list rseq set_tid_address gettid getpid sched_yield sched_getaffinity poll
ppoll clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday getrandom exit exit_group wait4
tgkill arch_prctl prlimit64 getrlimit getuid geteuid getgid getegid getresuid getresgid
"""
"""System calls of every program; some exist only on some architectures."""

_Check = tuple[int, int, int]
"""Index of an argument, a mask, and the value that the masked argument must have."""


@dataclass(frozen=True, slots=True)
class SyscallPolicy:
    """The system calls that a program may make; every other fails with EPERM.

    Threads are allowed, processes are not. `clone3` fails with ENOSYS, as on an old kernel: its flags are in
    memory, where a filter cannot read them, and C libraries then fall back to `clone`.
    """

    kind: str
    """The sandbox that it belongs to."""
    calls: frozenset[str]
    """Allowed with any arguments."""
    checked: tuple[tuple[str, tuple[_Check, ...]], ...]
    """Allowed with these arguments; one row for each alternative."""
    ignored: tuple[tuple[str, tuple[_Check, ...]], ...] = ()
    """Return success without an effect."""
    unsupported: tuple[str, ...] = ()
    """Fail with ENOTSUP, as on file systems without them, which programs that copy files expect."""


def _each(call: str, place: int, values: Sequence[int]) -> list[tuple[str, tuple[_Check, ...]]]:
    """Return rows that allow a call if one of its arguments, an `int`, has one of these values."""
    return [(call, ((place, _INT_MASK, value),)) for value in values]


_PR_SET_NAME = 15
_PR_GET_NAME = 16
_PR_SET_VMA = 0x53564D41
_DROP_PRIVILEGES = (8, 23, 24, 27, 38, 39, 47)
"""PR_SET_KEEPCAPS, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_GET_SECUREBITS, PR_SET_NO_NEW_PRIVS,
PR_GET_NO_NEW_PRIVS, PR_CAP_AMBIENT: safe, since a program without privileges can only lose some."""
_WRITE_FLAGS = (
    os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY
)
"""Flags of `openat` that a program which only reads files must not set."""
WORKER = SyscallPolicy(
    kind="monty",
    calls=frozenset(f"{_BASE_CALLS} execve setresuid setresgid setgroups capget capset".split()),
    checked=(
        ("openat", ((2, _WRITE_FLAGS, 0),)),
        *_each("prctl", 0, (_PR_SET_NAME, _PR_GET_NAME, *_DROP_PRIVILEGES)),
    ),
)
"""For the engine of Monty. Bubblewrap installs it before it starts the worker, so it must allow `execve` and
the change of the user; the worker is the only file there to execute."""

_AF_UNIX = 1
_SOCK_STREAM = 1
_SOCK_KIND = 0xF
_MSG_OOB = 1
_FLAGS_ARGUMENT = {"sendto": 3, "recvfrom": 3, "sendmsg": 2, "recvmsg": 2}
"""Index of the flags in each call. Out-of-band bytes (MSG_OOB) are refused: no program needs them on a unix
socket, where the kernel's support for them has had memory errors."""
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_FCNTLS = (0, 1, 2, 3, 4, 5, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_DUPFD_CLOEXEC."""
_LOCK_FCNTLS = (6, 7)
"""F_SETLK, F_SETLKW: may do nothing, since a process is never blocked by its own locks."""
_SOL_SOCKET = 1
_SOCKET_OPTIONS = (3, 4, 38, 39)
"""Readable options: SO_TYPE, SO_ERROR, SO_PROTOCOL, SO_DOMAIN."""
_FILE_AND_EVENT_CALLS = """
pwrite64 preadv pwritev preadv2 pwritev2 open openat openat2 creat close_range stat lstat fstatat64
faccessat2 select pselect6 sendfile copy_file_range fallocate fadvise64 readahead fsync fdatasync truncate
ftruncate getdents getdents64 getcwd chdir fchdir rename renameat renameat2 mkdir mkdirat rmdir link linkat
unlink unlinkat symlink symlinkat chmod fchmod fchmodat fchmodat2 umask statfs dup dup2 dup3 pipe pipe2 msync
mincore rt_sigpending rt_sigtimedwait rt_sigsuspend pause kill alarm getitimer setitimer time times getrusage
setrlimit sysinfo uname getppid getpgrp getpgid getsid getgroups waitid get_robust_list membarrier getcpu
sched_getparam sched_getscheduler getpriority epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
epoll_pwait2 eventfd eventfd2 timerfd_create timerfd_settime timerfd_gettime shutdown getsockname getpeername
"""
INTERPRETER = SyscallPolicy(
    kind="process",
    calls=frozenset(f"{_BASE_CALLS} {_FILE_AND_EVENT_CALLS}".split()),
    checked=(
        ("socketpair", ((0, _INT_MASK, _AF_UNIX), (1, _SOCK_KIND, _SOCK_STREAM))),
        *((call, ((place, _MSG_OOB, 0),)) for call, place in _FLAGS_ARGUMENT.items()),
        *_each("ioctl", 1, _IOCTLS),
        *_each("prctl", 0, (_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA)),
        *_each("fcntl", 1, _FCNTLS),
        *(
            ("getsockopt", ((1, _INT_MASK, _SOL_SOCKET), (2, _INT_MASK, option)))
            for option in _SOCKET_OPTIONS
        ),
    ),
    ignored=(
        *((call, ()) for call in ("utime", "utimes", "futimesat", "utimensat")),
        *_each("fcntl", 1, _LOCK_FCNTLS),
    ),
    unsupported=("getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr"),
)
"""For CPython, which installs it after it has started: files, threads, and socket pairs, which event loops
use to wake themselves. Setting the times of a file and locking one have no effect: the files of the guest
need neither, and a lock on a file of the host could block other programs."""


@cache
def compile_filter(policy: SyscallPolicy) -> bytes:
    """Compile a policy to the BPF program that the kernel takes.

    Raises:
        RuntimeUnavailableError: the library that makes filters is missing.
        OSError: there is no room for it.
    """
    seccomp = _import_pyseccomp(policy.kind)
    program = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    threads = ("clone", ((0, _CLONE_THREAD, _CLONE_THREAD),))
    allowed = [*((call, ()) for call in sorted(policy.calls)), threads, *policy.checked]
    failing = [(errno.ENOTSUP, call) for call in policy.unsupported] + [(errno.ENOSYS, "clone3")]
    rules = [
        *((seccomp.ALLOW, *row) for row in allowed),
        *((seccomp.ERRNO(0), *row) for row in policy.ignored),
        *((seccomp.ERRNO(number), call, ()) for number, call in failing),
    ]
    for action, call, checks in rules:
        if (
            seccomp.resolve_syscall(seccomp.system_arch(), call) >= 0
        ):  # negative where the architecture lacks it
            arguments = [seccomp.Arg(place, seccomp.MASKED_EQ, mask, value) for place, mask, value in checks]
            program.add_rule(action, call, *arguments)
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()


FILTER_REMEDY = "for the profile 'hardened': pip install 'toolcrib[code]', apt install libseccomp2"
"""The remedy if `find_filter` returns None."""


def find_filter(policy: SyscallPolicy) -> bytes | None:
    """Compile a policy; None if that is not possible, for sandboxes with another layer of isolation."""
    try:
        return compile_filter(policy)
    except (RuntimeUnavailableError, OSError):
        return None


def _import_pyseccomp(kind: str) -> ModuleType:
    try:
        import pyseccomp  # type: ignore[import-untyped]  # noqa: PLC0415 - of an extra, and untyped
    except ImportError as error:
        raise RuntimeUnavailableError(kind, "pip install 'toolcrib[code]' (pyseccomp)") from error
    except (OSError, RuntimeError) as error:
        raise RuntimeUnavailableError(kind, "install libseccomp: apt install libseccomp2") from error
    module: ModuleType = pyseccomp
    return module
