"""A guest as a child process: its line to us, its two outputs, and its end."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

import anyio

from toolcrib.concurrency.backoff import Backoff
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.process.cgroup import Cgroup
from toolcrib.runtime.process.frames import Channel, FrameError, encode
from toolcrib.runtime.records import Output, Stream

__all__ = ["Child", "boot", "spawn"]

_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
_BOOT_TIME = 30.0
_CHUNK = 1 << 16
_LAST_READS = 64
"""How often the outputs are read when all is over: more than a pipe holds, and less than a flood."""
_GONE_TIME = 10.0
_JOIN = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 > "$1" || exit 1; shift; n=$((n-1)); done; exec "$@"'
"""Joins control groups, then becomes the program: what it starts is in them from its first instruction."""


@dataclass(eq=False, slots=True)
class Child:
    """One guest: booted, waiting for its only job, or at it."""

    process: "subprocess.Popen[bytes]"
    channel: Channel
    cgroup: Cgroup | None = None
    cleanup: Callable[[], None] | None = None
    held: tuple[int, int] = field(default=(0, 0), init=False)
    """The memory and the tasks that its control group allows."""
    earlier: float | None = field(default=None, init=False)
    """For how long it had computed before its job."""
    disposed: bool = field(default=False, init=False)
    kind: str = field(default="", init=False)
    """The sandbox that it is of."""
    evicted: bool = field(default=False, init=False)
    """Whether it was ended because its sandbox closed."""

    def hold(self, memory: int, pids: int) -> None:
        """Set what its control group allows, if it has one."""
        if self.cgroup is not None and self.held != (memory, pids):
            self.cgroup.limit(memory=memory, pids=pids)
            self.held = (memory, pids)

    def begin(self) -> None:
        """Count its computing from here."""
        self.earlier = self.cgroup.computed() if self.cgroup is not None else None

    def computed(self) -> float | None:
        """Return for how many seconds it has computed since its job began; None where nobody counts."""
        total = self.cgroup.computed() if self.cgroup is not None else None
        return None if total is None or self.earlier is None else total - self.earlier

    def ended(self) -> bool:
        """Return whether it has ended, and collect it if so."""
        return self.process.poll() is not None

    def kill(self) -> None:
        """Kill it and whatever it started.

        Its group is killed, not the process that we know: one that is just starting has not yet asked
        the kernel to die with its parent.
        """
        if not self.disposed:  # later its number may be another's
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def evict(self) -> None:
        """Kill it because its sandbox closes, for which its code is not to blame."""
        self.evicted = True
        self.kill()

    async def gone(self, within: float = _GONE_TIME) -> bool:
        """Wait until it has ended, and return whether it has."""
        with anyio.move_on_after(within):
            backoff = Backoff(0.0005, 0.02)
            while not self.ended():
                await backoff.sleep()
        return self.ended()

    async def dispose(self) -> None:
        """Kill it, collect it, and give back all that it held; it cannot be cancelled."""
        self.kill()
        with anyio.CancelScope(shield=True):
            await self.gone()
            self.channel.close()
            for pipe in (self.process.stdout, self.process.stderr):
                cast("IO[bytes]", pipe).close()
            await self._removed()
        if not self.disposed:
            self.disposed = True
            if self.cleanup is not None:
                self.cleanup()

    async def _removed(self) -> None:
        """Remove its control group as soon as the last of its processes has left it."""
        with anyio.move_on_after(_GONE_TIME):
            while self.cgroup is not None and not self.cgroup.remove():  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(0.002)

    async def read(self, stream: Stream, output: Output) -> None:
        """Take what it prints until it closes; what is beyond the limit is not kept, but taken."""
        pipe = self._pipe(stream)
        while True:
            await anyio.wait_readable(pipe)
            if not self._taken(pipe, stream, output):
                return

    def drain(self, output: Output) -> None:
        """Take what lies in its outputs at its end."""
        for stream in _STREAMS:
            pipe = self._pipe(stream)
            with suppress(BlockingIOError):
                for _ in range(_LAST_READS):
                    if not self._taken(pipe, stream, output):
                        break

    def _pipe(self, stream: Stream) -> int:
        return cast("IO[bytes]", getattr(self.process, stream)).fileno()

    @staticmethod
    def _taken(pipe: int, stream: Stream, output: Output) -> bool:
        data = os.read(pipe, _CHUNK)
        output.write(stream, data)
        return bool(data)


def spawn(
    command: Sequence[str],
    *,
    limit: int,
    cgroup: Cgroup | None = None,
    cwd: str = "/",
    cleanup: Callable[[], None] | None = None,
) -> Child:
    """Start a guest by the command of an interpreter, which gets the descriptor of its end of the line.

    It must be called in the thread of the event loop: guests die with the thread that started them.

    Raises:
        OSError: it cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        doors = cgroup.doors if cgroup is not None else ()
        join = ["/bin/sh", "-c", _JOIN, "sh", str(len(doors)), *doors] if doors else []
        try:
            process = subprocess.Popen(  # noqa: S603 - our own
                [*join, *command, "-c", _guest_program(), str(theirs.fileno())],
                env={},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
    for pipe in (process.stdout, process.stderr):
        os.set_blocking(cast("IO[bytes]", pipe).fileno(), False)
    return Child(process, Channel(ours, limit=limit), cgroup, cleanup)


@cache
def _guest_program() -> str:
    return Path(__file__).with_name("guest.py").read_text(encoding="utf-8")


async def boot(child: Child, kind: str, payload: Mapping[str, Any]) -> Child:
    """Configure a started guest and wait until it is ready; where it is not, it is disposed of.

    Raises:
        RuntimeUnavailableError: it did not start.
    """
    child.kind = kind
    try:
        with anyio.move_on_after(_BOOT_TIME), suppress(OSError, FrameError):
            await child.channel.send(encode(dict(payload), 1 << 20))
            if await child.channel.receive() == ({"ready": True}, 14):
                return child
        stderr = Output(limit=2_000)
        child.drain(stderr)
        await child.gone(1.0)
    except BaseException:
        await child.dispose()
        raise
    await child.dispose()
    reason = stderr.text("stderr").strip()[-500:] or f"exit status {child.process.returncode}"
    raise RuntimeUnavailableError(kind, f"a guest did not start ({reason})")
