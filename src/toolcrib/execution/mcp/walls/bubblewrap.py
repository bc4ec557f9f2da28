"""Walls of bubblewrap: namespaces, a filter of system calls and, where it can be made, a control group.

Options, among them variables that may be secret, are passed by a descriptor, since everybody can read the
command line of a process. A server dies with bubblewrap, which dies with toolcrib: the kernel sees to it, and
all that the server has started is in its process namespace, daemons too.
"""

import os
import shutil
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import anyio

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.execution.mcp.transport.process import Launch
from toolcrib.execution.mcp.walls.view import MEMORY, SCRATCH, TASKS, Reach, ServerView
from toolcrib.isolation.bubblewrap import server_options, try_command
from toolcrib.isolation.cgroup import Cgroup, Cgroups, find_cgroups
from toolcrib.isolation.seccomp import SERVER, compile_filter

KIND = "bubblewrap"
_COUNTS_PER_NAMESPACE = (5, 14)
"""The version of Linux from which on a limit of processes counts those of a user namespace alone."""
_REMOVAL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class BubblewrapWall:
    """The abilities of bubblewrap on this machine."""

    program: str
    filter: bytes = field(repr=False)
    """The filter of system calls, in the kernel's format."""
    cgroups: Cgroups
    stays = False
    """Whether the launcher stays beside the server."""

    @property
    def limits(self) -> dict[str, int]:
        """The rlimits of a server, where no control group has the limit."""
        limits = {"CORE": 0}
        if not self.cgroups.memory:
            limits["DATA"] = MEMORY
        if not self.cgroups.pids and _kernel() >= _COUNTS_PER_NAMESPACE:
            limits["NPROC"] = TASKS
        return limits

    @staticmethod
    def user(_: Reach) -> None:
        """Return the user that the launcher has to become: it is that user from the beginning."""
        return

    @asynccontextmanager
    async def launch(
        self, view: ServerView, command: Sequence[str], *, network: Reach, line: tuple[Path, str]
    ) -> AsyncGenerator[Launch, None]:
        """Give the way to start a program behind a wall; afterwards nothing of it is left.

        Args:
            view: What it sees.
            command: The program and its arguments.
            network: What it reaches.
            line: A folder of this machine with a socket, and where it is inside.
        """
        cgroup = self.cgroups.make()
        try:
            if cgroup is not None:
                cgroup.set_limits(memory=MEMORY, pids=TASKS)
            with _memory_files() as files:
                mounts = [*_mount_options(view), "--ro-bind", str(line[0]), line[1]]
                for path, text in view.texts.items():
                    mounts += ["--perms", "0444", "--ro-bind-data", files.add(text.encode()), str(path)]
                options = server_options(
                    mounts,
                    environment=view.environment,
                    folder=str(view.folder),
                    network=network == "all",
                    listens=network == "hosts",
                    filter_fd=int(files.add(self.filter)),
                )
                given = files.add(b"".join(os.fsencode(option) + b"\0" for option in options))
                words = [self.program, "--args", given, "--", *command]
                words = words if cgroup is None else cgroup.joining(words)
                yield Launch(tuple(words), {}, "/", tuple(files.descriptors), is_walled=True)
        finally:
            if cgroup is not None:
                await _remove(cgroup)


class _MemoryFiles:
    """Files without a name, which a child process reads by their descriptors."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.descriptors: list[int] = []

    def add(self, content: bytes) -> str:
        """Make one, and return its descriptor."""
        file = self._stack.enter_context(os.fdopen(os.memfd_create("wall"), "w+b"))
        file.write(content)
        file.flush()
        file.seek(0)
        self.descriptors.append(file.fileno())
        return str(file.fileno())


@contextmanager
def _memory_files() -> Iterator[_MemoryFiles]:
    with ExitStack() as stack:
        yield _MemoryFiles(stack)


def _mount_options(view: ServerView) -> Iterator[str]:
    """Yield the options for its files, with a `/tmp` of its own below those that lie there."""
    for link, target in view.links.items():
        yield from ("--symlink", target, str(link))
    yield from ("--perms", "1777", "--size", str(SCRATCH), "--tmpfs", "/tmp")  # noqa: S108 - its own
    for mount in view.mounts:
        yield from ("--bind" if mount.is_writable else "--ro-bind", str(mount.source), str(mount.path))


async def _remove(cgroup: Cgroup) -> None:
    with anyio.CancelScope(shield=True), anyio.move_on_after(_REMOVAL_SECONDS, shield=True):
        while not cgroup.remove():  # noqa: ASYNC110 - there is no event for the end of its last process
            await anyio.sleep(0.005)


def _kernel() -> tuple[int, ...]:
    digits = os.uname().release.split("-")[0].split(".")
    return tuple(int(each) for each in digits[:2] if each.isdigit())


def find_bubblewrap() -> BubblewrapWall:
    """Return the abilities of bubblewrap here; detection is repeated until it succeeds.

    Raises:
        RuntimeUnavailableError: nothing, and what to install or to allow.
    """
    if not sys.platform.startswith("linux"):
        raise RuntimeUnavailableError(KIND, "it needs Linux")
    program = shutil.which("bwrap")
    if program is None:
        raise RuntimeUnavailableError(KIND, "install it: apt install bubblewrap")
    return _try_bubblewrap(program)


@cache
def _try_bubblewrap(program: str) -> BubblewrapWall:
    try:
        syscalls = compile_filter(SERVER)
        with _memory_files() as files:
            options = server_options(
                ["--ro-bind", "/", "/"],
                environment={},
                folder="/",
                network=False,
                filter_fd=int(files.add(syscalls)),
            )
            works, problem = try_command([program, *options, "--", "/bin/true"], files.descriptors)
    except OSError as error:
        raise RuntimeUnavailableError(KIND, f"it cannot be tried here ({error})") from error
    if not works:
        remedy = "allow user namespaces, or choose sandbox = 'docker'"
        raise RuntimeUnavailableError(KIND, f"it cannot make namespaces ({problem.strip()[-300:]}); {remedy}")
    return BubblewrapWall(program, syscalls, find_cgroups())
