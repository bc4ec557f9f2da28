"""The wall around a worker: a script that starts it where there is nothing to see and little to ask for.

The interpreter is the inner wall: code cannot name a file, a socket or a process. This is the outer one, for
the case that a flaw in the interpreter lets code run as machine code.
"""

import errno
import importlib
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.owner import is_gone, own_mark

__all__ = ["MAX_MEMORY", "NOBODY", "WorkerFolder", "make_folder", "wall_here", "write_filter"]

NOBODY = 65534
"""The user that a worker is where we are root."""
MAX_MEMORY = 3 << 30
"""The largest limit of memory that is passed on; one above all of them bounds the worker from outside."""
_ADDRESS_SPACE = 4 << 20
"""Kilobytes of address space for a worker, in which the largest heap has room."""
_DESCRIPTORS = 64
_FILTER = 9
"""The descriptor that bubblewrap reads the filter from."""
_PATIENCE = 20.0
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
_PREFIX = "toolcrib-monty-"
_PRIVATE = 0o700


class WorkerFolder:
    """A private folder with the script that starts a worker; leaving removes it.

    Args:
        parts: What the wall is made of: `bubblewrap` and `seccomp`, each if it can be used here.
        address_space: Kilobytes of address space that a worker may take.
    """

    def __init__(self, parts: Iterable[str], *, address_space: int = _ADDRESS_SPACE) -> None:
        self._parts = frozenset(parts)
        self._address_space = address_space
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        self._folder = make_folder()
        try:
            if "seccomp" in self._parts:
                write_filter(self._filter)
            self.script.write_text(self._written(), encoding="utf-8")
            self.script.chmod(0o700)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def script(self) -> Path:
        """What starts a worker, given the arguments for it."""
        return self._inside("worker")

    @property
    def _filter(self) -> Path:
        return self._inside("filter")

    def _inside(self, name: str) -> Path:
        if self._folder is None:
            raise RuntimeError("the wall is not up")
        return self._folder / name

    def _written(self) -> str:
        worker = monty_binary()
        command = _behind_bubblewrap(worker, self._parts) if "bubblewrap" in self._parts else _bare(worker)
        line = " ".join(map(shlex.quote, command)) + ' "$@"'
        if "seccomp" in self._parts:
            line += f" {_FILTER}<{shlex.quote(str(self._filter))}"
        limits = ["ulimit -c 0", f"ulimit -n {_DESCRIPTORS}", f"ulimit -v {self._address_space}"]
        # what the worker says of its end is told by the engine as well
        return "\n".join(["#!/bin/sh", "exec 2>/dev/null", *limits, f"exec {line}", ""])


@cache
def monty_binary() -> str:
    """Return the path of the engine's worker.

    Raises:
        RuntimeUnavailableError: the engine is not installed.
    """
    try:
        from pydantic_monty._binary import find_monty_binary  # noqa: PLC0415 - an extra

        return find_monty_binary()
    except (ImportError, FileNotFoundError) as error:
        raise RuntimeUnavailableError("monty", "pip install 'toolcrib[code]' (pydantic-monty)") from error


def _bare(worker: str) -> Sequence[str]:
    """Return how to start a worker that at least dies with us."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", worker] if setpriv else [worker]


def _behind_bubblewrap(worker: str, parts: frozenset[str]) -> Sequence[str]:
    command = [
        shutil.which("bwrap") or "bwrap",
        "--unshare-net",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
    ]
    command += [
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--cap-drop",
        "ALL",
    ]
    if "seccomp" in parts:
        command += ["--seccomp", str(_FILTER)]
    if os.geteuid() != 0:
        command += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        return [*command, *_seen(worker), "/monty"]
    setpriv = shutil.which("setpriv") or "setpriv"
    for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
        command += ["--cap-add", capability]
    command += [
        *_seen(worker, setpriv),
        "/setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
    ]
    return [*command, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "/monty"]


def _seen(worker: str, *others: str) -> list[str]:
    """Return the options that make the programs and their libraries, and nothing else, visible."""
    programs = [(worker, "/monty"), *((other, f"/{Path(other).name}") for other in others)]
    libraries = sorted({library for program, _ in programs for library in _libraries(program)})
    folders = sorted({str(folder) for library in libraries for folder in Path(library).parents} - {"/"})
    options = [option for folder in folders for option in ("--perms", "0755", "--dir", folder)]
    for source, target in [*programs, *((library, library) for library in libraries)]:
        options += ["--ro-bind", os.path.realpath(source), target]
    return [*options, "--remount-ro", "/", "--chdir", "/"]


@cache
def _libraries(program: str) -> Sequence[str]:
    """Return the shared libraries that a program loads; none where it is a static one."""
    command = ["ldd", program]  # programs of our own
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)  # noqa: S603
    words = [word for line in completed.stdout.splitlines() for word in line.split()]
    return [word for word in words if word.startswith("/") and not word.endswith(":")]


@cache
def wall_here() -> tuple[str, ...]:
    """Return what a wall can be made of on this machine, outermost first, as tried with a real worker."""
    for parts in (("bubblewrap", "seccomp"), ("bubblewrap",)):
        if _holds(parts):
            return parts
    return ()


def _holds(parts: tuple[str, ...]) -> bool:
    if shutil.which("bwrap") is None or (os.geteuid() == 0 and shutil.which("setpriv") is None):
        return False
    try:
        with WorkerFolder(parts) as wall:
            command = [str(wall.script), "--version"]
            done = subprocess.run(command, env={}, capture_output=True, check=False, timeout=_PATIENCE)  # noqa: S603 - our own script
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError, RuntimeUnavailableError):
        return False
    return done.returncode == 0


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


def make_folder() -> Path:
    """Return an empty folder of our own, having removed those of processes that are gone.

    Its name says which process made it, so that the next one can remove what a killed process left.
    """
    own = own_mark()
    if own is not None:  # where the system tells who is alive
        _sweep()
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{own or 'host'}-"))


def _sweep() -> None:
    with suppress(OSError):
        for folder in list(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Return whether a folder is ours, and of a process that is gone."""
    if not is_gone(folder.name.removeprefix(_PREFIX).rpartition("-")[0]):
        return False
    with suppress(OSError):  # another was faster
        found = folder.lstat()
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == _PRIVATE
        return private and found.st_uid == os.geteuid()
    return False
