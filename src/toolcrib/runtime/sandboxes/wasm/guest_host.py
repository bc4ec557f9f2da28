"""The child process that holds the engine: it runs one module, and passes on what it and the host write.

Its text follows that of the line and of a guest's system; in the module are `guest.py` and `guest_wasi.py`.
"""

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # in the text they stand above
    from toolcrib.runtime.sandboxes.process.guest_line import _Line  # noqa: TC004 - as above
    from toolcrib.runtime.sandboxes.process.guest_system import _boot, _limit  # noqa: TC004 - as above

_HEADER = 4
_LOOK = 0.02
"""Seconds between two looks at how long it has computed."""


class _Splitter:
    """Takes what a guest writes to its standard output: frames, each after a mark, and what it prints."""

    def __init__(self, mark: bytes, line: int, prints: int = 1) -> None:
        self._mark = mark
        self._line = line
        self._prints = prints
        self._buffer = b""
        self._left = 0

    def __call__(self, data: bytes) -> None:
        self._buffer += data
        while self._buffer:
            if self._left:
                self._pass_on(self._line, self._left)
                continue
            head, mark, frame = self._buffer.partition(self._mark)
            printed = len(head) if mark else len(head) - self._begun(head)
            if printed:
                self._pass_on(self._prints, printed)
            elif mark and len(frame) >= _HEADER:
                self._left = _HEADER + int.from_bytes(frame[:_HEADER], "big")
                self._buffer = frame
            else:
                return

    def _begun(self, text: bytes) -> int:
        """Return how many bytes at the end of a text may be the beginning of a mark."""
        most = min(len(text), len(self._mark) - 1)
        return next((size for size in range(most, 0, -1) if self._mark.startswith(text[-size:])), 0)

    def _pass_on(self, target: int, size: int) -> None:
        part, self._buffer = self._buffer[:size], self._buffer[size:]
        if target == self._line:
            self._left -= len(part)
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(target, rest) :]


class _Machine:
    """An engine with one compiled module, and the one guest that runs in it."""

    def __init__(self, setup: dict[str, Any], line: int) -> None:
        sys.path.append(setup["packages"])
        import wasmtime  # noqa: PLC0415 - it is found by the line above

        self._wasmtime = wasmtime
        config = wasmtime.Config()
        config.epoch_interruption = True
        config.parallel_compilation = False
        self._engine = wasmtime.Engine(config)
        self._module = wasmtime.Module.deserialize_file(self._engine, setup["module"])
        self._store = wasmtime.Store(self._engine)
        self._store.set_limits(memory_size=setup["memory"], instances=1, memories=1)
        self._store.set_epoch_deadline(1)
        reading, self.answers = os.pipe()
        wasi, mark = wasmtime.WasiConfig(), os.urandom(16)
        wasi.stdin_file = f"/proc/self/fd/{reading}"
        wasi.stdout_custom = _Splitter(mark, line)
        wasi.inherit_stderr()
        wasi.preopen_dir(setup["library"], "/lib", fs_mutable=False)
        os.close(reading)
        _Line(line, self.answers).send({"mark": mark.hex()})
        self._store.set_wasi(wasi)
        self._over = False

    def run(self) -> NoReturn:
        """Run the module to its end, and end as it did."""
        linker = self._wasmtime.Linker(self._engine)
        linker.define_wasi()
        try:
            begin: Any = linker.instantiate(self._store, self._module).exports(self._store)["_start"]
            begin(self._store)
        except self._wasmtime.ExitTrap as error:
            os._exit(error.code)
        except (self._wasmtime.Trap, self._wasmtime.WasmtimeError):
            if self._over:
                os.kill(os.getpid(), signal.SIGXCPU)
            os.abort()
        os._exit(0)

    def stop_after(self, seconds: float) -> None:
        """Interrupt the module when this process has computed for so many seconds from now."""
        until = time.process_time() + seconds
        while time.process_time() < until:
            time.sleep(_LOOK)
        self._over = True
        self._engine.increment_epoch()


def _copy(source: int, target: int) -> None:
    while data := os.read(source, 1 << 16):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
    os._exit(0)  # the host is gone


def _begin(line: "_Line", machine: _Machine) -> None:
    """Wait for the job, set its limits, and pass on everything from then on."""
    message = line.wait()
    limits = message["job"]["rlimits"]
    _limit(limits)
    threading.Thread(target=machine.stop_after, args=(limits["CPU"] / 1000,), daemon=True).start()
    _Line(line.descriptor, machine.answers).send(message)
    _copy(line.descriptor, machine.answers)


def _hold() -> NoReturn:
    line = _Line(int(sys.argv.pop()))
    setup = line.wait()
    machine = _Machine(setup, line.descriptor)
    _boot(setup)
    threading.Thread(target=_begin, args=(line, machine), daemon=True).start()
    machine.run()
