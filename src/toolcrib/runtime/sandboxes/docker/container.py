"""A guest in a container, which connects to a unix socket of the host in a shared folder.

A container has no network and inherits no file descriptors, so a socket in a mounted folder is the one way
in. The guest opens three connections, in this order: its channel, its standard output and its standard error.
The engine's own streams are not used, because all output would then pass through the daemon.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from toolcrib.concurrency.background import Background
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.sandboxes.docker.engine import SOCKET_FOLDER, ContainerEngine, Exit, Image, Size
from toolcrib.runtime.sandboxes.process.child import Guest, boot, guest_program
from toolcrib.runtime.sandboxes.process.frames import Channel

_CONNECT_TIMEOUT = 30.0
_FLAGS = ("-I", "-S", "-B", "-u", "-X", "utf8")
_SOCKET_NAME = "line"
_CONNECT = f"""
import os, socket, sys
ends = [socket.socket(socket.AF_UNIX) for _ in range(3)]
for end in ends:
    end.connect({f"{SOCKET_FOLDER}/{_SOCKET_NAME}"!r})
for number in (1, 2):
    os.dup2(ends[number].fileno(), number)
    ends[number].close()
program, sys.argv[1:] = sys.argv[1], [str(ends[0].detach())]
exec(compile(program, "<guest>", "exec"), globals())
"""
"""Connects the channel and the two outputs, then runs the program of the guest."""


class Container(Guest):
    """A guest in a container."""

    def __init__(self, engine: ContainerEngine, name: str, ends: list[socket.socket]) -> None:
        for end in ends:
            end.setblocking(False)  # noqa: FBT003 - the method has no other form
        line, *self._prints = ends
        outputs = dict(zip(("stdout", "stderr"), (end.fileno() for end in self._prints), strict=True))
        super().__init__(engine.kind, Channel(line, limit=1 << 10), outputs)  # type: ignore[arg-type] # the two names
        self._engine = engine
        self._name = name
        self._exit: Exit | None = None
        self._removal: Background | None = None

    @property
    def returncode(self) -> int | None:
        """Its exit status, once it is known."""
        return None if self._exit is None else self._exit.status

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel killed it because of its memory limit."""
        return self._exit is not None and self._exit.out_of_memory

    async def wait_until_ended(self, within: float = 10.0) -> bool:
        """Wait until it has ended; return False if it does not within so many seconds."""
        if self._exit is None:
            ask = partial(self._engine.wait_for_exit, self._name, within)
            self._exit = await to_thread.run_sync(ask, abandon_on_cancel=True)
        return self._exit is not None

    def kill(self) -> None:
        """Start to remove it in the background, with all its processes."""
        if self._removal is None:
            self._removal = Background(partial(_remove_container, self._engine, self._name))

    async def dispose(self) -> None:
        """Remove it and release its resources; it cannot be cancelled."""
        self.kill()
        with anyio.CancelScope(shield=True):
            if self._removal is not None:
                await self._removal.wait()
        self.channel.close()
        for end in self._prints:
            end.close()


async def _remove_container(engine: ContainerEngine, name: str) -> None:
    with anyio.CancelScope(shield=True):
        await to_thread.run_sync(engine.remove, name)


async def start_container(
    engine: ContainerEngine,
    image: Image,
    size: Size,
    payload: Mapping[str, Any],
    *,
    runtime: str | None = None,
) -> Container:
    """Start a container, and return its booted guest.

    Raises:
        RuntimeUnavailableError: it does not start.
    """
    try:
        folder = Path(
            tempfile.mkdtemp(prefix="toolcrib-")
        )  # mode 0700: other users cannot reach the socket in it
    except OSError as error:
        raise RuntimeUnavailableError(engine.kind, f"it needs a temporary folder ({error})") from error
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            _listen(engine.kind, listener, folder / "bridge")
            command = (*_FLAGS, "-c", _CONNECT, guest_program())
            start = partial(engine.start, image, command, str(folder / "bridge"), size, runtime)
            name = await to_thread.run_sync(start)
            try:
                ends = await _accept_guest(engine, name, listener)
            except BaseException:
                await _remove_container(engine, name)
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return await boot(Container(engine, name, ends), payload)


def _listen(kind: str, listener: socket.socket, folder: Path) -> None:
    """Listen in a folder where the user of the container may connect, and nothing else."""
    try:
        folder.mkdir()
        folder.chmod(0o711)
        listener.bind(str(folder / _SOCKET_NAME))
        os.chmod(folder / _SOCKET_NAME, 0o666)  # noqa: PTH101, S103 - the folder above it is private
        listener.listen(3)
        listener.setblocking(False)  # noqa: FBT003 - the method has no other form
    except OSError as error:
        raise RuntimeUnavailableError(kind, f"a socket cannot be made in {folder} ({error})") from error


async def _accept_guest(engine: ContainerEngine, name: str, listener: socket.socket) -> list[socket.socket]:
    """Accept the three connections of a guest: its channel and its two outputs."""
    ends: list[socket.socket] = []
    try:
        with anyio.move_on_after(_CONNECT_TIMEOUT):
            async with anyio.create_task_group() as tasks:

                async def stop_if_ended() -> None:  # a container that has failed never connects
                    while (
                        await to_thread.run_sync(engine.wait_for_exit, name, 5.0, abandon_on_cancel=True)
                        is None
                    ):
                        pass
                    tasks.cancel_scope.cancel()

                tasks.start_soon(stop_if_ended)
                while len(ends) < 3:  # noqa: PLR2004 - the channel and two outputs
                    await anyio.wait_readable(listener)
                    ends.append(listener.accept()[0])
                tasks.cancel_scope.cancel()
        if len(ends) == 3:  # noqa: PLR2004 - as above
            return ends
    except BaseException:
        for end in ends:
            end.close()
        raise
    for end in ends:
        end.close()
    ended = await to_thread.run_sync(engine.wait_for_exit, name, 0.1)
    how = "it did not connect to its socket" if ended is None else f"exit status {ended.status}"
    hint = "; runsc needs --host-uds=open" if engine.kind == "gvisor" else ""
    raise RuntimeUnavailableError(engine.kind, f"a guest did not start ({how}{hint})")
