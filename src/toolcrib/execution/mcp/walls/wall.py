"""A server behind a wall: what it sees, the line to what runs inside, and the proxy to named hosts.

Walls stand here and not in `runtime`, whose sandboxes are for code: a server is a program of somebody else,
with processes, files and packages of its own, that a transport talks to over its pipes. What both share is
the package `isolation`. The transport gets a `Launch`, and starts, stops and watches what it names as any
server; it does not know what a wall is made of.

A connection owns its wall. `open_wall` makes what the server sees and gives the `Launch`; `ServerWall.serve`
is the proxy, a task of the connection, which ends with it. The launcher inside (`launcher.py`) connects to a
socket in a folder that both sides see: so toolcrib gets the listener at which the server finds the proxy.
"""

import json
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import SocketListener

from toolcrib.errors import RuntimeUnavailableError, ServerUnavailableError
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.transport.process import Launch, StderrTail, why_not_started
from toolcrib.execution.mcp.walls.bubblewrap import BubblewrapWall, find_bubblewrap
from toolcrib.execution.mcp.walls.docker import DockerWall, find_docker
from toolcrib.execution.mcp.walls.hosts import EVERY_NAME, PORT, AllowedHost, Forward, forwards_of, parse_host
from toolcrib.execution.mcp.walls.packages import Fetch, plan_fetch
from toolcrib.execution.mcp.walls.programs import absolute, find_program
from toolcrib.execution.mcp.walls.proxy import HostProxy, proxy_environment
from toolcrib.execution.mcp.walls.view import (
    Reach,
    ServerView,
    WalledStart,
    make_home,
    make_view,
    server_folder,
)
from toolcrib.isolation.scratch import private_folder
from toolcrib.paths import lock_path

_FLAGS = ("-I", "-S", "-B")
_LINE = "/run/toolcrib"
"""The folder of the launcher's socket, inside the wall."""
_SOCKET = "line"
_LOOKUP_SECONDS = 3.0
_FETCHING_SECONDS = 600.0
"""For how long another process that fetches the same packages is waited for."""
_log = logging.getLogger(__name__)


Kind = BubblewrapWall | DockerWall
"""The kinds of walls."""


@dataclass(frozen=True, slots=True)
class _HostAccess:
    """The access of a server to named hosts: a proxy, and forwarded addresses."""

    proxy: HostProxy
    forwards: Sequence[Forward]

    @property
    def names(self) -> dict[str, str]:
        """The addresses at which the server finds names."""
        return {each.name: each.address for each in self.forwards if each.name != each.address}

    @property
    def addresses(self) -> list[str]:
        """The addresses that the loopback inside has to be given."""
        return list(self.names.values())

    @property
    def listened(self) -> list[tuple[str, int]]:
        """The addresses and ports inside, that of the proxy first."""
        return [("127.0.0.1", PORT), *((each.address, each.port) for each in self.forwards)]


class ServerWall:
    """A server's wall, for as long as its connection lasts."""

    def __init__(self, launch: Launch, listener: socket.socket, access: _HostAccess | None) -> None:
        self.launch = launch
        """How the server is started behind it."""
        self._listener = listener
        self._access = access
        self._line: socket.socket | None = None

    async def serve(self) -> None:
        """Wait for the launcher, and serve connections to named hosts, until cancelled."""
        await anyio.wait_readable(self._listener)
        self._line, _ = self._listener.accept()
        self._listener.close()  # there is nobody else to listen for
        self._line.setblocking(False)  # noqa: FBT003 - the method has no other form
        if self._access is not None:
            await anyio.wait_readable(self._line)
            _, descriptors, *_ = socket.recv_fds(self._line, 1, 1 + len(self._access.forwards))
            async with anyio.create_task_group() as tasks:  # without any, the launcher is gone, as will show
                for descriptor, forward in zip(descriptors, (None, *self._access.forwards), strict=False):
                    listener = await SocketListener.from_socket(descriptor)
                    tasks.start_soon(self._access.proxy.serve, listener, forward)

    def close(self) -> None:
        """Close the line, which ends a server whose launcher stays."""
        if self._line is not None:
            self._line.close()


