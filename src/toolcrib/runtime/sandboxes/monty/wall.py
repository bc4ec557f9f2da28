"""Isolation of the engine's workers: a script that starts one behind bubblewrap and a seccomp filter.

The interpreter is the inner wall: code cannot name a file, a socket or a process. This is the outer one, for
the case that a flaw in the interpreter lets code run as machine code.
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
from toolcrib.isolation.bubblewrap import GUEST_UID, PATIENCE, Bubblewrap, try_command
from toolcrib.isolation.scratch import private_folder
from toolcrib.isolation.seccomp import WORKER, compile_filter

MAX_MEMORY = 3 << 30
"""The largest limit of memory that is passed on; one above all of them bounds the worker from outside."""
_ADDRESS_SPACE = 4 << 20
"""Kilobytes of address space for a worker, in which the largest heap has room."""
_DESCRIPTORS = 64
_FILTER = 9
"""The descriptor that bubblewrap reads the filter from."""


@contextmanager
def worker_script(parts: Collection[str], *, address_space: int = _ADDRESS_SPACE) -> Iterator[Path]:
    """Make a script that starts a worker, and pass on its path; leaving the context removes it.

    Args:
        parts: What isolates the worker: `bubblewrap` and `seccomp`, each if it can be used here.
        address_space: Kilobytes of address space that a worker may take.
    """
    with private_folder("monty") as folder:
        worker, script, syscalls = monty_binary(), folder / "worker", folder / "filter"
        command = _bubblewrap_command(worker, parts) if "bubblewrap" in parts else _plain_command(worker)
        line = " ".join(map(shlex.quote, command)) + ' "$@"'
        if "seccomp" in parts:
            syscalls.write_bytes(compile_filter(WORKER))
            line += f" {_FILTER}<{shlex.quote(str(syscalls))}"
        limits = ["ulimit -c 0", f"ulimit -n {_DESCRIPTORS}", f"ulimit -v {address_space}"]
        # how a worker ends is reported by the engine as well
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
    """Return the command of a worker without a wall, which at least dies with this process."""
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
        filter_fd=_FILTER if "seccomp" in parts else None,
    )


@cache
def _find_libraries(program: Path) -> Sequence[Path]:
    """Return the shared libraries that a program loads; none if it is static."""
    command = ["ldd", str(program)]  # programs of our own
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)  # noqa: S603
    words = [word for line in completed.stdout.splitlines() for word in line.split()]
    return [Path(word) for word in words if word.startswith("/") and not word.endswith(":")]


@cache
def wall_here() -> tuple[str, ...]:
    """Return the parts of the wall that work on this machine, outermost first, tried with a real worker."""
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
