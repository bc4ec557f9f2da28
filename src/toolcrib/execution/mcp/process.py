"""A server as a child process: started in a group of its own, and never left behind."""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.reaper import forget_group, watch_group
from toolcrib.execution.mcp.tail import StderrTail

__all__ = ["ServerProcess", "StderrTail", "server_environment"]

_POSIX = os.name == "posix"
_INHERITED = (
    ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
    if _POSIX
    else (
        *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
        *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
    )
)
_TERM_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
_KILL_GRACE = 2.0
"""Seconds that a killed process has to be gone; one that is not cannot be killed at all."""
_POLL = 0.01


def server_environment(environ: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """Return what a server sees of the environment: the little that is no secret, and what is configured.

    >>> server_environment({"PATH": "/bin", "AWS_SECRET": "x"}, {"TOKEN": "t"})
    {'PATH': '/bin', 'TOKEN': 't'}
    """
    inherited = {name: environ[name] for name in _INHERITED if name in environ}
    functions = [name for name, value in inherited.items() if value.startswith("()")]  # of old shells, unsafe
    return {name: inherited[name] for name in inherited if name not in functions} | dict(configured)


class ServerProcess:
    """A running server and the group of processes it leads.

    Its exit is seen at once, even if a process that it started keeps its pipes open. On systems that are not
    POSIX there are no groups: then only the server itself is stopped.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._swept = False
        # Pipes are what anyio opens where nothing else is asked for.
        self.stdin = cast("ByteSendStream", process.stdin)
        self.stdout = cast("ByteReceiveStream", process.stdout)
        self._stderr = cast("ByteReceiveStream", process.stderr)

    @classmethod
    async def start(cls, config: ServerConfig, *, name: str) -> Self:
        """Start the command of a server.

        Raises:
            ServerUnavailableError: it cannot be started, and what to do about it.
        """
        command, cwd = _at_home(config.command or ""), _at_home(config.cwd) if config.cwd else None
        try:
            # A cancellation between the start and the registration would leave it behind.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    [command, *config.args],
                    env=server_environment(os.environ, config.env),
                    cwd=cwd,
                    start_new_session=_POSIX,
                )
                watch_group(process.pid)
        except OSError as error:
            raise ServerUnavailableError(name, _why_not_started(error, command, cwd)) from error
        return cls(process)

    @property
    def pid(self) -> int:
        """Return its process id, which is that of its group too."""
        return self._process.pid

    async def exited(self) -> str:
        """Wait until the server ends, and return how it did: `it exited with status 3`."""
        await self._process.wait()
        return _ending(self._process.returncode)

    async def keep_stderr(self, tail: StderrTail) -> None:
        """Read its standard error into a tail until it closes."""
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            while True:
                tail.feed(await self._stderr.receive())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the group that is left."""
        if self._swept:  # its number may be another's
            return
        with suppress(ProcessLookupError, PermissionError):  # gone, or not ours to signal
            if _POSIX:
                os.killpg(self.pid, number)
            elif self._process.returncode is None:
                self._process.send_signal(number)

    async def stop(self, *, grace: float = 1.0) -> None:
        """End the server and all it started: ask by closing its input, then SIGTERM, then SIGKILL.

        Each step is taken only if the one before was not enough, and each has its time: `grace` seconds to
        end by itself, then half a second. It cannot be cancelled, and it may be called again.
        """
        with anyio.CancelScope(shield=True):
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                await self.stdin.aclose()
            await self._gone_within(grace, group=False)
            await self.sweep()
            if self._process.returncode is not None:
                await self._process.aclose()

    async def sweep(self) -> None:
        """End every process of the group that is left."""
        with anyio.CancelScope(shield=True):
            self.signal(signal.SIGTERM)
            if not await self._gone_within(_TERM_GRACE, group=True):
                self.signal(signal.SIGKILL if _POSIX else signal.SIGTERM)
                # Not for the group: init may take long to collect the dead of it.
                await self._gone_within(_KILL_GRACE, group=False)
            self._swept = True
            forget_group(self.pid)

    async def _gone_within(self, seconds: float, *, group: bool) -> bool:
        """Return whether the server, or its whole group, ends within a time."""
        with anyio.move_on_after(seconds):
            while self._lives(group=group):  # noqa: ASYNC110 - nothing tells of the end of a group
                await anyio.sleep(_POLL)
            return True
        return False

    def _lives(self, *, group: bool) -> bool:
        if self._process.returncode is None:
            return True
        if self._swept or not (group and _POSIX):
            return False
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # there is somebody, whom we may not signal
            return True
        return True


def _at_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - a Path raises where a user is not known


def _ending(status: int | None) -> str:
    if status is None or status >= 0:
        return f"it exited with status {status}"
    try:
        return f"it was ended by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal, which has no name
        return f"it was ended by signal {-status}"


def _why_not_started(error: OSError, command: str, cwd: str | None) -> str:
    """Return what is wrong with a command, and what to do about it."""
    if cwd is not None and not Path(cwd).is_dir():
        return f"its working directory {cwd!r} does not exist; create it, or change 'cwd'"
    if isinstance(error, FileNotFoundError):
        if any(map(str.isspace, command)):
            return f"there is no program {command!r}; put what follows the program into 'args'"
        if Path(command).is_file():
            return f"{command!r} names an interpreter in its first line that does not exist"
        where = "" if os.sep in command else " on the PATH"
        return f"there is no program {command!r}{where}; install it, or write its full path"
    if isinstance(error, PermissionError):
        return f"{command!r} may not be executed; make it executable, or write the program that runs it"
    return f"{command!r} cannot be started: {error.strerror or error}"
