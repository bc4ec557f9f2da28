"""Listen for HTTP, until told to stop; then let what runs end, for a while."""

import errno
import math
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol

import anyio
import uvicorn
from anyio.abc import TaskStatus

from toolcrib.errors import ConfigError, Problem
from toolcrib.gateway.http.app import Served, Site
from toolcrib.gateway.http.guard import Guard
from toolcrib.gateway.http.protocol import timed
from toolcrib.gateway.http.rules import Rules, is_loopback
from toolcrib.gateway.signals import Stop

__all__ = ["Shown", "address_of", "listen", "serve"]

_BACKLOG = 512


class Shown(Served, Protocol):
    """What is served, and who may call it."""

    def rules(self) -> Rules:
        """Return who may call at this moment."""
        ...

    def end_listening(self) -> None:
        """End the streams that carry news alone, and never end by themselves."""
        ...


def listen(host: str, port: int, *, guarded: bool, source: str) -> socket.socket:
    """Return a socket that is bound to an address.

    Raises:
        ConfigError: others could reach it, and there is no token; or the address cannot be had.
    """
    if not guarded and not is_loopback(host):
        reason = (
            f"{host!r} can be reached from other machines, so it needs a token: set gateway.token to "
            "'${TOOLCRIB_TOKEN}' and the variable to a secret (openssl rand -hex 32), or listen on 127.0.0.1"
        )
        raise ConfigError(source, (Problem("/gateway/token", "missing", reason),))
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With the protocol said, the event loop sends answers at once instead of waiting for more to send.
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(source, (Problem("/gateway/host", "address", f"{host!r}: {error}"),)) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(source, (_unbound(host, port, error),)) from error
    return listener


def _unbound(host: str, port: int, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        reason = f"port {port} of {host} is in use; stop what listens there, or choose another, or 0 for any"
        return Problem("/gateway/port", "in_use", reason)
    reason = f"{host}:{port} cannot be listened on: {error.strerror or error}"
    return Problem("/gateway/port", "address", reason)


def address_of(listener: socket.socket) -> str:
    """Return the address that a socket can be reached at, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    shown: Shown, listener: socket.socket, stop: Stop, on_ready: Callable[[str], Any] | None = None
) -> None:
    """Serve until told to stop; the socket is closed at the end."""
    settings = shown.settings
    try:
        async with anyio.create_task_group() as tasks:
            site = Site(shown, tasks)
            guard = Guard(site, lambda: (shown.settings, shown.rules()))
            server = _Server(_config(guard, shown))
            try:
                await tasks.start(server.run_on, listener)
                if on_ready is not None:
                    on_ready(address_of(listener))
                await stop.asked.wait()
                server.should_exit = True
                shown.end_listening()
                await _or_urged(site.drained, stop, settings.shutdown_timeout)
            finally:
                guard.leaving = True
                server.abandon()
                tasks.cancel_scope.cancel()
    finally:
        listener.close()


async def _or_urged(work: Callable[[], Awaitable[None]], stop: Stop, within: float) -> None:
    """Wait for something, until it is urgent, for at most so many seconds."""
    with anyio.move_on_after(within):
        async with anyio.create_task_group() as race:

            async def run() -> None:
                await work()
                race.cancel_scope.cancel()

            race.start_soon(run)
            await stop.urged.wait()
            race.cancel_scope.cancel()


def _config(app: Any, shown: Shown) -> uvicorn.Config:
    settings = shown.settings
    return uvicorn.Config(
        app,
        http=timed(settings.request_timeout),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # a line for each bad request would let anybody fill the log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=2 * settings.sessions + 200,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_timeout),
    )


class _Server(uvicorn.Server):
    """Uvicorn within a task of ours, which leaves signals to others."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield

    async def run_on(self, listener: socket.socket, *, task_status: TaskStatus[None]) -> None:
        """Serve what comes in at a socket."""
        self._started = task_status
        await self.serve([listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        self._started.started()

    def abandon(self) -> None:
        """End everything at once."""
        for server in getattr(self, "servers", ()):
            server.close()
        for task in list(self.server_state.tasks):
            task.cancel()
        for connection in list(self.server_state.connections):
            connection.transport.close()
