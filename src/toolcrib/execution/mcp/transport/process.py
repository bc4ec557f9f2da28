"""A server as a child process, which is never left behind.

A server starts in a process group of its own, since most are a launcher (`npx`, `uvx`) with the real server
below it. To stop it means to end the whole group, in steps: close its input, SIGTERM, SIGKILL. Two things can
escape that, and have a guard of their own:

- A daemon leaves the group. On Linux it still carries the variable `TOOLCRIB_SERVER` in its environment, by
  which `strays` finds it under /proc.
- toolcrib itself is killed with SIGKILL. Then `watchdog`, a small shell, ends the groups that are left.
"""

import os
import re
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Self, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.transport import shared_server
from toolcrib.execution.mcp.transport.environment import server_environment
from toolcrib.execution.mcp.transport.strays import MARK, end_strays, new_mark
from toolcrib.execution.mcp.transport.watchdog import forget_group, watch_group
from toolcrib.execution.variables import has_variables
from toolcrib.model.suggest import did_you_mean
from toolcrib.redaction import KnownSecrets

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
"""Escape sequences of terminals: colours, cursor movements, titles."""
_CONTROLS = re.compile(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]")
_POSIX = os.name == "posix"
_TERM_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
_KILL_GRACE = 2.0
"""Seconds that a killed process has to be gone; one that is not cannot be killed at all."""
_POLL = 0.01
_SIGNALLED = 128
_LONGEST_STRAY = 4096
"""Bytes of a stray line that are searched for secrets; fewer are kept."""


class StderrTail:
    r"""Keeps the end of a server's standard error, within a limit of lines and of bytes.

    >>> tail = StderrTail(max_lines=2)
    >>> tail.feed(b"starting\n\x1b[31mno tok")
    >>> tail.feed(b"en\x1b[0m\nbye\n")
    >>> tail.text()
    'no token\nbye'
    """

    def __init__(
        self, secrets: KnownSecrets | None = None, *, max_lines: int = 100, max_bytes: int = 16 * 1024
    ) -> None:
        """Keep lines, and show them without the secrets that are known."""
        self._secrets = KnownSecrets() if secrets is None else secrets
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self._stray = 0
        self.pid: int | None = None
        """The process that writes, once there is one."""

    @property
    def stray_lines(self) -> int:
        """Return how many lines on its standard output were no messages."""
        return self._stray

    def feed(self, chunk: bytes) -> None:
        """Store a chunk of its standard error."""
        self._kept += chunk
        del self._kept[: -self._max_bytes]

    def stray(self, line: bytes) -> None:
        """Keep the beginning of a line on standard output that is no message, as servers print by mistake."""
        self._stray += 1
        if self._kept and not self._kept.endswith(b"\n"):
            self._kept += b"\n"
        shown = self._secrets.hide(line[:_LONGEST_STRAY].decode(errors="replace"))[:200].rstrip()
        self.feed(f"[stdout] {shown}\n".encode())

    def text(self) -> str:
        """Return the stored output as text that is safe to print: no control characters, whole lines."""
        text = _ESCAPES.sub("", self._kept.decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")
        lines = self._secrets.hide(_CONTROLS.sub("", text)).split("\n")
        if len(self._kept) == self._max_bytes:  # the first line was cut, maybe within a secret
            lines = lines[1:] or [lines[0][self._secrets.longest :]]
        return "\n".join([line.rstrip() for line in lines if line.strip()][-self._max_lines :])


@dataclass(frozen=True, slots=True)
class Launch:
    """The command of a server's process, or of one that runs it behind a wall."""

    command: tuple[str, ...]
    """The program and its arguments."""
    environment: Mapping[str, str] = field(repr=False)
    """All of its variables."""
    folder: str | None = None
    """Its working directory; None for that of this process."""
    descriptors: tuple[int, ...] = ()
    """Further file descriptors that it inherits."""
    is_walled: bool = False
    """Whether the status of another program is that of the server: 128 and the number of a signal."""


class ServerProcess:
    """A running server, the group of processes it leads, and on Linux daemons that have left it.

    Its exit is seen at once, even if a process that it started keeps its pipes open. On systems that are not
    POSIX there are no groups: then only the server itself is stopped.
    """

    def __init__(self, process: Process, mark: str, *, is_walled: bool = False) -> None:
        self._process = process
        self._mark = mark
        self._is_walled = is_walled
        self._swept = False
        # Pipes are what anyio opens where nothing else is asked for.
        self.stdin = cast("ByteSendStream", process.stdin)
        self.stdout = cast("ByteReceiveStream", process.stdout)
        self._stderr = cast("ByteReceiveStream", process.stderr)

    @classmethod
    async def start(
        cls,
        config: ServerConfig,
        *,
        name: str,
        written: ServerConfig | None = None,
        launch: Launch | None = None,
    ) -> Self:
        """Start the command of a server, or a `launch` that runs it behind a wall.

        Messages show the command as it is `written`, without filled-in variables.

        Raises:
            ServerUnavailableError: it cannot be started, and what to do about it.
        """
        mark, launch = new_mark(), launch or _plain_launch(config)
        try:
            # A cancellation between the start and the registration would leave it behind.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    launch.command,
                    env={**launch.environment, MARK: mark},
                    cwd=launch.folder,
                    start_new_session=_POSIX,
                    pass_fds=launch.descriptors,
                )
                watch_group(process.pid)
        except OSError as error:
            reason = why_not_started(error, launch.command[0], launch.folder, written or config)
            raise ServerUnavailableError(name, reason) from error
        return cls(process, mark, is_walled=launch.is_walled)

    @property
    def pid(self) -> int:
        """Return its process id, which is that of its group too."""
        return self._process.pid

    async def exited(self) -> str:
        """Wait until the server ends, and return how it did: `it exited with status 3`."""
        status = await self._process.wait()
        return _ending(_SIGNALLED - status if self._is_walled and status > _SIGNALLED else status)

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
        """End every process of the group that is left, and on Linux those that have left it."""
        with anyio.CancelScope(shield=True):
            self.signal(signal.SIGTERM)
            if not await self._gone_within(_TERM_GRACE, group=True):
                self.signal(signal.SIGKILL if _POSIX else signal.SIGTERM)
                # Not for the group: init may take long to collect the dead of it.
                await self._gone_within(_KILL_GRACE, group=False)
            self._swept = True
            await end_strays(self._mark)
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


