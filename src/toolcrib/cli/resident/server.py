"""Runs commands inside a gateway, for processes of the same user that connect to its socket.

A command is parsed, run and printed by the same code as in a process of its own; only its servers are running
already. Each has a thread, and works in the gateway's event loop. Output goes through a queue, so that a
reader that has stalled holds up nobody else.
"""

import fcntl
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import anyio
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

import toolcrib
from toolcrib.cli.app import app
from toolcrib.cli.resident.address import HELLO, Address, peer_is_ours, writable_folder
from toolcrib.cli.resident.streams import RemoteStream, route_output
from toolcrib.cli.resident.terminal import REMOTE
from toolcrib.crib import load
from toolcrib.errors import ServerUnavailableError, ToolcribError

if TYPE_CHECKING:
    from toolcrib.gateway import Gateway

T = TypeVar("T")
_LOG = logging.getLogger("toolcrib.gateway")
_REQUEST_TIMEOUT = 10.0
"""Seconds within which a connected process must send its request."""
_MAX_UNREAD = 256 * 2**20
"""Limit for the characters of output that wait for a reader; beyond it the command is cancelled."""
_LAST = 2.0
"""Seconds in which a cancelled command may print its last messages."""
_BACKLOG = 128


class AlreadyRunningError(Exception):
    """Another process serves this configuration to the commands."""


class _RefusedError(BaseException):
    """The command line means another configuration; nothing was done, so nothing is reported."""


class Resident:
    """A gateway that serves commands: its crib, and its clients."""

    def __init__(self, gateway: "Gateway", address: Address, digest: str, by: str) -> None:
        """Take an open gateway.

        Args:
            gateway: what runs the commands' calls.
            address: where it is reached.
            digest: that of the configuration which the gateway has read.
            by: the verb that started it.
        """
        self.gateway = gateway
        self._address, self._digest, self._settings = address, digest, gateway.crib.settings
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self._by = by
        self._lock = threading.Lock()
        self._calls: set[_Call] = set()
        self.token: EventLoopToken = current_token()

    def refusal(self, request: Mapping[str, Any]) -> str | None:
        """Return why a command cannot be run here, or None."""
        if request.get("version") != toolcrib.__version__:
            return "version"
        return None if request.get("digest") == self._current_digest() else "configuration"

    def _current_digest(self) -> str | None:
        """Return the digest of the configuration in force; None while the file is another one by now."""
        with self._lock:
            settings = self.gateway.crib.settings
            if settings is not self._settings:
                try:
                    before = self._address.digest()
                    is_same = settings.source is not None and load(settings.source) == settings
                    if not is_same or before != self._address.digest():
                        return None
                except (OSError, ToolcribError):
                    return None
                self._settings, self._digest = settings, before
            return self._digest

    def facts(self) -> dict[str, Any]:
        """Return the facts of the gateway."""
        return {
            "pid": os.getpid(),
            "since": self._since,
            "startedBy": self._by,
            "version": toolcrib.__version__,
            "socket": str(self._address.socket_file),
            "folder": os.getcwd(),  # noqa: PTH109 - as text
        }

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the facts, once the servers have answered or had their time."""
        crib = self.gateway.crib
        with suppress(ServerUnavailableError):  # it is counted as missing
            await crib.ready(float(request.get("wait", 0)))
        servers = crib.status()
        missing = sorted(each.name for each in crib.absent())
        counts = {"tools": len(crib.index), "servers": len(servers), "missing": missing}
        link = self.gateway.make_console_link() if request.get("console") else None
        more = {} if link is None else {"console": link}
        return {**self.facts(), **counts, "digest": self._current_digest(), **more}

    def accept(self, listener: socket.socket) -> None:
        """Answer processes of this user, each in a thread, until the socket is closed."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if peer_is_ours(connection):
                call = _Call(self, connection)
                with self._lock:
                    self._calls.add(call)
                call.start()
            else:
                connection.close()

    def forget(self, call: "_Call") -> None:
        """Take a command off the list of those that run."""
        with self._lock:
            self._calls.discard(call)

    async def end(self, within: float) -> None:
        """Wait some seconds for running commands, then cancel them."""
        with anyio.move_on_after(within):
            await self._wait_until_ended()
        with anyio.CancelScope(shield=True):
            for step in (_Call.cancel, _Call.hang_up):
                for call in list(self._calls):
                    step(call)
                with anyio.move_on_after(_LAST):
                    await self._wait_until_ended()

    async def _wait_until_ended(self) -> None:
        while self._calls:  # noqa: ASYNC110 - they end in threads
            await anyio.sleep(0.02)


