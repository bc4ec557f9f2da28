"""Listen for HTTP, until asked to stop; then let what runs end, for a while."""

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
"""How many connections wait to be accepted; all that wait are accepted at once, so they need descriptors."""
_RESERVE = 384
"""How many descriptors are kept for other things than connections: servers, files, and those that wait."""
_ACCEPT_LOG_SECONDS = 1.0
_HURRY = 0.5
"""How often, in seconds, connections are looked at while the gateway stops."""
_DATE = 1.0
"""For how many seconds answers have the same date."""
_LAST = 1.0
"""For how many seconds what is broken off may say so."""


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
        return _bound(*found[0])
    except OSError as error:
        raise ConfigError(source, (_unbound(host, port, error),)) from error


def _bound(family: int, kind: int, protocol: int, _: str, address: Any) -> socket.socket:
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


def _unbound(host: str, port: int, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        choice = "choose another with --port or gateway.port; 0 takes any that is free"
        reason = f"port {port} of {host} is in use; stop what listens there, or {choice}"
        return Problem("/gateway/port", "in_use", reason)
    reason = f"{host}:{port} cannot be listened on: {error.strerror or error}"
    return Problem("/gateway/port", "address", reason)


def address_of(listener: socket.socket) -> str:
    """Return the address that a socket can be reached at, as a URL; from other machines, where they can."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = _outward(listener.family)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _outward(family: int) -> str:
    """Return the address by which other machines reach this one, else its name; nothing is sent."""
    elsewhere = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
    for each in (family, socket.AF_INET):  # one that listens for IPv6 hears IPv4 too
        with socket.socket(each, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect((elsewhere[socket.AddressFamily(each)], 9))
            return str(probe.getsockname()[0])
    return socket.gethostname()


async def serve(
    served: Served, listener: socket.socket, stop: Stop, on_ready: Callable[[str], Any] | None = None
) -> None:
    """Serve until asked to stop; the socket is closed at the end."""
    try:
        async with anyio.create_task_group() as tasks:
            site = HttpApp(served, tasks)
            guard = Guard(site, lambda: (served.settings, served.rules()), served.limited)
            server = _Server(_config(guard, served))
            try:
                await tasks.start(server.run_on, listener)
                tasks.start_soon(guard.end_revoked)
                if on_ready is not None:
                    on_ready(address_of(listener))
                await stop.asked.wait()
                served.end_listening()
                await until_urged(lambda: _drain(site, server), stop, served.settings.shutdown_timeout)
            finally:
                guard.leaving = True
                with anyio.CancelScope(shield=True):
                    await site.end()
                    await server.abandon()
                tasks.cancel_scope.cancel()
    finally:
        listener.close()


async def _drain(site: HttpApp, server: "_Server") -> None:
    """Wait until everything is answered, and the answers have been taken by clients that take anything."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.hurry)
        await site.drained()
        await site.end()
        await server.taken()
        tasks.cancel_scope.cancel()


def _config(app: Any, served: Served) -> uvicorn.Config:
    settings = served.settings
    return uvicorn.Config(
        app,
        http=bounded(lambda: served.settings),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # a line for each bad request would let anybody fill the log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_connections(2 * settings.sessions + 200),
        backlog=_BACKLOG,
        timeout_keep_alive=75,
    )


def _connections(wanted: int) -> int:
    """Return how many connections there may be, with as many descriptors as the process can have."""
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
    """Uvicorn within a task of ours, which leaves signals to others."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield

    async def run_on(self, listener: socket.socket, *, task_status: TaskStatus[None]) -> None:
        """Serve what comes in at a socket."""
        self._started = task_status
        with _shortened_accept_errors():
            await self.serve([listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        self._started.started()

    async def main_loop(self) -> None:
        """Keep the date of answers; uvicorn itself looks ten times a second whether it is to end."""
        while not await self.on_tick(0):  # noqa: ASYNC110 - the clock sets no event
            await anyio.sleep(_DATE)

    async def hurry(self) -> None:
        """Cut off clients that take nothing of what they are sent, until cancelled."""
        while True:
            for connection in list(self.server_state.connections):
                cast("Bounded", connection).hurry()
            await anyio.sleep(_HURRY)

    async def taken(self) -> None:
        """Wait until clients have taken what they were sent."""
        connections = self.server_state.connections
        await _until(lambda: not any(each.transport.get_write_buffer_size() for each in connections))

    async def abandon(self) -> None:
        """End everything at once; what is broken off has a moment to say so."""
        for server in getattr(self, "servers", ()):
            server.close()
        for task in list(self.server_state.tasks):
            task.cancel()
        with anyio.move_on_after(_LAST):
            await _until(lambda: not self.server_state.tasks)
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


async def _until(met: Callable[[], bool]) -> None:
    while not met():  # noqa: ASYNC110 - nobody tells
        await anyio.sleep(0.005)
