"""The wall around a guest: the command line of bubblewrap, and what of this machine is visible behind it."""

import os
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.process.cgroup import Cgroups, find_cgroups
from toolcrib.runtime.process.seccomp import filter_program

__all__ = ["GUEST_UID", "HOME", "Wall", "find_wall", "interpreter"]

GUEST_UID = 65534
"""Whom guests run as, where we are root: nobody."""
HOME = "/tmp"  # noqa: S108 - the guest's own, which is empty and vanishes with it
_SYSTEM = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64")
_EXTRAS = ("/usr/share/zoneinfo",)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_PATIENCE = 20.0
_FLAGS = ("-I", "-S", "-B", "-u", "-X", "utf8")


def interpreter() -> tuple[str, ...]:
    """Return the command that starts the interpreter that runs us, without anything that was installed."""
    program = getattr(sys, "_base_executable", None) or sys.executable
    return (os.path.realpath(program), *_FLAGS)


@dataclass(frozen=True, slots=True)
class Wall:
    """What stands between a guest and this machine."""

    program: str
    """Where bubblewrap is."""
    version: str
    as_root: bool
    """Whether guests are made by root, who gives them another user's id; else by a user namespace."""
    filter: bytes = field(repr=False)
    """Which system calls it lets through, as the kernel takes it."""
    cgroups: Cgroups

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of what it is made of, outermost first."""
        walls = ["namespaces", "read-only root", "no network", "unprivileged uid", "seccomp", "rlimits"]
        if os.geteuid() == 0 and not self.as_root:
            walls.remove("unprivileged uid")
        return ("cgroup", *walls) if self.cgroups.memory else tuple(walls)

    def command(self, program: Sequence[str], *, disk: int) -> list[str]:
        """Return the command that runs a program behind it; it must be started with an empty environment."""
        size = ["--perms", "1777", "--size", str(disk), "--tmpfs", HOME] if disk else ["--dir", HOME]
        return [
            *(self.program, *_namespaces(as_root=self.as_root)),
            *_visible(),
            *(*size, "--remount-ro", "/", "--chdir", HOME),
            *("--setenv", "HOME", HOME, "--setenv", "MALLOC_ARENA_MAX", "2", "--", *program),
        ]


def _namespaces(*, as_root: bool) -> list[str]:
    unshared = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    kept = ["--cap-drop", "ALL"]
    if as_root:  # for as long as it takes to become somebody else
        kept += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        unshared += ["--unshare-user"]
    return [*unshared, "--hostname", "guest", "--die-with-parent", "--new-session", *kept]


def _visible() -> Iterator[str]:
    """Yield the options that show the interpreter and its libraries, read-only."""
    made: set[Path] = set()
    for path in _needed():
        for parent in reversed(path.parents[:-1]):
            if parent not in made:
                made.add(parent)
                yield from ("--perms", "0755", "--dir", str(parent))
        if path.is_symlink() and path.is_dir():
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from ("--ro-bind", str(path), str(path))
    yield from ("--perms", "0755", "--dir", "/dev")
    for device in _DEVICES:
        yield from ("--dev-bind-try", device, device)
    for hidden in _hidden():
        yield from ("--perms", "0555", "--tmpfs", hidden, "--remount-ro", hidden)


@cache
def _needed() -> tuple[Path, ...]:
    prefix = Path(os.path.realpath(sys.base_exec_prefix))
    folders = [Path(name) for name in _SYSTEM]
    folders += [prefix / "lib", prefix / "lib64", Path(os.path.realpath(sysconfig.get_path("stdlib")))]
    folders += [Path(interpreter()[0]), *map(Path, _EXTRAS)]
    found: list[Path] = []
    for path in dict.fromkeys(folders):
        if os.access(path, os.R_OK) and not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return tuple(found)


@cache
def _hidden() -> tuple[str, ...]:
    """Return the folders of installed packages that lie among what is visible."""
    stdlib = Path(os.path.realpath(sysconfig.get_path("stdlib")))
    packages = [
        stdlib / "site-packages",
        stdlib / "dist-packages",
        stdlib.parent / "python3" / "dist-packages",
    ]
    packages += [Path(os.path.realpath(name)) for name in site.getsitepackages([sys.base_prefix])]
    inside = [
        path for path in packages if os.access(path, os.R_OK) and any(map(path.is_relative_to, _needed()))
    ]
    return tuple(dict.fromkeys(map(str, inside)))


def find_wall() -> Wall:
    """Return the wall that stands on this machine, having tried it once: that none does is remembered, too.

    Raises:
        RuntimeUnavailableError: none does, and what to install.
    """
    try:
        found = _found()
    except OSError as error:  # it may go away, and is not remembered
        raise RuntimeUnavailableError("process", f"it cannot be tried here ({error})") from error
    if isinstance(found, str):
        raise RuntimeUnavailableError("process", found)
    return found


@cache
def _found() -> Wall | str:
    """Return the wall, or what to do where none stands."""
    try:
        return _tried()
    except RuntimeUnavailableError as error:
        return error.remedy


def _tried() -> Wall:
    if not sys.platform.startswith("linux"):
        raise RuntimeUnavailableError("process", "it needs Linux; use the 'monty' backend here")
    program = shutil.which("bwrap")
    if program is None:
        raise RuntimeUnavailableError("process", "install bubblewrap: apt install bubblewrap")
    if not os.access(interpreter()[0], os.R_OK | os.X_OK):
        message = f"the interpreter {interpreter()[0]} is out of reach of user {os.geteuid()}; use another"
        raise RuntimeUnavailableError("process", message)
    filtered, cgroups, problem = filter_program(), find_cgroups(), ""
    version = _run([program, "--version"])[1].split()
    for as_root in [True, False] if os.geteuid() == 0 else [False]:
        wall = Wall(program, version[-1] if version else "", as_root, filtered, cgroups)
        fine, problem = _run(wall.command([*interpreter(), "-c", "import ctypes, asyncio"], disk=1 << 20))
        if fine:
            return wall
    remedy = f"namespaces cannot be made here ({problem.strip()[-300:]}); allow unprivileged user namespaces"
    raise RuntimeUnavailableError("process", remedy)


def _run(command: Sequence[str]) -> tuple[bool, str]:
    """Return whether a command succeeds, and what it said."""
    try:
        ended = subprocess.run(  # noqa: S603 - our own
            command,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return ended.returncode == 0, ended.stdout.decode(errors="replace")
