"""Forks the workers of a gateway, and starts one anew that has ended.

The parent serves nothing. It has bound the socket, which all workers accept from, so that a connection waits
for whichever worker is free, and none is lost with a worker that is killed. Workers are forked from a parent
that has loaded everything, so they start at once and share its memory.

The first worker starts alone. If it cannot start, the command ends with its exit code; later, a worker that
ends is started again after a pause that grows while it keeps ending. A worker ends by itself when its parent
has: it holds the other end of a pipe.
"""

import logging
import os
import secrets
import select
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket

_LOG = logging.getLogger("toolcrib.gateway")
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_STEADY = 10.0
"""A worker that ran for so many seconds is started again after the shortest pause."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class Worker:
    """One of the processes that serve an address together."""

    number: int
    """From 0; the worker 0 also serves the console and the commands."""
    count: int
    listener: socket = field(repr=False)
    """The socket that all of them accept from."""
    folder: Path
    """A private folder of all of them, which ends with their parent."""
    key: bytes = field(repr=False)
    """Seals what clients carry from one worker to another."""
    generation: str
    """A random name of all workers of this parent."""
    is_first_start: bool
    """Whether no worker of this number has served before."""
    life: int
    """A descriptor that becomes readable when the parent has ended."""
    ready: int
    """The descriptor at which the parent learns that a worker serves."""

    def report_ready(self) -> None:
        """Tell the parent that this worker serves."""
        with suppress(OSError):  # the parent has ended, and so will this worker
            os.write(self.ready, bytes([self.number]))

    def socket_of(self, number: int) -> str:
        """Return the path of the socket at which a worker takes requests of the others."""
        return str(self.folder / f"{number}.sock")


def run_workers(count: int, listener: socket) -> Worker:
    """Fork workers and return in each of them; in the parent, end the process when all have ended."""
    supervisor = _Supervisor(count, listener)
    worker = None
    try:
        worker = supervisor.run()
    finally:
        if worker is None:
            shutil.rmtree(supervisor.folder, ignore_errors=True)
    if worker is None:
        sys.exit(supervisor.exit_code)
    return worker


class _Supervisor:
    """The parent of the workers."""

    def __init__(self, count: int, listener: socket) -> None:
        self.exit_code = 0
        self.folder = Path(tempfile.mkdtemp(prefix="toolcrib-workers-"))  # of mode 0700
        self._count, self._listener = count, listener
        self._key, self._generation = secrets.token_bytes(32), secrets.token_hex(8)
        self._life, self._ready, self._wake = os.pipe(), os.pipe(), os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        self._running: dict[int, tuple[int, float]] = {}
        """The number of each process, and when it was started."""
        self._due: dict[int, float] = {0: 0.0}
        """When each worker is to be started."""
        self._pauses: dict[int, float] = {}
        self._served: set[int] = set()
        self._stops = 0

    def run(self) -> Worker | None:
        """Supervise the workers; return one in each of them, and None in the parent at the end."""
        before = {number: signal.signal(number, _ignore) for number in _SIGNALS}
        woken = signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)

        def restore() -> None:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)

        try:
            while self._running or (self._due and not self._stops):
                now = time.monotonic()
                for number in [each for each, at in self._due.items() if at <= now and not self._stops]:
                    del self._due[number]
                    if (worker := self._fork(number)) is not None:
                        return worker
                self._wait()
        finally:
            restore()
        return None

    def _fork(self, number: int) -> Worker | None:
        """Start a worker; return it in its own process."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            self._running[pid] = number, time.monotonic()
            return None
        os.setpgid(0, 0)  # an interrupt at the terminal is for the parent, which asks its workers to stop
        os.close(self._life[1])  # only the parent may hold it open
        return Worker(
            number=number,
            count=self._count,
            listener=self._listener,
            folder=self.folder,
            key=self._key,
            generation=self._generation,
            is_first_start=number not in self._served,
            life=self._life[0],
            ready=self._ready[1],
        )

    def _wait(self) -> None:
        """Wait for the next event, and take note of it."""
        now = time.monotonic()
        within = None if self._stops or not self._due else max(0.0, min(self._due.values()) - now)
        found, _, _ = select.select([self._wake[0], self._ready[0]], [], [], within)
        if self._wake[0] in found:
            self._handle_signals()
        if self._ready[0] in found:
            for number in os.read(self._ready[0], 256):
                self._note_ready(number)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._running:
                self._note_end(pid, os.waitstatus_to_exitcode(status))

    def _handle_signals(self) -> None:
        for number in os.read(self._wake[0], 256):
            if number == signal.SIGHUP:
                self._signal_all(signal.SIGHUP)
            elif number in {signal.SIGTERM, signal.SIGINT}:
                self._stops += 1  # the second hurries the workers, the third does not wait for them
                self._signal_all(signal.SIGTERM if self._stops <= 2 else signal.SIGKILL)  # noqa: PLR2004

    def _signal_all(self, number: int) -> None:
        for pid in self._running:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _note_ready(self, number: int) -> None:
        if not self._served:
            self._due |= dict.fromkeys(range(1, self._count), 0.0)
        self._served.add(number)

    def _note_end(self, pid: int, code: int) -> None:
        """Start a worker anew that has ended, unless all are to stop, or none has ever served."""
        number, since = self._running.pop(pid)
        if self._stops:
            return
        if not self._served:
            self.exit_code = code if code >= 0 else 128 - code
            self._due.clear()
            return
        ran = time.monotonic() - since
        last = self._pauses.get(number, 0.0)
        pause = _FIRST_PAUSE if ran >= _STEADY or not last else min(_LONGEST_PAUSE, 2 * last)
        self._pauses[number] = pause
        self._due[number] = time.monotonic() + pause
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        _LOG.warning("worker %d (process %d) %s; it is started again in %g s", number, pid, how, pause)


def _ignore(_signal: int, _frame: object) -> None:
    """Do nothing: the number of the signal is read from the pipe that wakes the parent."""
