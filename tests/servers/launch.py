"""Start, kill and count the servers that the tests call."""

import atexit
import os
import platform
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

import anyio.to_thread
import pytest
from needs import lack
from servers import warm
from servers.warm import Forked
from waiting import PATIENCE

ROOT = Path(__file__).parents[2]
TESTS = Path(__file__).parents[1]
FAULTY = str(Path(__file__).with_name("faulty.py"))
TOOLCRIB = ("-m", "toolcrib.cli")
LIBRARY = str(Path(__file__).with_name("library.py"))
LITTLE = str(Path(__file__).with_name("little.py"))
SHIFTING = str(Path(__file__).with_name("shifting.py"))
TINY = str(Path(__file__).with_name("tiny.py"))
PACKAGES = ROOT / ".servers" / "node_modules"
MODULES = PACKAGES / "@modelcontextprotocol"

Config = dict[str, Any]


@cache
def forker(modules: tuple[str, ...] = warm.SERVERS) -> str:
    """Return the socket of the process that servers are forked from: this worker's, which ends with it."""
    environ = {name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"}
    command = [sys.executable, warm.__file__, "--serve", f"{mkdtemp()}/socket", *modules]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as answers:
        address = answers.readline().decode().strip()
    atexit.register(process.wait)
    atexit.register(process.stdin.close)
    return address


def command() -> list[str]:
    """Return how `toolcrib` is started in a moment, as `python -m toolcrib.cli` is."""
    return python(*TOOLCRIB)


def python(*program: str) -> list[str]:
    """Return how a program that loads toolcrib, or with `-c` or `-m` a text or a module, is started in a moment."""
    return [sys.executable, "-S", "-I", warm.__file__, forker(warm.COMMANDS), *program]


def faulty(*flags: str, **more: Any) -> Config:
    """Return how the faulty server is started on stdio, in a moment."""
    return _forked(FAULTY, *flags, **more)


def library(shelf: str, **more: Any) -> Config:
    """Return how the server with resources and prompts is started on stdio, in a moment."""
    return _forked(LIBRARY, shelf, **more)


def _forked(program: str, *flags: str, **more: Any) -> Config:
    args = ["-S", "-I", warm.__file__, forker(), program, *flags]
    return {"command": sys.executable, "args": args, "start_timeout": PATIENCE, **more}


def faulty_alone(*flags: str, **more: Any) -> Config:
    """Return how the faulty server is started on stdio, as a child of ours and no other process."""
    return {"command": sys.executable, "args": [FAULTY, *flags], "start_timeout": PATIENCE, **more}


def tiny(*flags: str, **more: Any) -> Config:
    """Return how the cheapest server is started on stdio."""
    return {"command": sys.executable, "args": ["-S", "-I", TINY, *flags], **more}


def little(*how: str, **more: Any) -> Config:
    """Return the settings of the little server, with the behaviour that its first argument names."""
    return {"command": sys.executable, "args": ["-S", "-I", LITTLE, *how], **more}


def shifting(file: Path | str, **more: Any) -> Config:
    """Return the settings of the server that serves the content of a file."""
    return {"command": sys.executable, "args": ["-S", "-I", SHIFTING, str(file)], **more}


def conformance(*flags: str, **more: Any) -> Config:
    """Return how the server that the conformance suite asks is started on stdio."""
    return _forked("-m", "servers.conformance", *flags, env={"PYTHONPATH": str(TESTS)}, **more)


def dual(*flags: str, **more: Any) -> Config:
    """Return how the server of the SDK's `MCPServer` is started on stdio, which speaks both eras."""
    return _forked("-m", "servers.dual", *flags, env={"PYTHONPATH": str(TESTS)}, **more)


def asking(*flags: str, **more: Any) -> Config:
    """Return how the server is started on stdio whose tools ask their client for something."""
    return _forked("-m", "servers.asking", *flags, env={"PYTHONPATH": str(TESTS)}, **more)


def dual_over_http() -> AbstractContextManager[Config]:
    """Serve the same over HTTP, and yield how it is reached."""
    return _over_http("servers.dual")


def conformance_over_http(*flags: str) -> AbstractContextManager[Config]:
    """Serve the fixture of the conformance suite over HTTP, and yield its settings."""
    return _over_http("servers.conformance", *flags)


@contextmanager
def _over_http(module: str, *flags: str) -> Iterator[Config]:
    started = _forked("-m", module, "--http", "0", *flags, env={"PYTHONPATH": str(TESTS)})
    command = [started["command"], *started["args"]]
    environ = {**os.environ, **started["env"]}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ) as process:
        assert process.stdout is not None
        try:
            yield {"type": "http", "url": f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"}
        finally:
            process.kill()


def npm(name: str, *args: str, **more: Any) -> Config:
    """Return how a server of the npm lock is started; skip the test, loudly, where it is not installed."""
    program = MODULES / f"server-{name}" / "dist" / "index.js"
    node = shutil.which("node")
    if node is None or not program.exists():
        lack("npm")
    return {"command": node, "args": [str(program), *args], **more}


def npm_tool(program: str) -> list[str]:
    """Return how a program of the npm lock is started, on its own node; skip, loudly, where it cannot be."""
    kind = "arm64" if platform.machine() in {"aarch64", "arm64"} else "x64"
    node = PACKAGES / f"node-{sys.platform}-{kind}" / "bin" / "node"
    if not node.exists() or not (PACKAGES / program).exists():
        lack("npm")
    return [str(node), str(PACKAGES / program)]


def node_program(package: str, program: str) -> list[str]:
    """Return how a program beside this file is started that needs a package of the npm lock; skip, loudly, without."""
    packages = Path(os.environ.get("TOOLCRIB_TEST_PACKAGES", PACKAGES))
    kind = "arm64" if platform.machine() in {"aarch64", "arm64"} else "x64"
    node = packages / f"node-{sys.platform}-{kind}" / "bin" / "node"
    if not node.exists() or not (packages / package).exists():
        lack("npm")
    # Packages are looked for above the program, and they are elsewhere.
    copy = Path(mkdtemp(dir=packages, prefix=".toolcrib-")) / program
    shutil.copy(Path(__file__).with_name(program), copy)
    atexit.register(shutil.rmtree, copy.parent)
    return [str(node), str(copy)]


class HttpServer:
    """The faulty server over HTTP, in a process of its own, on a port that stays reserved while it is down."""

    def __init__(self, *flags: str, transport: str = "http") -> None:
        self._flags = flags
        self._transport = transport
        self._process: Forked | None = None
        self._held = closed_port()
        self.port = 0

    @property
    def config(self) -> Config:
        """Return how it is reached."""
        path = "mcp" if self._transport == "http" else "sse"
        return {"type": self._transport, "url": f"http://127.0.0.1:{self.port}/{path}"}

    @property
    def pid(self) -> int:
        """Return the id of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Return whether its process has not ended."""
        return self._process is not None and self._process.runs

    def start(self) -> None:
        """Start it on its port, and return once it can be reached."""
        command = [FAULTY, f"--{self._transport}", str(self.port), *self._flags]
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb", buffering=0) as stream:
            self._process = Forked(forker(), *command, streams=(0, writing, 2))
            os.close(writing)
            ready, _, _ = select.select([stream], [], [], PATIENCE)
            line = stream.readline() if ready else b""
        if not line.strip():
            self.kill()
            pytest.fail(f"{command} did not say on which port it listens within {PATIENCE:g} s")

    def kill(self) -> None:
        """Kill it, as a crash or an administrator would."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    async def restart(self) -> None:
        """Start it again on the same port."""
        self.kill()
        await anyio.to_thread.run_sync(self.start)

    def __enter__(self) -> Self:
        self.port = self._held.__enter__()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._held.__exit__(None, None, None)


@contextmanager
def closed_port() -> Iterator[int]:
    """Reserve a port of 127.0.0.1 without a listener; a test may listen there."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def alive(pid: int) -> bool:
    """Return whether a process runs: one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


def children(pid: int | None = None) -> set[int]:
    """Return the processes, zombies too, that this one or another has started."""
    found: set[int] = set()
    for task in Path(f"/proc/{os.getpid() if pid is None else pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, task.read_text().split()))
    return found


def descriptors() -> Iterator[str]:
    """Yield the open file descriptors of this process."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            yield str(entry.readlink())


def end(pid: int) -> None:
    """Kill a process if it still runs."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
