"""Guests: interpreters with a channel to the host, two outputs and an exit status.

`Guest` is the interface that a run needs; `Child` is a guest in a child process.
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
_BOOT_TIMEOUT = 30.0
_CHUNK = 1 << 16
_MAX_DRAIN_READS = 64
"""Reads of each output after the end: more than a pipe holds, but an end to processes that keep writing."""
_EXIT_TIMEOUT = 10.0


class Guest(ABC):
    """A booted interpreter that serves one run."""

    def __init__(self, kind: str, channel: Channel, outputs: Mapping[Stream, int]) -> None:
        """Make a guest of a kind of sandbox; the outputs are non-blocking file descriptors."""
        self.kind = kind
        self.channel = channel
        self._outputs = outputs
        self.evicted = False
        """Whether it was killed because its sandbox was closed."""

    @property
    @abstractmethod
    def returncode(self) -> int | None:
        """Its exit status, once it has ended."""

    def start_cpu_count(self) -> None:  # noqa: B027 - optional: only some guests count it
        """Start counting the CPU time of its job."""

    def cpu_seconds(self) -> float | None:
        """Return the CPU time since its job began; None if it is not counted."""
        return None

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel killed it because of its memory limit."""
        return False

    def has_ended(self) -> bool:
        """Return whether its exit status is known."""
        return self.returncode is not None

    @abstractmethod
    def kill(self) -> None:
        """Kill it and every process that it started."""

    def evict(self) -> None:
        """Kill it because its sandbox is closing, which its run then reports instead of a violation."""
        self.evicted = True
        self.kill()

    async def wait_until_ended(self, within: float = _EXIT_TIMEOUT) -> bool:
        """Wait until it has ended; return False if it does not within so many seconds."""
        with anyio.move_on_after(within):
            backoff = Backoff(0.0005, 0.02)
            while not self.has_ended():
                await backoff.sleep()
        return self.has_ended()

    @abstractmethod
    async def dispose(self) -> None:
        """Kill it, wait for it, and release its resources; it cannot be cancelled."""

    async def copy_output(self, stream: Stream, output: Output) -> None:
        """Read one of its outputs until it closes; data beyond the limit is read and dropped."""
        while True:
            await anyio.wait_readable(self._outputs[stream])
            if not self._read_chunk(stream, output):
                return

    def drain_outputs(self, output: Output) -> None:
        """Read the rest of its outputs after its end."""
        for stream in self._outputs:
            with suppress(BlockingIOError):
                for _ in range(_MAX_DRAIN_READS):
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
    """A guest in a child process, with a control group if there are any here."""

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
        """Its exit status, once it has ended; reading it reaps the process."""
        return self.process.poll()

    def set_cgroup_limits(self, memory: int, pids: int) -> None:
        """Set the limits of its control group, if it has one."""
        if self._cgroup is not None and self._limits_set != (memory, pids):
            self._cgroup.set_limits(memory=memory, pids=pids)
            self._limits_set = (memory, pids)

    def start_cpu_count(self) -> None:
        """Start counting the CPU time of its job."""
        self._cpu_before = self._cgroup.cpu_seconds() if self._cgroup is not None else None

    def cpu_seconds(self) -> float | None:
        """Return the CPU time since its job began; None if it is not counted."""
        total = self._cgroup.cpu_seconds() if self._cgroup is not None else None
        return None if total is None or self._cpu_before is None else total - self._cpu_before

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel killed it because of its memory limit."""
        return self._cgroup is not None and self._cgroup.ran_out_of_memory()

    def kill(self) -> None:
        """Kill it and every process that it started.

        The whole process group is killed: a grandchild that is just starting has not yet asked the kernel to
        die with its parent (PR_SET_PDEATHSIG).
        """
        if not self._disposed:  # afterwards its pid may belong to another process
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def dispose(self) -> None:
        """Kill it, wait for it, and release its resources; it cannot be cancelled."""
        self.kill()
        with anyio.CancelScope(shield=True):
            await self.wait_until_ended()
            self.channel.close()
            for pipe in (self.process.stdout, self.process.stderr):
                cast("IO[bytes]", pipe).close()
            await self._remove_cgroup()
        if not self._disposed:
            self._disposed = True
            if self._cleanup is not None:
                self._cleanup()

    async def _remove_cgroup(self) -> None:
        """Remove its control group as soon as its last process has ended."""
        with anyio.move_on_after(_EXIT_TIMEOUT):
            while self._cgroup is not None and not self._cgroup.remove():  # noqa: ASYNC110 - the kernel gives no event
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
    """Start an interpreter as a guest; its last argument is the descriptor of its end of the channel.

    `program` is the Python program that it runs; None is the usual guest.

    It must be called in the thread of the event loop, because guests die with the thread that started them.

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


GUEST_FILES = tuple(
    Path(__file__).with_name(name) for name in ("guest_line.py", "guest_system.py", "guest.py")
)
"""The source files of a guest: its connection, its use of the operating system, and the rest.

A guest gets them as one text (`python -c`), because no file of this package is visible inside a sandbox.
"""


@cache
def guest_program(files: tuple[Path, ...] = GUEST_FILES, begin: str = "_main") -> str:
    """Return the program of a guest: the text of its files, and a call of its main function."""
    return "\n".join([*(file.read_text(encoding="utf-8") for file in files), f"{begin}()"])


async def boot(guest: AnyGuest, payload: Mapping[str, Any]) -> AnyGuest:
    """Configure a started guest and wait until it is ready; dispose of it if it does not get ready.

    Raises:
        RuntimeUnavailableError: it did not start.
    """
    try:
        with anyio.move_on_after(_BOOT_TIMEOUT), suppress(OSError, FrameError):
            await guest.channel.send(encode(dict(payload), 1 << 20))
            if await guest.channel.receive() == ({"ready": True}, 14):
                return guest
        await guest.wait_until_ended(1.0)
        stderr = Output(limit=2_000)
        guest.drain_outputs(stderr)
    except BaseException:
        await guest.dispose()
        raise
    await guest.dispose()
    reason = stderr.text("stderr").strip()[-500:] or f"exit status {guest.returncode}"
    raise RuntimeUnavailableError(guest.kind, f"a guest did not start ({reason})")