def _plain_launch(config: ServerConfig) -> Launch:
    """Return how a server is started without a wall."""
    environment = server_environment(os.environ, config.env, config.inherit)
    folder = _at_home(config.cwd) if config.cwd else None
    return Launch((_at_home(config.command or ""), *config.args), environment, folder)


def share_launch(config: ServerConfig, name: str, folder: str) -> Launch:
    """Return how a server is started that the workers of a gateway share, who meet in a folder."""
    launch = _plain_launch(config)
    key = sha256(f"{name} {config.identity}".encode()).hexdigest()[:16]
    command = (sys.executable, "-S", "-I", shared_server.__file__, f"{folder}/{key}", *launch.command)
    return replace(launch, command=command)


def _at_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - a Path raises where a user is not known


def _ending(status: int | None) -> str:
    if status is None or status >= 0:
        return f"it exited with status {status}"
    try:
        return f"it was ended by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal, which has no name
        return f"it was ended by signal {-status}"


INSTALLS = {
    "npx": "install Node.js, which includes npx",
    "npm": "install Node.js, which includes npm",
    "node": "install Node.js",
    "uvx": "install uv, which includes uvx: pip install uv",
    "uv": "install uv: pip install uv",
    "docker": "install Docker",
    "bunx": "install Bun",
    "deno": "install Deno",
    "python": "write python3, or the full path of a Python",
    "python3": "install Python 3, or write its full path",
}
"""Programs that most servers are started with, and the advice if one is missing."""


def why_not_started(error: OSError, command: str, cwd: str | None, written: ServerConfig) -> str:
    """Return why a command failed to start, with advice; paths are as in the settings."""
    shown = _shown_path(command, written.command or "")
    if cwd is not None and not Path(cwd).is_dir():
        folder = _shown_path(cwd, written.cwd or "")
        return f"its working directory {folder!r} does not exist; create it, or change 'cwd'"
    if isinstance(error, FileNotFoundError):
        if any(map(str.isspace, command)):
            return f"there is no program {shown!r}; put what follows the program into 'args'"
        if Path(command).is_file():
            return f"{shown!r} names an interpreter in its first line that does not exist"
        where = "" if os.sep in command else " on the PATH"
        remedy = f"; {INSTALLS.get(shown, 'install it, or write its full path')}"
        hint = "" if shown in INSTALLS else did_you_mean(shown, INSTALLS)
        return f"there is no program {shown!r}{where}{hint or remedy}"
    if isinstance(error, PermissionError):
        return f"{shown!r} may not be executed; make it executable, or write the program that runs it"
    return f"{shown!r} cannot be started: {error.strerror or type(error).__name__}"


def _shown_path(path: str, written: str) -> str:
    """Return a path as it is started or, where variables were filled in, as it is written."""
    return written if has_variables(written) else path