@asynccontextmanager
async def resident(gateway: "Gateway", address: Address, digest: str, by: str) -> AsyncIterator[Resident]:
    """Serve commands in an open gateway, and remove the files at the end.

    Raises:
        AlreadyRunningError: another process does so for the same configuration.
        OSError: there is no folder for the socket, or its path is too long.
    """
    with _hold_lock(address), _listen_on(address) as listener, route_output():
        served = Resident(gateway, address, digest, by)
        threading.Thread(
            target=served.accept, args=(listener,), name="toolcrib-resident", daemon=True
        ).start()
        try:
            yield served
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            await served.end(gateway.settings.shutdown_timeout)


@contextmanager
def _hold_lock(address: Address) -> Iterator[None]:
    """Hold the lock of an address; the system releases it even if this process is killed."""
    writable_folder(address.folder)
    while True:
        handle = os.open(address.pid_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if address.pid_file.stat().st_ino == os.fstat(handle).st_ino:
                break
        except FileNotFoundError:  # its last holder has just ended
            pass
        except BlockingIOError as error:
            os.close(handle)
            raise AlreadyRunningError from error
        os.close(handle)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        address.pid_file.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def _listen_on(address: Address) -> Iterator[socket.socket]:
    address.socket_file.unlink(missing_ok=True)  # of a process that was killed: the lock is ours
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with address.reachable() as path:
            listener.bind(path)
        try:
            address.socket_file.chmod(0o600)
            listener.listen(_BACKLOG)
            yield listener
        finally:
            address.socket_file.unlink(missing_ok=True)


class _Call:
    """One process that asks, and the command that runs for it; see `RemoteTerminal`."""

    def __init__(self, served: Resident, connection: socket.socket) -> None:
        self._served, self._connection = served, connection
        self._lines = connection.makefile("rb")
        self._queue: SimpleQueue[tuple[str, Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._request: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._unread, self._is_over = 0, False
        self._scope: anyio.CancelScope | None = None
        self._is_left = False
        self.out: TextIO = sys.stdout
        self.err: TextIO = sys.stderr
        self.environ: Mapping[str, str] = {}
        self.size: tuple[int, int] | None = None

    def start(self) -> None:
        """Answer in a thread."""
        threading.Thread(target=self._answer, name="toolcrib-command", daemon=True).start()

    def _answer(self) -> None:
        try:
            with self._connection, self._lines:
                self._connection.settimeout(_REQUEST_TIMEOUT)
                self._connection.sendall(HELLO)
                self._request = json.loads(self._lines.readline() or b"{}")
                self._connection.settimeout(None)
                if "wait" in self._request:
                    self._transmit(
                        from_thread.run(self._served.answer, self._request, token=self._served.token)
                    )
                elif why := self._served.refusal(self._request):
                    self._transmit({"refused": why})
                else:
                    self._run_command()
        except (OSError, ValueError, anyio.RunFinishedError) as error:
            _LOG.debug("a command was not answered: %s", error)  # its process is gone, or the gateway is
        finally:
            self._served.forget(self)

    def _run_command(self) -> None:
        streams: Any = [
            RemoteStream(partial(self.write, name), self._request[name], partial(self._write_bytes, name))
            for name in ("out", "err")
        ]
        self.out, self.err = streams
        self.environ = {str(name): str(value) for name, value in self._request["environ"].items()}
        size = self._request.get("size")
        self.size = None if size is None else (int(size[0]), int(size[1]))
        REMOTE.set(self)
        sender = threading.Thread(target=self._send_all, name="toolcrib-output", daemon=True)
        threading.Thread(target=self._read_until_gone, name="toolcrib-input", daemon=True).start()
        sender.start()
        try:
            self._queue.put(("exit", app.run(list(map(str, self._request["args"])), prog_name="toolcrib")))
        except _RefusedError:
            self._queue.put(("refused", "command line"))
        finally:
            self._is_over = True
            self._queue.put(None)
            sender.join()
            self.hang_up()  # ends the thread that listens

    def _read_until_gone(self) -> None:
        """Read from the process until it leaves; then cancel the command."""
        with suppress(OSError, ValueError):
            while line := self._lines.readline():
                self._answers.put(json.loads(line))
        self._answers.put(None)
        self._on_gone()

    def _on_gone(self) -> None:
        with suppress(anyio.RunFinishedError):
            from_thread.run_sync(self.cancel, token=self._served.token)

    def cancel(self) -> None:
        """Cancel the command, in the gateway's loop."""
        self._is_left = True
        if self._scope is not None:
            self._scope.cancel()

    def hang_up(self) -> None:
        """End the conversation with the process, whether or not it listens."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _send_all(self) -> None:
        """Send output as it comes; waiting messages are joined."""
        try:
            for message in _join_waiting(self._queue):
                self._transmit(message)
                with self._lock:
                    self._unread -= sum(len(text) for text in message.values() if isinstance(text, str))
        except OSError:
            self._on_gone()

    def _transmit(self, message: Mapping[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def write(self, name: str, text: str) -> None:
        """Send output of the command."""
        if self._is_over:  # something that the command has left running
            return
        with self._lock:
            self._unread += len(text)
        self._queue.put((name, text))
        if self._unread > _MAX_UNREAD:
            self.hang_up()

    def _write_bytes(self, name: str, data: bytes) -> None:
        self.write(f"{name}Bytes", data.decode("latin-1"))

    def read(self, path: str) -> bytes:
        """Return the content of a file, which the process reads where it is."""
        self._queue.put(("read", path))
        answer = self._answers.get()
        if answer is None:
            raise KeyboardInterrupt
        if "content" in answer:
            return str(answer["content"]).encode("latin-1")
        if "errno" in answer:
            raise OSError(answer["errno"], answer["why"])
        raise ValueError(answer["why"])

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run the command's work in the gateway's loop; it is cancelled when the process leaves."""

        async def cancellable() -> tuple[T, ...]:
            with anyio.CancelScope() as self._scope:
                if self._is_left:
                    self._scope.cancel()
                return (await work(),)
            return ()

        for result in from_thread.run(cancellable, token=self._served.token):
            return result
        raise KeyboardInterrupt  # here, as it would end the loop

    def gateway(self, config: str | None, *, demo: bool) -> "Gateway":
        """Return the gateway."""
        if (config, demo) != (self._request["config"], self._request["demo"]):
            raise _RefusedError
        return self._served.gateway

    def facts(self) -> dict[str, Any]:
        """Return the facts of the gateway."""
        return self._served.facts()


def _join_waiting(queue: SimpleQueue[tuple[str, Any] | None]) -> Iterator[dict[str, Any]]:
    """Yield the items of a queue until None; waiting texts for the same output are joined."""
    held: tuple[str, Any] | None = None
    while True:
        try:
            item = queue.get(block=held is None)
        except Empty:
            item = ("", None)
        if held is not None and item is not None and item[0] == held[0] and item[0] in {"out", "err"}:
            held = (held[0], held[1] + item[1])
            continue
        if held is not None:
            yield {held[0]: held[1]}
        if item is None:
            return
        held = item if item[0] else None
