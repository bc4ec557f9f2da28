"""Serves HTTP until asked to stop; then running requests have a while to end."""

import asyncio  # noqa: TID251 - anyio has no handler for errors of the event loop
import errno
import ipaddress
import logging
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, cast

import anyio
import uvicorn
from anyio.abc import TaskStatus

from toolcrib.errors import ConfigError, Problem
from toolcrib.gateway.app.app import HttpApp, Served
from toolcrib.gateway.app.guard import Guard
from toolcrib.gateway.app.protocol import Bounded, bounded
from toolcrib.gateway.signals import Stop, until_urged

_LOG = logging.getLogger("toolcrib.gateway")
_BACKLOG = 128
"""Connections that may wait to be accepted; all are accepted at once, so they need descriptors."""
_RESERVE = 384
"""Descriptors that are kept for other things than connections: servers, files, and waiting connections."""
_ACCEPT_LOG_SECONDS = 1.0
_HURRY = 0.5
"""Seconds between two looks at the connections while the gateway stops."""
_DATE = 1.0
"""Seconds for which responses have the same date."""
_LAST = 1.0
"""Seconds that cancelled requests have to send their error responses."""


def listen(host: str, port: int, source: str) -> socket.socket:
    """Return a socket that is bound to an address.

    Raises:
        ConfigError: the address cannot be had.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(source, (Problem("/gateway/host", "address", f"{host!r}: {error}"),)) from error
    try:
        return _bind(*found[0])
    except OSError as error:
        raise ConfigError(source, (_bind_problem(host, port, error),)) from error


def _bind(family: int, kind: int, protocol: int, _: str, address: Any) -> socket.socket:
    # With the protocol given, the event loop sends answers at once instead of waiting for more to send.
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _bind_problem(host: str, port: int, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        choice = "choose another with --port or gateway.port; 0 means any free port"
        reason = f"port {port} of {host} is in use; stop the process that listens there, or {choice}"
        return Problem("/gateway/port", "in_use", reason)
    reason = f"cannot listen on {host}:{port}: {error.strerror or error}"
    return Problem("/gateway/port", "address", reason)


def address_of(listener: socket.socket) -> str:
    """Return the URL of a socket, as other machines reach it if they can."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = _find_outward_address(listener.family)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _find_outward_address(family: int) -> str:
    """Return the IP address by which other machines reach this one, else its name; nothing is sent."""
    elsewhere = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
    for each in (family, socket.AF_INET):  # one that listens for IPv6 hears IPv4 too
        with socket.socket(each, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect((elsewhere[socket.AddressFamily(each)], 9))
            return str(probe.getsockname()[0])
    return socket.gethostname()


async def serve(
    gateway: Served, listener: socket.socket, stop: Stop, on_ready: Callable[[str], Any] | None = None
) -> None:
    """Serve until asked to stop; the socket is closed at the end."""
    try:
        async with anyio.create_task_group() as tasks:
            site = HttpApp(gateway, tasks)
            guard = Guard(site.answer_mcp, site.answer_page, gateway.rules, gateway.limited)
            server = _Server(_make_config(guard, gateway))
            try:
                if gateway.links is not None:
                    await tasks.start(gateway.links.listen, guard, gateway.fleet.run_command)
                await tasks.start(server.run_on, listener)
                tasks.start_soon(guard.cancel_revoked)
                if on_ready is not None:
                    on_ready(address_of(listener))
                if gateway.links is not None:
                    gateway.links.worker.report_ready()
                await stop.asked.wait()
                gateway.end_listening()
                await until_urged(lambda: _drain(site, server), stop, gateway.settings.shutdown_timeout)
            finally:
                guard.is_stopping = True
                with anyio.CancelScope(shield=True):
                    await site.end()
                    await server.abandon()
                tasks.cancel_scope.cancel()
    finally:
        listener.close()


async def _drain(site: HttpApp, server: "_Server") -> None:
    """Wait until everything is answered, and their clients have read the answers."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.drain_connections)
        await site.wait_answered()
        await site.end()
        await server.wait_read()
        tasks.cancel_scope.cancel()


def _make_config(app: Any, gateway: Served) -> uvicorn.Config:
    settings = gateway.settings
    return uvicorn.Config(
        app,
        http=bounded(lambda: gateway.settings),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # a line for each bad request would let anybody fill the log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_max_connections(2 * settings.sessions + 200),
        backlog=_BACKLOG if gateway.links is None else 1,  # how many connections are accepted at once, too
        timeout_keep_alive=75,
    )


def _max_connections(wanted: int) -> int:
    """Return how many connections the descriptors of the process allow, and raise their limit if possible."""
    try:
        import resource  # noqa: PLC0415 - Windows has none, and no such limit
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    needed = wanted + _RESERVE
    if soft not in {unlimited, hard} and soft < needed:
        soft = needed if hard == unlimited else min(needed, hard)
        with suppress(ValueError, OSError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == unlimited else max(16, min(wanted, soft - _RESERVE))


class _Server(uvicorn.Server):
    """uvicorn's server in a task of the gateway, which handles signals itself."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Install no signal handlers."""
        yield

    async def run_on(self, listener: socket.socket, *, task_status: TaskStatus[None]) -> None:
        """Serve the connections of a socket."""
        self._started = task_status
        with _shortened_accept_errors():
            await self.serve([listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and report that."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)  # where asyncio was given 1, so that workers take turns to accept
        self._started.started()

    async def main_loop(self) -> None:
        """Update the date header; uvicorn's own loop would wake ten times a second."""
        while not await self.on_tick(0):  # noqa: ASYNC110 - the clock sets no event
            await anyio.sleep(_DATE)

    async def drain_connections(self) -> None:
        """Close the connections of clients that do not read their responses, until cancelled."""
        while True:
            for connection in list(self.server_state.connections):
                cast("Bounded", connection).start_draining()
            await anyio.sleep(_HURRY)

    async def wait_read(self) -> None:
        """Wait until clients have read what they were sent."""
        connections = self.server_state.connections
        await _wait_until(lambda: not any(each.transport.get_write_buffer_size() for each in connections))

    async def abandon(self) -> None:
        """Cancel all requests, give them a moment to respond, and close all connections."""
        for server in getattr(self, "servers", ()):
            server.close()
        for task in list(self.server_state.tasks):
            task.cancel()
        with anyio.move_on_after(_LAST):
            await _wait_until(lambda: not self.server_state.tasks)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


@contextmanager
def _shortened_accept_errors() -> Generator[None, None, None]:
    """Log in one line a second that connections cannot be accepted.

    While descriptors are used up, asyncio reports each of the connections that wait, with a traceback.
    """
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    logged_at = -_ACCEPT_LOG_SECONDS

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal logged_at
        if "accept" in context.get("message", "") and isinstance(error := context.get("exception"), OSError):
            if loop.time() - logged_at >= _ACCEPT_LOG_SECONDS:
                logged_at = loop.time()
                reason = error.strerror or error
                _LOG.error("connections cannot be accepted: %s; raise the limit (ulimit -n)", reason)
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(before)


async def _wait_until(met: Callable[[], bool]) -> None:
    while not met():  # noqa: ASYNC110 - uvicorn sets no event
        await anyio.sleep(0.005)
