"""Isolation of a CPython interpreter by bubblewrap: the visible files, and a test whether it works here."""

import os
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.isolation.bubblewrap import Bubblewrap, try_command
from toolcrib.isolation.cgroup import Cgroups, find_cgroups
from toolcrib.isolation.seccomp import INTERPRETER, compile_filter

HOME = "/tmp"  # noqa: S108 - a tmpfs of the guest's own
_LIBRARY_FOLDERS = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64")
_EXTRA_FILES = ("/usr/share/zoneinfo",)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
# isolated, without site-packages and bytecode files, unbuffered output
_FLAGS = ("-I", "-S", "-B", "-u", "-X", "utf8")


def interpreter() -> tuple[str, ...]:
    """Return the command of the interpreter that runs this program, without installed packages."""
    # the base interpreter: the one of a virtual environment would look for its folder, which is not visible
    program = getattr(sys, "_base_executable", None) or sys.executable
    return (os.path.realpath(program), *_FLAGS)


@dataclass(frozen=True, slots=True)
class Wall:
    """The isolation of a guest on this machine."""

    bubblewrap: Bubblewrap
    version: str
    """The version of bubblewrap."""
    filter: bytes = field(repr=False)
    """The compiled filter of system calls."""
    cgroups: Cgroups

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers of isolation, outermost first."""
        walls = ["namespaces", "read-only root", "no network", "unprivileged uid", "seccomp", "rlimits"]
        if os.geteuid() == 0 and not self.bubblewrap.as_root:
            walls.remove("unprivileged uid")
        return ("cgroup", *walls) if self.cgroups.memory else tuple(walls)

    def command(self, program: Sequence[str], *, disk: int) -> list[str]:
        """Return the command that runs an isolated program; `disk` is the size of its temporary folder."""
        home = ["--perms", "1777", "--size", str(disk), "--tmpfs", HOME] if disk else ["--dir", HOME]
        return self.bubblewrap.command(
            program,
            files={path: path for path in _find_needed()},
            mounts=[*_make_devices(), *_hide_packages(), *home],
            environment={"HOME": HOME, "MALLOC_ARENA_MAX": "2"},
        )


def _make_devices() -> Iterator[str]:
    """Yield the options for the few devices that an interpreter opens."""
    yield from ("--perms", "0755", "--dir", "/dev")
    # bound one by one, because `--dev` of bubblewrap also mounts terminals and a writable /dev/shm
    for device in _DEVICES:
        yield from ("--dev-bind-try", device, device)


def _hide_packages() -> Iterator[str]:
    """Yield the options that hide installed packages behind empty read-only folders."""
    for hidden in _find_packages():
        yield from ("--perms", "0555", "--tmpfs", hidden, "--remount-ro", hidden)


@cache
def _find_needed() -> tuple[Path, ...]:
    """Return the files and folders of the interpreter and its libraries."""
    prefix = Path(os.path.realpath(sys.base_exec_prefix))
    folders = [Path(name) for name in _LIBRARY_FOLDERS]
    folders += [prefix / "lib", prefix / "lib64", Path(os.path.realpath(sysconfig.get_path("stdlib")))]
    folders += [Path(interpreter()[0]), *map(Path, _EXTRA_FILES)]
    found: list[Path] = []
    for path in dict.fromkeys(folders):
        if os.access(path, os.R_OK) and not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return tuple(found)


@cache
def _find_packages() -> tuple[str, ...]:
    """Return the folders of installed packages inside the visible folders."""
    stdlib = Path(os.path.realpath(sysconfig.get_path("stdlib")))
    packages = [
        stdlib / "site-packages",
        stdlib / "dist-packages",
        stdlib.parent / "python3" / "dist-packages",
    ]
    packages += [Path(os.path.realpath(name)) for name in site.getsitepackages([sys.base_prefix])]
    inside = [
        path
        for path in packages
        if os.access(path, os.R_OK) and any(map(path.is_relative_to, _find_needed()))
    ]
    return tuple(dict.fromkeys(map(str, inside)))


def find_wall() -> Wall:
    """Return the isolation of this machine; it is tested once, and a failure is remembered too.

    Raises:
        RuntimeUnavailableError: there is none; the message says what to install.
    """
    try:
        found = _try_wall()
    except OSError as error:  # such as too many open files: may pass, so it is not remembered
        raise RuntimeUnavailableError("process", f"it cannot be tried here ({error})") from error
    if isinstance(found, str):
        raise RuntimeUnavailableError("process", found)
    return found


@cache
def _try_wall() -> Wall | str:
    """Return the isolation, or the remedy if there is none."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux; use the 'monty' backend here"
    program = shutil.which("bwrap")
    if program is None:
        return "install bubblewrap: apt install bubblewrap"
    if not os.access(interpreter()[0], os.R_OK | os.X_OK):
        return f"user {os.geteuid()} cannot reach the interpreter {interpreter()[0]}; use another"
    try:
        filtered = compile_filter(INTERPRETER)
    except RuntimeUnavailableError as error:
        return error.remedy
    version, cgroups, problem = try_command([program, "--version"])[1].split(), find_cgroups(), ""
    # Root needs no user namespace, which some systems forbid; but in a container root may lack the rights to
    # do without one, so both ways are tried.
    for as_root in [True, False] if os.geteuid() == 0 else [False]:
        wall = Wall(Bubblewrap(program, as_root), version[-1] if version else "", filtered, cgroups)
        works, problem = try_command(
            wall.command([*interpreter(), "-c", "import ctypes, asyncio"], disk=1 << 20)
        )
        if works:
            return wall
    return f"namespaces cannot be made here ({problem.strip()[-300:]}); allow unprivileged user namespaces"
