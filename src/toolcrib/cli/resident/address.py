"""The socket of the running gateway of a configuration, and the check that it is the right one.

Only the standard library is loaded here: every command looks for a running gateway first.
"""

import hashlib
import json
import os
import re
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib.paths import data_folder, runtime_folder

_MAX_PATH = 100
"""The longest path that a socket can be bound to on every system is 103 bytes."""
_MAX_CONFIG = 4 * 2**20
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS = frozenset({b"_", b"PWD", b"OLDPWD", b"SHLVL"})
"""Variables that differ from one command to the next."""
_CONNECT_TIMEOUT = 5.0
HELLO = b"{}\n"
"""Greeting of a gateway to each connection."""


class Address:
    """The socket of a running gateway: one for each user, configuration and installation of toolcrib."""

    def __init__(self, config: str | None, *, demo: bool) -> None:
        """Take the path of a configuration, None for none, and whether the demonstration is served too."""
        self.config = None if config is None else os.path.realpath(os.path.expanduser(config))  # noqa: PTH111 - light
        self.demo = demo
        installed = os.path.realpath(toolcrib.__file__)
        key = json.dumps([installed, self.config, demo]).encode()
        self.name = hashlib.sha256(key).hexdigest()[:24]
        self.folder = runtime_folder()

    @property
    def socket_file(self) -> Path:
        """The file of the socket."""
        return self.folder / f"{self.name}.sock"

    @property
    def pid_file(self) -> Path:
        """The file that the running gateway keeps locked."""
        return self.folder / f"{self.name}.pid"

    @property
    def log(self) -> Path:
        """The file that a gateway in the background writes its log to."""
        return data_folder() / "logs" / f"{self.name}.log"

    def digest(self) -> str:
        """Return the digest of the configuration: its file, and the environment variables that it names.

        Raises:
            OSError: the file cannot be read.
        """
        content = b"" if self.config is None else _content(self.config)
        named = {name for name in set(_NAME.findall(content)) - _SHELLS if name in os.environb}
        values = [(name.decode(), os.environb[name].hex()) for name in sorted(named)]
        return hashlib.sha256(content + json.dumps(values).encode()).hexdigest()

    def connect(self) -> socket.socket | None:
        """Return a connection to the running gateway; None where none of this user runs, or it is stuck.

        A gateway that works begins with a line of its own; one that is stopped would keep everybody waiting.
        """
        if not hasattr(socket, "AF_UNIX") or not self._is_ours():
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_CONNECT_TIMEOUT)
            with self.reachable() as path:
                connection.connect(path)
            if peer_is_ours(connection) and connection.recv(len(HELLO), socket.MSG_WAITALL) == HELLO:
                connection.settimeout(None)
                return connection
        except OSError:
            pass
        connection.close()
        return None

    def _is_ours(self) -> bool:
        try:
            folder, file = self.folder.stat(), self.socket_file.lstat()
        except OSError:
            return False
        is_private = folder.st_uid == os.geteuid() and not folder.st_mode & 0o077
        return is_private and stat.S_ISSOCK(file.st_mode) and file.st_uid == os.geteuid()

    @contextmanager
    def reachable(self) -> Iterator[str]:
        """Yield a path of the socket that is short enough for the system, as far as there is one."""
        path = str(self.socket_file)
        if len(os.fsencode(path)) <= _MAX_PATH or sys.platform != "linux":
            yield path
            return
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{folder}/{self.socket_file.name}"
        finally:
            os.close(folder)


def _content(path: str) -> bytes:
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a pipe would be waited for
        raise OSError(f"{path} is not a file")
    with open(path, "rb") as file:  # noqa: PTH123 - light
        return file.read(_MAX_CONFIG + 1)


def peer_is_ours(connection: socket.socket) -> bool:
    """Return whether the process at the other end is of this user; off Linux, the folder's mode says so."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid())


def writable_folder(path: Path) -> None:
    """Make a folder that this user alone can look into.

    Raises:
        OSError: it cannot be made, or belongs to another user.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = path.lstat()
    if not stat.S_ISDIR(known.st_mode) or known.st_uid != os.geteuid():
        raise PermissionError(f"{path} is not a folder of this user")
    if known.st_mode & 0o077:
        path.chmod(0o700)


def ask(address: Address, **request: Any) -> dict[str, Any] | None:
    """Request the facts of the running gateway; None if none runs."""
    connection = address.connect()
    if connection is None:
        return None
    with connection, connection.makefile("rwb") as lines, suppress(OSError, ValueError):
        lines.write(json.dumps(request).encode() + b"\n")
        lines.flush()
        answer = json.loads(lines.readline())
        return answer if isinstance(answer, dict) else None
    return None
