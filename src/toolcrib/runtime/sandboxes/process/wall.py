"""Isolation of a CPython interpreter by bubblewrap: the files that it sees, and whether this works here."""

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

HOME = "/tmp"  # noqa: S108 - the guest's own, which is empty and vanishes with it
_SYSTEM = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64")
_EXTRAS = ("/usr/share/zoneinfo",)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_FLAGS = ("-I", "-S", "-B", "-u", "-X", "utf8")


def interpreter() -> tuple[str, ...]:
    """Return the command of the interpreter that runs this program, without installed packages."""
    program = getattr(sys, "_base_executable", None) or sys.executable
    return (os.path.realpath(program), *_FLAGS)


@dataclass(frozen=True, slots=True)
class Wall:
    """The isolation of a guest on this machine."""

    bubblewrap: Bubblewrap
    version: str
    """Of bubblewrap."""
    filter: bytes = field(repr=False)
    """Which system calls pass, as the kernel takes it."""
    cgroups: Cgroups

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of its layers, outermost first."""
        walls = ["namespaces", "read-only root", "no network", "unprivileged uid", "seccomp", "rlimits"]
        if os.geteuid() == 0 and not self.bubblewrap.as_root:
            walls.remove("unprivileged uid")
        return ("cgroup", *walls) if self.cgroups.memory else tuple(walls)

    def command(self, program: Sequence[str], *, disk: int) -> list[str]:
        """Return the command that runs a program behind it; `disk` is the size of its temporary folder."""
        home = ["--perms", "1777", "--size", str(disk), "--tmpfs", HOME] if disk else ["--dir", HOME]
        return self.bubblewrap.command(
            program,
            files={path: path for path in _find_needed()},
            mounts=[*_make_devices(), *_hide_packages(), *home],
            environment={"HOME": HOME, "MALLOC_ARENA_MAX": "2"},
        )


def _make_devices() -> Iterator[str]:
    """Yield the options that make the few devices which an interpreter opens."""
    yield from ("--perms", "0755", "--dir", "/dev")
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
    folders = [Path(name) for name in _SYSTEM]
    folders += [prefix / "lib", prefix / "lib64", Path(os.path.realpath(sysconfig.get_path("stdlib")))]
    folders += [Path(interpreter()[0]), *map(Path, _EXTRAS)]
    found: list[Path] = []
    for path in dict.fromkeys(folders):
        if os.access(path, os.R_OK) and not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return tuple(found)


@cache
def _find_packages() -> tuple[str, ...]:
    """Return the folders of installed packages inside the visible ones."""
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
    """Return the wall of this machine; it is tried once, and a failure is remembered too.

    Raises:
        RuntimeUnavailableError: there is none, and what to install.
    """
    try:
        found = _try_wall()
    except OSError as error:  # it may go away, and is not remembered
        raise RuntimeUnavailableError("process", f"it cannot be tried here ({error})") from error
    if isinstance(found, str):
        raise RuntimeUnavailableError("process", found)
    return found


@cache
def _try_wall() -> Wall | str:
    """Return the wall, or the remedy if there is none."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux; use the 'monty' backend here"
    program = shutil.which("bwrap")
    if program is None:
        return "install bubblewrap: apt install bubblewrap"
    if not os.access(interpreter()[0], os.R_OK | os.X_OK):
        return f"the interpreter {interpreter()[0]} is out of reach of user {os.geteuid()}; use another"
    try:
        filtered = compile_filter(INTERPRETER)
    except RuntimeUnavailableError as error:
        return error.remedy
    version, cgroups, problem = try_command([program, "--version"])[1].split(), find_cgroups(), ""
    for as_root in [True, False] if os.geteuid() == 0 else [False]:
        wall = Wall(Bubblewrap(program, as_root), version[-1] if version else "", filtered, cgroups)
        works, problem = try_command(
            wall.command([*interpreter(), "-c", "import ctypes, asyncio"], disk=1 << 20)
        )
        if works:
            return wall
    return f"namespaces cannot be made here ({problem.strip()[-300:]}); allow unprivileged user namespaces"