@asynccontextmanager
async def open_wall(
    config: ServerConfig, *, name: str, written: ServerConfig | None = None
) -> AsyncGenerator[ServerWall | None, None]:
    """Put up the wall of a server; afterwards nothing of it is left. A server without a `sandbox` has none.

    The packages of a launcher such as `npx` are fetched first, where that is due.

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
    start, kind = await to_thread.run_sync(_prepare, config, name, written or config)
    hosts = () if isinstance(config.network, str) else tuple(map(parse_host, config.network))
    await _check_hosts(name, hosts)
    fetch = None if config.network == "all" else plan_fetch(start.program.name, config.args, start.variables)
    if fetch is not None:
        await _fetch_packages(start, kind, fetch, hosts)
    access = _HostAccess(HostProxy(name, hosts), forwards_of(hosts)) if hosts else None
    async with _build(start, kind, access, fetch.offline if fetch else {}) as wall:
        yield wall


def look_ahead(name: str, config: ServerConfig) -> ServerView:
    """Return what a server would see, without starting it.

    Raises:
        ServerUnavailableError: its wall cannot be put up here, and what to do about it.
    """
    start, _ = _prepare(config, name, config)
    return make_view(start, _interpreter(), {})


def _prepare(config: ServerConfig, name: str, written: ServerConfig) -> tuple[WalledStart, Kind]:
    """Find the program of a server, and the kind of wall that this machine supports.

    Raises:
        ServerUnavailableError: one of them is missing.
    """
    path = config.env.get("PATH") or os.environ.get("PATH", os.defpath)
    folder = absolute(config.cwd or ".")
    program = find_program(config.command or "", path, folder)
    if program is None or not folder.is_dir():
        reason = why_not_started(FileNotFoundError(), config.command or "", str(folder), written)
        raise ServerUnavailableError(name, reason)
    try:
        kind = find_docker() if config.sandbox == "docker" else find_bubblewrap()
    except RuntimeUnavailableError as error:
        reason = f"its sandbox {config.sandbox!r} is not available here: {error.remedy}"
        raise ServerUnavailableError(name, reason) from error
    return WalledStart(name, config, program, path, folder), kind


@asynccontextmanager
async def _build(
    start: WalledStart, kind: Kind, access: _HostAccess | None, more: Mapping[str, str]
) -> AsyncGenerator[ServerWall, None]:
    """Put up a wall; `more` are variables that the settings may override."""
    reach: Reach = "hosts" if access else "all" if start.config.network == "all" else "none"
    view = await to_thread.run_sync(make_view, start, _interpreter(), access.names if access else {})
    make_home(start.name, view.home)
    view = view.with_variables({**more, **(proxy_environment() if access else {})})
    with ExitStack() as stack:
        listener, place = stack.enter_context(_listening(start.name))
        settings = {
            "limits": kind.limits,
            "line": f"{_LINE}/{_SOCKET}",
            "addresses": access.addresses if access else [],
            "listen": access.listened if access else [],
            "user": kind.user(reach),
            "apart": reach == "all",
            "stays": kind.stays,
        }
        launcher = [_interpreter(), *_FLAGS, "-c", _launcher(), json.dumps(settings)]
        command = [*launcher, str(start.program), *start.config.args]
        async with kind.launch(view, command, network=reach, line=(place, _LINE)) as launch:
            with closing(ServerWall(launch, listener, access)) as wall:
                yield wall


async def _fetch_packages(start: WalledStart, kind: Kind, fetch: Fetch, hosts: Sequence[AllowedHost]) -> None:
    """Fetch the packages of a server, where that is due, behind a wall that shows nothing of the user.

    Raises:
        ServerUnavailableError: they cannot be fetched, and never were.
    """
    mark = server_folder(start.name, start.config) / "fetched.json"
    if not fetch.is_due(mark):
        return
    env = fetch.environment(start.variables)
    changes = {"args": fetch.args, "env": env, "inherit": (), "read": (), "write": (), "network": "none"}
    bare = replace(start, config=start.config.replace(**changes))
    reachable = [EVERY_NAME, *map(parse_host, fetch.hosts), *hosts]
    access = _HostAccess(HostProxy(start.name, reachable, trusts_names=True), forwards_of(reachable))
    mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        await to_thread.run_sync(stack.enter_context, lock_path(mark.parent, within=_FETCHING_SECONDS))
        if not fetch.is_due(mark):  # another process was faster
            return
        async with _build(bare, kind, access, {}) as wall, anyio.create_task_group() as tasks:
            tasks.start_soon(wall.serve)
            launch = wall.launch
            ended = await anyio.run_process(
                launch.command,
                env=dict(launch.environment),
                cwd=launch.folder,
                pass_fds=launch.descriptors,
                check=False,
            )
            tasks.cancel_scope.cancel()
        if ended.returncode == 0:
            fetch.note_done(mark)
            return
    tail = StderrTail(max_lines=3)
    tail.feed(ended.stdout + ended.stderr)
    reason = f"{start.program.name} could not fetch its package: {tail.text()}"
    if not fetch.was_done(mark):
        raise ServerUnavailableError(start.name, reason)
    _log.warning("server %r starts with the package that it has: %s", start.name, reason)


async def _check_hosts(name: str, hosts: Sequence[AllowedHost]) -> None:
    """Look up the hosts that a server may reach, since a name that is misspelt would only show in its errors.

    Raises:
        ServerUnavailableError: a name is known not to exist.
    """
    unknown: list[str] = []

    async def look_up(host: str) -> None:
        with anyio.move_on_after(_LOOKUP_SECONDS):
            try:
                await anyio.getaddrinfo(host, None)
            except socket.gaierror as error:
                if error.errno == socket.EAI_NONAME:
                    unknown.append(host)

    async with anyio.create_task_group() as tasks:
        for host in hosts:
            if not host.is_address and not host.name.startswith("*."):
                tasks.start_soon(look_up, host.name)
    if unknown:
        shown = ", ".join(map(repr, sorted(unknown)))
        raise ServerUnavailableError(name, f"there is no host {shown}; correct it in 'network'")


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
