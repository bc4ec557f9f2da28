"""Seccomp: the system calls that an isolated program may make.

`WORKER` is for the engine of Monty, and `SERVER` for MCP servers: bubblewrap installs both. `INTERPRETER` is
for the CPython of code mode, which installs it by itself after it has started.
"""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from toolcrib.errors import RuntimeUnavailableError

# The kernel passes an `int` in a 64-bit register whose upper half is undefined, so only the lower half
# counts.
_INT_MASK = 0xFFFFFFFF
_CLONE_THREAD = 0x10000
_CLONE_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET."""
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
    """The system calls that a program may make; every other fails.

    Threads are allowed. `clone3` fails with ENOSYS, as on an old kernel: its flags are in memory, where a
    filter cannot read them, and C libraries then fall back to `clone`.
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
    has_processes: bool = False
    """Whether processes are allowed as threads are, but no new namespaces."""
    otherwise: int = errno.EPERM
    """The error of every other call."""


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

_AF_INET = 2
_AF_INET6 = 10
_AF_NETLINK = 16
_NETLINK_ROUTE = 0
_PERSONALITIES = (0, 8, 0x20000, 0x20008, _INT_MASK)
"""PER_LINUX, PER_LINUX32, both with UNAME26, and the question which it is."""
_PROCESSES_AND_SOCKETS = """
execve execveat fork vfork waitpid setpgid setsid prctl ioctl fcntl flock tkill rt_sigqueueinfo
rt_tgsigqueueinfo signalfd signalfd4 pidfd_open pidfd_send_signal setpriority sched_setaffinity
sched_setparam sched_setscheduler sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min
sched_rr_get_interval ioprio_get ioprio_set getsockopt setsockopt bind listen accept accept4 connect sendto
recvfrom sendmsg recvmsg sendmmsg recvmmsg setuid setgid setreuid setregid setresuid setresgid setfsuid
setfsgid setgroups capget capset seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
memfd_create memfd_secret mlock mlock2 munlock mlockall munlockall remap_file_pages pkey_alloc pkey_free
pkey_mprotect mseal map_shadow_stack modify_ldt set_thread_area get_thread_area chown fchown lchown fchownat
utime utimes futimesat utimensat mknod mknodat getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr
listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr inotify_init inotify_init1
inotify_add_watch inotify_rm_watch sync syncfs sync_file_range splice tee vmsplice cachestat futex_waitv
futex_wake futex_wait futex_requeue shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd
msgrcv msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr timer_create
timer_settime timer_gettime timer_getoverrun timer_delete io_setup io_destroy io_submit io_cancel io_getevents
io_pgetevents process_mrelease
"""
SERVER = SyscallPolicy(
    kind="bubblewrap",
    calls=frozenset(f"{_BASE_CALLS} {_FILE_AND_EVENT_CALLS} {_PROCESSES_AND_SOCKETS}".split()),
    checked=(
        *(("socket", ((0, _INT_MASK, family),)) for family in (_AF_UNIX, _AF_INET, _AF_INET6)),
        ("socket", ((0, _INT_MASK, _AF_NETLINK), (2, _INT_MASK, _NETLINK_ROUTE))),
        ("socketpair", ((0, _INT_MASK, _AF_UNIX),)),
        *_each("personality", 0, _PERSONALITIES),
    ),
    has_processes=True,
    otherwise=errno.ENOSYS,
)
"""For programs of any kind, with processes and sockets of their own: what Docker allows, without `ptrace`. A
call that is not in it fails as if the kernel lacked it, for which programs have another way: no namespaces,
mounts, keys, tracing, `bpf`, `io_uring`, `userfaultfd`, kernel modules or handles of files."""


@cache
def compile_filter(policy: SyscallPolicy) -> bytes:
    """Compile a policy to the BPF program that the kernel takes.

    Raises:
        RuntimeUnavailableError: the library that makes filters is missing.
        OSError: there is no room for it.
    """
    seccomp = _import_pyseccomp(policy.kind)
    program = seccomp.SyscallFilter(seccomp.ERRNO(policy.otherwise))
    allowed = [*((call, ()) for call in sorted(policy.calls)), *_list_checked(policy)]
    failing = [(errno.ENOTSUP, call) for call in policy.unsupported]
    if policy.otherwise != errno.ENOSYS:
        failing.append((errno.ENOSYS, "clone3"))
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


def docker_profile(policy: SyscallPolicy) -> dict[str, Any]:
    """Return a policy as a profile of Docker, whose own one is wider: older versions allow all sockets."""
    allow = "SCMP_ACT_ALLOW"
    checked = [
        {
            "names": [call],
            "action": allow,
            "args": [
                {"index": place, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
                for place, mask, value in checks
            ],
        }
        for call, checks in _list_checked(policy)
    ]
    lacking = {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS}
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": policy.otherwise,
        "syscalls": [{"names": sorted(policy.calls), "action": allow}, *checked, lacking],
    }


def _list_checked(policy: SyscallPolicy) -> list[tuple[str, tuple[_Check, ...]]]:
    """Return the calls of a policy that are allowed with some arguments alone, `clone` first."""
    flags = (0, _CLONE_NAMESPACES, 0) if policy.has_processes else (0, _CLONE_THREAD, _CLONE_THREAD)
    return [("clone", (flags,)), *policy.checked]


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
