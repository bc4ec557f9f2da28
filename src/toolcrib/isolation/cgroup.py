"""Control groups: kernel limits on the memory and tasks of a guest, and a count of its CPU time.

Both versions are supported: many container hosts still mount version 1, with a folder for each controller.
Which groups this process may make depends on the system, so `find_cgroups` tries each place by making a
group. A group is named after the process that made it, so that the groups of a killed process can be removed.
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Self

from toolcrib.isolation.owner import is_gone, own_mark

_PREFIX = "toolcrib"
_JOIN = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 > "$1" || exit 1; shift; n=$((n-1)); done; exec "$@"'
"""Joins control groups, then becomes the program: what it starts is in them from its first instruction."""
_NUMBERS = count(1)
_CONTROLLER_FILES = {
    "memory": ("memory.limit_in_bytes", "memory.max"),
    "pids": ("pids.max",),
    "cpuacct": ("cpuacct.usage", "cpu.stat"),
}
"""Files that show that a group has a controller, by its name in version 1; the last of each is of version
2."""
_REMOVAL_TIMEOUT = 1.0
_POLL_SECONDS = 0.002
_VERSION_2 = "cgroup2"
_OOM_FILES = ("memory.oom_control", "memory.events")


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The parent folder of new groups for each controller; in version 2 all are the same."""

    parents: Mapping[str, Path]

    @property
    def memory(self) -> bool:
        """Whether memory can be limited."""
        return "memory" in self.parents

    @property
    def pids(self) -> bool:
        """Whether processes and threads can be limited."""
        return "pids" in self.parents

    @property
    def time(self) -> bool:
        """Whether CPU time is counted."""
        return "cpuacct" in self.parents

    def make(self) -> "Cgroup | None":
        """Make the group of one guest; None if groups cannot be made."""
        name = f"{_PREFIX}-{own_mark()}-{next(_NUMBERS)}"
        made: dict[str, Path] = {}
        try:
            for controller, parent in self.parents.items():
                folder = made[controller] = parent / name
                # exists already if controllers share a folder; otherwise it is another guest's, which is an
                # error
                folder.mkdir(exist_ok=folder in list(made.values())[:-1])
        except OSError:
            for folder in made.values():
                with suppress(OSError):
                    folder.rmdir()
            return None
        return Cgroup(made) if made else None

    def remove_abandoned(self) -> int:
        """Remove the groups of processes that have ended, and return their number.

        A guest that was starting when its host was killed may still be in one; it is killed.
        """
        left = [
            folder
            for folder in {
                path for parent in self.parents.values() for path in parent.glob(f"{_PREFIX}-*-*-*-*")
            }
            if is_gone(folder.name.removeprefix(f"{_PREFIX}-").rpartition("-")[0])
        ]
        busy, until = left, monotonic() + _REMOVAL_TIMEOUT
        while (busy := [folder for folder in busy if not _remove_group(folder)]) and monotonic() < until:
            sleep(_POLL_SECONDS)  # until the kernel has ended the processes that were killed
        return len(left) - len(busy)


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The group of one guest."""

    folders: Mapping[str, Path]

    @property
    def procs_files(self) -> tuple[str, ...]:
        """The `cgroup.procs` files; a process joins by writing 0 to each."""
        return tuple(dict.fromkeys(str(folder / "cgroup.procs") for folder in self.folders.values()))

    def joining(self, command: Sequence[str]) -> list[str]:
        """Return the command that joins the groups and then becomes another command."""
        return ["/bin/sh", "-c", _JOIN, "sh", str(len(self.procs_files)), *self.procs_files, *command]

    def set_limits(self, *, memory: int, pids: int) -> Self:
        """Set the limits of memory, without swap, and of tasks."""
        held = self.folders.get("memory")
        if held is not None:
            if (held / "memory.max").exists():
                _write(held / "memory.swap.max", 0)
                _write(held / "memory.max", memory)
            else:
                files = [held / "memory.limit_in_bytes", held / "memory.memsw.limit_in_bytes"]
                for file in [
                    *files,
                    files[0],
                ]:  # memory may not exceed memory+swap, so to raise both the second goes first
                    _write(file, memory)
        if "pids" in self.folders:
            _write(self.folders["pids"] / "pids.max", pids)
        return self

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel killed a process of the group because of its memory limit."""
        held = self.folders.get("memory")
        for file in [held / name for name in _OOM_FILES] if held is not None else []:
            with suppress(OSError):
                words = file.read_text().split()
                return "oom_kill" in words and words[words.index("oom_kill") + 1] != "0"
        return False

    def cpu_seconds(self) -> float | None:
        """Return the CPU time used in the group; None if it is not counted."""
        counted = self.folders.get("cpuacct")
        if counted is None:
            return None
        for line in _read_lines(counted / "cpuacct.usage"):
            return int(line) / 1e9
        words = " ".join(_read_lines(counted / "cpu.stat")).split()
        return int(words[words.index("usage_usec") + 1]) / 1e6 if "usage_usec" in words else None

    def remove(self) -> bool:
        """Remove the group and return True; if it has processes, kill them and return False."""
        folders = set(self.folders.values())
        return sum(map(_remove_group, folders)) == len(folders)


