"""Bubblewrap: the command line that runs a program in namespaces of its own.

Every program gets new namespaces, an empty read-only root and no capabilities. Its caller adds what the
program needs: files that it may read, folders that it may write, a network.

As root, bubblewrap keeps the capabilities to become another user, and the program inside drops them;
otherwise a user namespace maps the user, and no privilege is needed at all. A server keeps its user, so that
the files which it writes belong to whoever started it: for that, root has a user namespace too.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GUEST_UID = 65534
"""The user that guests run as where we are root: nobody."""
TRY_TIMEOUT = 20.0
"""Time limit in seconds of `try_command`."""
LISTENING = ("CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE", "CAP_SETPCAP")
"""What a program needs to add addresses to its loopback, to listen there at any port, and to give that up."""
_KERNEL = tuple(f"/proc/{name}" for name in ("bus", "fs", "irq", "sys", "sysrq-trigger"))
"""Where root writes to the kernel, without any capability."""
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
_DEVICE_LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
_UNSHARED = ("pid", "ipc", "uts", "cgroup-try")
_CHANGE_USER = ("CAP_SETUID", "CAP_SETGID")
"""Capabilities that a program started by root keeps until it has become another user."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """The program `bwrap`, and the way to call it here."""

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
        user = [option for name in (*_CHANGE_USER, *capabilities) for option in ("--cap-add", name)]
        if not self.as_root:
            user = ["--unshare-user", "--uid", str(GUEST_UID), "--gid", str(GUEST_UID)]
        variables = [option for pair in (environment or {}).items() for option in ("--setenv", *pair)]
        folder = (environment or {}).get("HOME", "/")
        # The order counts: bubblewrap carries out mounts one after another, so the root can become read-only
        # only after everything was mounted.
        return [
            *(self.program, *_isolate(network=False), *user),
            *(["--seccomp", str(filter_fd)] if filter_fd is not None else []),
            *(*_bind_read_only(files), *mounts, "--remount-ro", "/", "--chdir", folder, *variables),
            *("--", *program),
        ]


def server_options(
    mounts: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: str,
    network: bool,
    filter_fd: int,
    listens: bool = False,
) -> list[str]:
    """Return the options for a program that keeps its user, so that this user owns the files which it writes.

    It has no capability all the same. Where the user is root, this is the root of the machine, to whom some
    of /proc belongs: that is read-only.

    Args:
        mounts: Options for all that is in the root, which becomes read-only.
        environment: All of its variables.
        folder: Where it starts.
        network: Whether it shares the network of this machine; else it has a loopback of its own.
        filter_fd: The descriptor that the filter of system calls is read from.
        listens: Whether it begins with the capabilities `LISTENING`. Then it has no pseudoterminals: for them
            bubblewrap would put it into a second user namespace, which does not own the network.
    """
    user = ["--unshare-user", "--uid", str(os.getuid()), "--gid", str(os.getgid())]
    devices = ["--dev", "/dev"]
    if listens:
        user += [word for name in LISTENING for word in ("--cap-add", name)]
        devices = [
            *("--dir", "/dev", *(word for path in _DEVICES for word in ("--dev-bind-try", path, path))),
            *(word for link, target in _DEVICE_LINKS.items() for word in ("--symlink", target, link)),
            *("--perms", "1777", "--tmpfs", "/dev/shm"),  # noqa: S108 - its own
        ]
    proc = ["--proc", "/proc", *(option for path in _KERNEL for option in ("--ro-bind-try", path, path))]
    variables = [option for pair in environment.items() for option in ("--setenv", *pair)]
    return [
        *(*_isolate(network=network), *user, "--seccomp", str(filter_fd), *proc, *devices),
        *(*mounts, "--remount-ro", "/", "--chdir", folder, *variables),
    ]


def _isolate(*, network: bool) -> list[str]:
    kinds = _UNSHARED if network else (*_UNSHARED, "net")
    unshared = [f"--unshare-{kind}" for kind in kinds]
    # A new session keeps the program from typing into our terminal (TIOCSTI).
    return [
        *(*unshared, "--hostname", "guest", "--die-with-parent", "--new-session"),
        *("--clearenv", "--cap-drop", "ALL"),
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


def try_command(command: Sequence[str], pass_fds: Sequence[int] = ()) -> tuple[bool, str]:
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
            pass_fds=pass_fds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return ended.returncode == 0, ended.stdout.decode(errors="replace")
