"""A server behind a wall: what it sees, the line to what runs inside, and the proxy to named hosts.

Walls stand here and not in `runtime`, whose sandboxes are for code: a server is a program of somebody else,
with processes, files and packages of its own, that a transport talks to over its pipes. What both share is
the package `isolation`. The transport gets a `Launch`, and starts, stops and watches what it names as any
server; it does not know what a wall is made of.

A connection owns its wall. `open_wall` makes what the server sees and gives the `Launch`; `Wall.serve` is the
proxy, a task of the connection, which ends with it. The launcher inside (`launcher.py`) connects to a socket
in a folder that both sides see: so toolcrib gets the listener at which the server finds the proxy.
"""

import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from functools import cache
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import SocketListener

from toolcrib.errors import RuntimeUnavailableError, ServerUnavailableError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.transport.process import Launch, why_not_started
from toolcrib.execution.mcp.walls.bubblewrap import BubblewrapWall, find_bubblewrap
from toolcrib.execution.mcp.walls.hosts import parse_host
from toolcrib.execution.mcp.walls.programs import find_program
from toolcrib.execution.mcp.walls.proxy import PORT, HostProxy, proxy_environment
from toolcrib.execution.mcp.walls.view import View, make_view
from toolcrib.isolation.scratch import private_folder

_FLAGS = ("-I", "-S", "-B")
_LINE = "/run/toolcrib"
"""Where the launcher finds the folder of its socket."""
_SOCKET = "line"


class Wall:
    """A server's wall, for as long as its connection lasts."""

    def __init__(self, launch: Launch, listener: socket.socket | None, proxy: HostProxy | None) -> None:
        self.launch = launch
        """How the server is started behind it."""
        self._listener = listener
        self._proxy = proxy
        self._line: socket.socket | None = None

    async def serve(self) -> None:
        """Wait for the launcher, and pass on what the server asks of named hosts, until cancelled."""
        if self._listener is None:
            return
        await anyio.wait_readable(self._listener)
        self._line, _ = self._listener.accept()
        self._line.setblocking(False)  # noqa: FBT003 - the method has no other form
        if self._proxy is not None:
            await anyio.wait_readable(self._line)
            _, descriptors, *_ = socket.recv_fds(self._line, 1, 1)
            if descriptors:  # else the launcher is gone, which the end of the process shows
                await self._proxy.serve(await SocketListener.from_socket(descriptors[0]))

    def close(self) -> None:
        """Close the line, which ends a server whose launcher stays."""
        if self._line is not None:
            self._line.close()


@asynccontextmanager
async def open_wall(
    config: ServerConfig, *, name: str, written: ServerConfig | None = None
) -> AsyncGenerator[Wall | None, None]:
    """Put up the wall of a server; afterwards nothing of it is left. A server without a `sandbox` has none.

    Args:
        config: Its settings, expanded.
        name: What it is called.
        written: Its settings as they were before, for messages.

    Raises:
        ServerUnavailableError: it cannot be put up here, and what to do about it.
    """
    if config.sandbox is None:
        yield None
        return
    kind, view, program = await to_thread.run_sync(_prepare, config, name, written or config)
    hosts = () if isinstance(config.network, str) else tuple(map(parse_host, config.network))
    shares = config.network == "all"
    with ExitStack() as stack:
        listener, line = None, None
        if hosts or kind.stays:
            listener, place = stack.enter_context(_listening(name))
            line = (place, _LINE)
        settings = {
            "limits": kind.limits,
            "line": f"{_LINE}/{_SOCKET}" if line else "",
            "port": PORT if hosts else 0,
            "apart": shares,
            "stays": kind.stays,
        }
        command = [
            _interpreter(),
            *_FLAGS,
            "-c",
            _launcher(),
            json.dumps(settings),
            str(program),
            *config.args,
        ]
        if hosts:
            view = view.with_variables(proxy_environment())
        async with kind.launch(view, command, shares_network=shares, line=line) as launch:
            wall = Wall(launch, listener, HostProxy(name, hosts) if hosts else None)
            with closing(wall):
                yield wall


def _prepare(config: ServerConfig, name: str, written: ServerConfig) -> tuple[BubblewrapWall, View, Path]:
    """Return what this machine offers, what a server sees, and where its program is.

    Raises:
        ServerUnavailableError: it cannot be started behind a wall.
    """
    path = config.env.get("PATH") or os.environ.get("PATH", os.defpath)
    folder = Path(os.path.abspath(os.path.expanduser(config.cwd or ".")))  # noqa: PTH100, PTH111 - as it is started
    program = find_program(config.command or "", path, folder)
    if program is None or not folder.is_dir():
        reason = why_not_started(FileNotFoundError(), config.command or "", str(folder), written)
        raise ServerUnavailableError(name, reason)
    try:
        kind = find_bubblewrap()
    except RuntimeUnavailableError as error:
        reason = f"its sandbox {config.sandbox!r} is not available here: {error.remedy}"
        raise ServerUnavailableError(name, reason) from error
    return (
        kind,
        make_view(config, program, name=name, path=path, folder=folder, launcher=_interpreter()),
        program,
    )


@contextmanager
def _listening(name: str) -> Iterator[tuple[socket.socket, Path]]:
    """Give a socket that listens for the launcher, and the folder that it is in."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(private_folder("wall"))
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(folder / _SOCKET))
            listener.listen(1)
            listener.setblocking(False)  # noqa: FBT003 - the method has no other form
        except OSError as error:
            reason = f"a socket cannot be made in the temporary folder: {error.strerror or error}; set TMPDIR"
            raise ServerUnavailableError(name, reason) from error
        yield listener, folder


def _interpreter() -> str:
    """Return the interpreter that runs the launcher: that of this program, without installed packages."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def _launcher() -> str:
    text = Path(__file__).with_name("launcher.py").read_text(encoding="utf-8")
    return f"{text}\n_main()"