def find_cgroups(about: Path = Path("/proc/self")) -> Cgroups:
    """Return the parents under which groups can be made, and remove abandoned groups there.

    `about` is the folder of the process in `/proc`.
    """
    parents = {}
    for controller in _CONTROLLER_FILES:
        for parent in _list_candidates(controller, about):
            if _has_controller(parent, controller):
                parents[controller] = parent
                break
    found = Cgroups(parents)
    found.remove_abandoned()
    return found


def _list_candidates(controller: str, about: Path) -> Iterator[Path]:
    """Yield the folders where a group might be made: below our own group, beside it, at the root.

    Below comes first, since our own limits then hold for guests too. In version 2 that often fails: a group
    that has processes, such as our own, may not enable controllers for its children.
    """
    own = dict(_list_own_groups(about))
    for mount, kind, options in _list_mounts(about):
        name = "" if kind == _VERSION_2 else controller
        if name not in own or (name and controller not in options):
            continue
        inside = mount / own[name].lstrip("/")
        yield from dict.fromkeys(
            path for path in (inside, inside.parent, mount) if path.is_relative_to(mount)
        )


def _list_own_groups(about: Path) -> Iterator[tuple[str, str]]:
    for line in _read_lines(about / "cgroup"):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _list_mounts(about: Path) -> Iterator[tuple[Path, str, list[str]]]:
    for line in _read_lines(about / "mountinfo"):
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if kind in {"cgroup", _VERSION_2}:
            yield Path(fields.split(" ")[4]), kind, options.split(",")


def _has_controller(parent: Path, controller: str) -> bool:
    """Make a group under a parent, and return whether it has the controller."""
    if not os.access(parent, os.W_OK):
        return False
    group = Cgroups({controller: parent}).make()
    if group is None:
        return False
    folder = group.folders[controller]
    try:
        mode = os.R_OK if controller == "cpuacct" else os.W_OK
        return any(os.access(folder / name, mode) for name in _CONTROLLER_FILES[controller])
    finally:
        group.remove()


def _remove_group(folder: Path) -> bool:
    """Remove a group and return True; if it has processes, kill them and return False."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True  # another process has removed it
    except OSError:
        _kill(folder)
        return False
    return True


def _kill(folder: Path) -> None:
    """Kill the processes in a group: at once with `cgroup.kill` (Linux 5.14), and one by one."""
    if (folder / "cgroup.kill").exists():
        _write(folder / "cgroup.kill", 1)
    for guest in map(int, _read_lines(folder / "cgroup.procs")):
        if (
            guest > 0
        ):  # processes of other pid namespaces are listed as 0, and kill(0) is our own process group
            with suppress(OSError):
                os.kill(guest, signal.SIGKILL)


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _write(file: Path, value: int) -> None:
    with suppress(OSError):  # the kernel counts no swap, or the other limit must change first
        file.write_text(str(value))
