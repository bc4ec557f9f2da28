"""Guests: an interpreter with a channel to the host, two outputs and an exit status.

`Guest` is what a run needs of any of them; `Child` is one that is a child process of this one.
"""

import os
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import anyio

from toolcrib.concurrency.backoff import Backoff
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.isolation.cgroup import Cgroup
from toolcrib.runtime.request import Output, Stream
from toolcrib.runtime.sandboxes.process.frames import Channel, FrameError, encode

AnyGuest = TypeVar("AnyGuest", bound="Guest")

_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
_BOOT_TIME = 30.0
_CHUNK = 1 << 16
_LAST_READS = 64
"""How often the outputs are read when all is over: more than a pipe holds, and less than a flood."""
_GONE_TIME = 10.0


class Guest(ABC):
    """A booted interpreter that serves one run."""

    def __init__(self, kind: str, channel: Channel, outputs: Mapping[Stream, int]) -> None:
        """Make one of a kind of sandbox; the outputs are descriptors that do not block."""
        self.kind = kind
        self.channel = channel
        self._outputs = outputs
        self.evicted = False
        """Whether it was ended because its sandbox closed."""

    @property
    @abstractmethod
    def returncode(self) -> int | None:
        """Its exit status, once it has ended."""

    def begin(self) -> None:  # noqa: B027 - only some guests count it
        """Start counting the CPU time of its job."""

    def computed(self) -> float | None:
        """Return the seconds of CPU time since its job began; None if they are not counted."""
        return None

    def ran_out(self) -> bool:
        """Return whether the kernel killed it for its memory."""
        return False

    def ended(self) -> bool:
        """Return whether its exit status is known."""
        return self.returncode is not None

    @abstractmethod
    def kill(self) -> None:
        """Kill it and whatever it started."""

    def evict(self) -> None:
        """Kill it because its sandbox closes, so that its code is not blamed."""
        self.evicted = True
        self.kill()

    async def gone(self, within: float = _GONE_TIME) -> bool:
        """Wait until it has ended, and return whether it has."""
        with anyio.move_on_after(within):
            backoff = Backoff(0.0005, 0.02)
            while not self.ended():
                await backoff.sleep()
        return self.ended()

    @abstractmethod
    async def dispose(self) -> None:
        """Kill it, wait for it, and release its resources; it cannot be cancelled."""

    async def read(self, stream: Stream, output: Output) -> None:
        """Read one of its outputs until it closes; data beyond the limit is read and dropped."""
        while True:
            await anyio.wait_readable(self._outputs[stream])
            if not self._read_chunk(stream, output):
                return

    def drain(self, output: Output) -> None:
        """Read what is left in its outputs after its end."""
        for stream in self._outputs:
            with suppress(BlockingIOError):
                for _ in range(_LAST_READS):
                    if not self._read_chunk(stream, output):
                        break

    def _read_chunk(self, stream: Stream, output: Output) -> bool:
        try:
            data = os.read(self._outputs[stream], _CHUNK)
        except ConnectionError:
            return False
        output.write(stream, data)
        return bool(data)


class Child(Guest):
    """A guest that is a process of ours, in a control group where there is one."""

    def __init__(
        self,
        kind: str,
        process: "subprocess.Popen[bytes]",
        channel: Channel,
        cgroup: Cgroup | None = None,
        cleanup: Callable[[], None] | None = None,
    ) -> None:
        outputs = {name: cast("IO[bytes]", getattr(process, name)).fileno() for name in _STREAMS}
        super().__init__(kind, channel, outputs)
        self.process = process
        self._cgroup = cgroup
        self._cleanup = cleanup
        self._limits_set = (0, 0)
        self._cpu_before: float | None = None
        self._disposed = False

    @property
    def returncode(self) -> int | None:
        """Its exit status, once it has ended, which collects it."""
        return self.process.poll()

    def hold(self, memory: int, pids: int) -> None:
        """Set the limits of its control group, if it has one."""
        if self._cgroup is not None and self._limits_set != (memory, pids):
            self._cgroup.limit(memory=memory, pids=pids)
            self._limits_set = (memory, pids)

    def begin(self) -> None:
        """Start counting the CPU time of its job."""
        self._cpu_before = self._cgroup.computed() if self._cgroup is not None else None

    def computed(self) -> float | None:
        """Return the seconds of CPU time since its job began; None if they are not counted."""
        total = self._cgroup.computed() if self._cgroup is not None else None
        return None if total is None or self._cpu_before is None else total - self._cpu_before

    def ran_out(self) -> bool:
        """Return whether the kernel killed it for its memory."""
        return self._cgroup is not None and self._cgroup.ran_out()

    def kill(self) -> None:
        """Kill it and whatever it started.

        Its group is killed, not the process that we know: one that is just starting has not yet asked
        the kernel to die with its parent.
        """
        if not self._disposed:  # later its number may be another's
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def dispose(self) -> None:
        """Kill it, wait for it, and release its resources; it cannot be cancelled."""
        self.kill()
        with anyio.CancelScope(shield=True):
            await self.gone()
            self.channel.close()
            for pipe in (self.process.stdout, self.process.stderr):
                cast("IO[bytes]", pipe).close()
            await self._remove_cgroup()
        if not self._disposed:
            self._disposed = True
            if self._cleanup is not None:
                self._cleanup()

    async def _remove_cgroup(self) -> None:
        """Remove its control group as soon as the last of its processes has left it."""
        with anyio.move_on_after(_GONE_TIME):
            while self._cgroup is not None and not self._cgroup.remove():  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(0.002)


def spawn(
    kind: str,
    command: Sequence[str],
    *,
    program: str | None = None,
    cgroup: Cgroup | None = None,
    cwd: str = "/",
    cleanup: Callable[[], None] | None = None,
) -> Child:
    """Start an interpreter as a guest; it gets the descriptor of its end of the channel.

    `program` is the text that it runs, else that of a guest.

    It must be called in the thread of the event loop: guests die with the thread that started them.

    Raises:
        OSError: it cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        words = [*command, "-c", program or guest_program(), str(theirs.fileno())]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own
                words if cgroup is None else cgroup.joining(words),
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
    return Child(kind, process, Channel(ours, limit=1 << 10), cgroup, cleanup)


GUEST = tuple(Path(__file__).with_name(name) for name in ("guest_line.py", "guest_system.py", "guest.py"))
"""The text of a guest: its line, what it does with an operating system, and the rest."""


@cache
def guest_program(files: tuple[Path, ...] = GUEST, begin: str = "_main") -> str:
    """Return the program of a guest: the text of files, and a call of the function that begins it."""
    return "\n".join([*(file.read_text(encoding="utf-8") for file in files), f"{begin}()"])


async def boot(guest: AnyGuest, payload: Mapping[str, Any]) -> AnyGuest:
    """Configure a started guest and wait until it is ready; dispose of it if it does not get ready.

    Raises:
        RuntimeUnavailableError: it did not start.
    """
    try:
        with anyio.move_on_after(_BOOT_TIME), suppress(OSError, FrameError):
            await guest.channel.send(encode(dict(payload), 1 << 20))
            if await guest.channel.receive() == ({"ready": True}, 14):
                return guest
        await guest.gone(1.0)
        stderr = Output(limit=2_000)
        guest.drain(stderr)
    except BaseException:
        await guest.dispose()
        raise
    await guest.dispose()
    reason = stderr.text("stderr").strip()[-500:] or f"exit status {guest.returncode}"
    raise RuntimeUnavailableError(guest.kind, f"a guest did not start ({reason})")
