"""Start servers of the SDK, and toolcrib, in a moment: they are forked from a process that has loaded them already.

Loading either takes more than a second of computing, and the suites start them hundreds of times.
`python -S -I warm.py SOCKET PROGRAM ARGUMENT...` has the process behind the socket run a program, or with `-m` a
module and with `-c` a text, on the caller's standard streams, folder and environment. Signals that ask the caller to end reach the
program, whoever kills the caller kills the program, and its status is the caller's.
Tests that are about processes themselves start them without this.
"""

import atexit
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress

SERVERS = (
    "mcp.server.lowlevel",
    "mcp.server.mcpserver",
    "mcp.server.sse",
    "mcp.server.stdio",
    "mcp.server.runner",
    "starlette.applications",
)
"""Modules that the servers of the tests have in common."""
COMMANDS = (
    "numpy",
    "toolcrib.cli.app",
    "toolcrib.cli.commands.finding",
    "toolcrib.cli.commands.running",
    "toolcrib.cli.commands.serving",
    "toolcrib.crib",
    "toolcrib.execution.mcp.results",
    "toolcrib.gateway.gateway",
    "toolcrib.gateway.frontends.meta",
    "toolcrib.mcp_internals",
    "toolcrib.setup",
    "uvicorn",
)
"""Modules that the commands of toolcrib have in common."""
STREAMS = (0, 1, 2)


class Forked:
    """A program that runs behind the socket, and is killed when its caller has ended."""

    def __init__(
        self,
        forker: str,
        *command: str,
        streams: tuple[int, ...] = STREAMS,
        environ: dict[str, str] | None = None,
    ) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(forker)
        environ = dict(os.environ) if environ is None else environ
        wanted = json.dumps({"command": command, "folder": os.getcwd(), "environ": environ})  # noqa: PTH109
        socket.send_fds(self._connection, [f"{len(wanted):10}".encode()], list(streams))
        self._connection.sendall(wanted.encode())
        self._answers = self._connection.makefile("rb")
        self.pid = int(self._answers.readline())

    @property
    def runs(self) -> bool:
        """Return whether it has not ended."""
        return not select.select([self._connection], [], [], 0)[0]

    def wait(self) -> int:
        """Return its status once it has ended: that of a shell, where it was ended by a signal."""
        status = int(self._answers.readline())
        return status if status >= 0 else 128 - status

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Kill it, or ask it to end, and return its status once it has."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, how)
        status = self.wait()
        self._answers.close()
        self._connection.close()
        return status


def serve(address: str, *modules: str) -> None:
    """Load modules, and fork a keeper for each that connects to the socket, until standard input ends."""
    with suppress(OSError), open("/proc/self/comm", "w") as name:  # noqa: PTH123
        name.write("servers")  # some tests kill every descendant that is called python
    for module in modules:
        __import__(module)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    os.write(1, f"{address}\n".encode())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    while 0 not in select.select([0, listening], [], [])[0]:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            keep(connection)
            os._exit(0)
        connection.close()
    os.unlink(address)  # noqa: PTH108
    os.rmdir(os.path.dirname(address))  # noqa: PTH106, PTH120


def keep(connection: socket.socket) -> None:
    """Run the requested program, report its exit status, and kill it when its caller is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a shell, whoever started the tests
    size, streams, _, _ = socket.recv_fds(connection, 10, len(STREAMS))
    wanted = json.loads(connection.recv(int(size), socket.MSG_WAITALL))
    program = os.fork()
    if program == 0:
        connection.close()
        run(streams, **wanted)
    for stream in streams:
        os.close(stream)
    connection.sendall(f"{program}\n".encode())
    ended = os.pidfd_open(program)
    if ended not in select.select([ended, connection, 0], [], [])[0]:
        os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    with suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def run(streams: list[int], command: list[str], folder: str, environ: dict[str, str]) -> None:
    """Be the program, from its first line to its end."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        buffering = 1 if number == 2 or os.isatty(number) else -1
        stream = open(number, mode, buffering, closefd=False)  # noqa: SIM115 - for good
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    status = 1
    try:
        sys.path[1:1] = filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
        if command[0] == "-m":
            sys.argv, sys.path[0] = command[1:], folder
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        elif command[0] == "-c":
            sys.argv, sys.path[0] = ["-c", *command[2:]], folder
            exec(command[1], {"__name__": "__main__"})  # noqa: S102 - as the interpreter does
        else:
            sys.argv, sys.path[0] = command, os.path.dirname(command[0])  # noqa: PTH120
            runpy.run_path(command[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1 if end.code else 0
        sys.stderr.write(f"{end.code}\n" if isinstance(end.code, str) else "")
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(*sys.argv[2:])
    else:
        program = Forked(*sys.argv[1:])
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, lambda number, _: os.kill(program.pid, number))
        for number in STREAMS:
            os.close(number)  # the program has them: when it ends, so do they
        os._exit(program.wait())
