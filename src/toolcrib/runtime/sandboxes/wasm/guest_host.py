"""Program of the child process with the WebAssembly engine: it runs one module and relays its frames.

Its text follows `guest_line.py` and `guest_system.py`; inside the module run `guest.py` and `guest_wasi.py`.

WASI gives a guest only standard streams. So frames and printed text share standard output: each frame comes
after a random mark of 16 bytes that this process gives the guest, and `_Splitter` separates them. Code that
knows the mark can forge frames, as in every sandbox; the host trusts none.
"""

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # at run time these files come before this one in the same text
    from toolcrib.runtime.sandboxes.process.guest_line import _Line  # noqa: TC004 - as above
    from toolcrib.runtime.sandboxes.process.guest_system import (  # noqa: TC004 - as above
        _drop_privileges,
        _set_rlimits,
    )

_HEADER_BYTES = 4
_CPU_POLL_SECONDS = 0.02


class _Splitter:
    """Splits the standard output of a guest into frames, each after a mark, and printed text."""

    def __init__(self, mark: bytes, line: int, stdout: int = 1) -> None:
        self._mark = mark
        self._line = line
        self._stdout = stdout
        self._buffer = b""
        self._left = 0
        """Bytes of the current frame that are still to come."""

    def __call__(self, data: bytes) -> None:
        self._buffer += data
        while self._buffer:
            if self._left:
                self._write_to(self._line, self._left)
                continue
            head, mark, frame = self._buffer.partition(self._mark)
            printed = len(head) if mark else len(head) - self._count_partial_mark(head)
            if printed:
                self._write_to(self._stdout, printed)
            elif mark and len(frame) >= _HEADER_BYTES:
                self._left = _HEADER_BYTES + int.from_bytes(frame[:_HEADER_BYTES], "big")
                self._buffer = frame
            else:
                return

    def _count_partial_mark(self, text: bytes) -> int:
        """Return the number of bytes at the end of a text that may be the beginning of a mark."""
        most = min(len(text), len(self._mark) - 1)
        return next((size for size in range(most, 0, -1) if self._mark.startswith(text[-size:])), 0)

    def _write_to(self, target: int, size: int) -> None:
        part, self._buffer = self._buffer[:size], self._buffer[size:]
        if target == self._line:
            self._left -= len(part)
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(target, rest) :]


class _Machine:
    """A WebAssembly engine with one compiled module and its one guest."""

    def __init__(self, setup: dict[str, Any], line: int) -> None:
        sys.path.append(setup["packages"])
        import wasmtime  # noqa: PLC0415 - found by the line above

        self._wasmtime = wasmtime
        config = wasmtime.Config()
        config.epoch_interruption = (
            True  # checked at loops and calls, so that another thread can stop the code
        )
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
        self._is_out_of_time = False

    def run(self) -> NoReturn:
        """Run the module to its end, and exit with its status."""
        linker = self._wasmtime.Linker(self._engine)
        linker.define_wasi()
        try:
            begin: Any = linker.instantiate(self._store, self._module).exports(self._store)["_start"]
            begin(self._store)
        except self._wasmtime.ExitTrap as error:
            os._exit(error.code)
        except (self._wasmtime.Trap, self._wasmtime.WasmtimeError):
            if self._is_out_of_time:
                os.kill(os.getpid(), signal.SIGXCPU)  # as the kernel would, so that the host reads both alike
            os.abort()
        os._exit(0)

    def stop_after(self, seconds: float) -> None:
        """Interrupt the module when this process has used so many seconds of CPU time from now on."""
        until = time.process_time() + seconds
        while time.process_time() < until:
            time.sleep(_CPU_POLL_SECONDS)
        self._is_out_of_time = True
        self._engine.increment_epoch()


def _copy_bytes(source: int, target: int) -> None:
    while data := os.read(source, 1 << 16):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
    os._exit(0)  # the host is gone


def _relay_job(line: "_Line", machine: _Machine) -> None:
    """Wait for the job, set its limits, and relay it and all later messages to the guest."""
    message = line.receive_message()
    limits = message["job"]["rlimits"]
    _set_rlimits(limits)
    threading.Thread(target=machine.stop_after, args=(limits["CPU"] / 1000,), daemon=True).start()
    _Line(line.descriptor, machine.answers).send(message)
    _copy_bytes(line.descriptor, machine.answers)


def _host_main() -> NoReturn:
    line = _Line(int(sys.argv.pop()))
    setup = line.receive_message()
    machine = _Machine(
        setup, line.descriptor
    )  # first, since the user nobody may not be allowed to read the module
    _drop_privileges(setup)
    threading.Thread(target=_relay_job, args=(line, machine), daemon=True).start()
    machine.run()
