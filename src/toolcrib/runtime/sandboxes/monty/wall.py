"""Isolation of the engine's workers: a script that starts one with bubblewrap and a seccomp filter.

The interpreter is the inner layer: it gives code no access to files, sockets or processes. This is the outer
layer, for the case that a bug in the interpreter lets code run as machine code. It is a script because the
engine starts its workers itself, from the path of one program.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.isolation.bubblewrap import GUEST_UID, TRY_TIMEOUT, Bubblewrap, try_command
from toolcrib.isolation.scratch import private_folder
from toolcrib.isolation.seccomp import WORKER, compile_filter

MAX_MEMORY = 3 << 30
"""The largest memory limit for the engine's allocator; the address space limits the worker as a whole."""
_ADDRESS_SPACE_KILOBYTES = 4 << 20
"""Room for the largest heap; in kilobytes, as `ulimit -v` takes it."""
_OPEN_FILES = 64
_FILTER_FD = 9
"""The file descriptor from which bubblewrap reads the filter."""


@contextmanager
def worker_script(parts: Collection[str], *, address_space: int = _ADDRESS_SPACE_KILOBYTES) -> Iterator[Path]:
    """Make a script that starts a worker, and yield its path; the script is removed at the end of the block.

    Args:
        parts: The layers of isolation, of `bubblewrap` and `seccomp`.
        address_space: Kilobytes of address space of a worker.
    """
    with private_folder("monty") as folder:
        worker, script, syscalls = monty_binary(), folder / "worker", folder / "filter"
        command = _bubblewrap_command(worker, parts) if "bubblewrap" in parts else _plain_command(worker)
        line = " ".join(map(shlex.quote, command)) + ' "$@"'
        if "seccomp" in parts:
            syscalls.write_bytes(compile_filter(WORKER))
            line += f" {_FILTER_FD}<{shlex.quote(str(syscalls))}"
        limits = ["ulimit -c 0", f"ulimit -n {_OPEN_FILES}", f"ulimit -v {address_space}"]
        # stderr is discarded: the engine itself reports how a worker ended
        lines = ["#!/bin/sh", "exec 2>/dev/null", *limits, f"exec {line}", ""]
        script.write_text("\n".join(lines), encoding="utf-8")
        script.chmod(0o700)
        yield script


@cache
def monty_binary() -> str:
    """Return the path of the engine's worker.

    Raises:
        RuntimeUnavailableError: the engine is not installed.
    """
    try:
        from pydantic_monty._binary import find_monty_binary  # noqa: PLC0415 - an extra

        return find_monty_binary()
    except (ImportError, FileNotFoundError) as error:
        raise RuntimeUnavailableError("monty", "pip install 'toolcrib[code]' (pydantic-monty)") from error


def _plain_command(worker: str) -> Sequence[str]:
    """Return the command of a worker without isolation, which at least dies with this process."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", worker] if setpriv else [worker]


def _bubblewrap_command(worker: str, parts: Collection[str]) -> Sequence[str]:
    as_root = os.geteuid() == 0
    programs = {Path("/monty"): Path(worker)}
    command = ["/monty"]
    if as_root:
        programs[Path("/setpriv")] = Path(shutil.which("setpriv") or "setpriv")
        become = [f"--reuid={GUEST_UID}", f"--regid={GUEST_UID}", "--clear-groups", "--no-new-privs"]
        command = ["/setpriv", *become, "--inh-caps=-all", "--bounding-set=-all", "/monty"]
    libraries = sorted({library for program in programs.values() for library in _find_libraries(program)})
    visible = {**programs, **{library: library for library in libraries}}
    return Bubblewrap(shutil.which("bwrap") or "bwrap", as_root).command(
        command,
        files=visible,
        capabilities=("CAP_SETPCAP",),
        filter_fd=_FILTER_FD if "seccomp" in parts else None,
    )


@cache
def _find_libraries(program: Path) -> Sequence[Path]:
    """Return the shared libraries that a program loads; none if it is static."""
    command = ["ldd", str(program)]  # trusted programs: ldd may run them
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TRY_TIMEOUT)  # noqa: S603
    words = [word for line in completed.stdout.splitlines() for word in line.split()]
    return [Path(word) for word in words if word.startswith("/") and not word.endswith(":")]


@cache
def find_isolation() -> tuple[str, ...]:
    """Return the layers of isolation that work here, outermost first, tested with a real worker."""
    for parts in (("bubblewrap", "seccomp"), ("bubblewrap",)):
        if _try_parts(parts):
            return parts
    return ()


def _try_parts(parts: tuple[str, ...]) -> bool:
    if shutil.which("bwrap") is None or (os.geteuid() == 0 and shutil.which("setpriv") is None):
        return False
    try:
        with worker_script(parts) as script:
            return try_command([str(script), "--version"])[0]
    except (OSError, subprocess.SubprocessError, RuntimeUnavailableError):
        return False
