"""Hands a command to a running gateway: raw JSON lines over its socket, without loading the rest.

The gateway begins with a line that shows that it works. The first line to it is the request. Each line of the
answer has one key: `out` and `err` are text to write, `outBytes` and `errBytes` are bytes as Latin-1 text,
`read` asks for a file or standard input, `exit` is the exit code, and `refused` says that nothing was run.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, BinaryIO, TextIO

import toolcrib
from toolcrib.cli.interrupt import INTERRUPTED
from toolcrib.cli.resident.address import Address
from toolcrib.errors import ToolcribError
from toolcrib.paths import find_config

_VERBS = frozenset(
    {
        *(
            "approvals",
            "cancel",
            "chain",
            "code",
            "convert",
            "describe",
            "exec",
            "learned",
            "list",
            "prompt",
            "prompts",
            "read",
            "resources",
        ),
        *("resume", "run", "saved", "search", "server", "status", "stubs"),
    }
)
_HERE = frozenset({"--debug", "--help", "--no-daemon", "--version", "-h"})
"""Options of commands that do their work in their own process."""
_SCREEN = ("COLORTERM", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TERM", "TTY_COMPATIBLE")
"""Environment variables that control output on a terminal."""
_UNAVAILABLE = 4


def relay(args: Sequence[str]) -> int | None:
    """Run a command in the gateway that serves its configuration, and return the exit code.

    None where no gateway can: then nothing has happened, and the command has to do its work itself.
    """
    meant = _parse_options(args)
    if meant is None or not hasattr(socket, "AF_UNIX"):
        return None
    config, demo = meant
    try:
        found = config if config is not None or demo else find_config()
        address = Address(None if found is None else str(found), demo=demo)
        connection = address.connect()
        if connection is None:
            return None
        with connection:
            request = {"version": toolcrib.__version__, "digest": address.digest(), "args": list(args)}
            return _Relay(connection).run({**request, "config": config, "demo": demo, **_describe_outputs()})
    except (OSError, ToolcribError):  # whoever does the work here says what is wrong
        return None


def _parse_options(args: Sequence[str]) -> tuple[str | None, bool] | None:
    """Return `--config` and `--demo` of a command line; None if no gateway runs its verb.

    Only the gateway parses the command line with all its options, and refuses where it understands another.
    """
    config, demo, verb = None, False, None
    rest = iter(args)
    for each in rest:
        name, equals, value = each.partition("=")
        if each == "--":
            break
        if each in _HERE:
            return None
        if name in {"--config", "--toolset"}:
            value = value if equals else next(rest, "")
            config = value if name == "--config" else config
        elif each == "--demo":
            demo = True
        elif verb is None and not each.startswith("-"):
            verb = each
    return (config, demo) if verb in _VERBS else None


def _describe_outputs() -> dict[str, Any]:
    """Return the facts about the outputs of this process that the gateway needs."""
    streams = {"out": sys.stdout, "err": sys.stderr}
    screen: dict[str, Any] = {
        name: {"terminal": stream.isatty(), "encoding": stream.encoding} for name, stream in streams.items()
    }
    screen["environ"] = {name: os.environ[name] for name in _SCREEN if name in os.environ}
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        with suppress(OSError, ValueError, AttributeError):
            columns, lines = os.get_terminal_size(stream.fileno())  # type: ignore[union-attr]
            if columns and lines:  # a terminal may not know
                screen["size"] = [columns, lines]
                break
    return screen


def _parse_line(line: bytes) -> dict[str, Any] | None:
    """Parse one line of an answer; None if it is incomplete or invalid."""
    with suppress(ValueError, RecursionError):
        answer = json.loads(line) if line.endswith(b"\n") else None
        return answer if isinstance(answer, dict) else None
    return None


class _Relay:
    """One command that the gateway runs for this process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._is_cancelled = self._is_unread = self._is_reading = False

    def run(self, request: dict[str, Any]) -> int | None:
        """Send a request, write the output, and return the exit code; None if the request was refused."""
        with self._connection.makefile("rb") as lines, self._interruptible():
            try:
                self._send(request)
                first = lines.readline()
            except OSError:
                first = b""
            answer = _parse_line(first)
            if answer is None or "refused" in answer:
                return None
            return self._follow(answer, lines)

    def _follow(self, answer: dict[str, Any], lines: BinaryIO) -> int:
        while "exit" not in answer:
            if "read" in answer:
                self._send(self._read(str(answer["read"])))
            for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
                if name in answer:
                    self._write(stream, answer[name])
                if f"{name}Bytes" in answer:
                    self._write(stream, answer[f"{name}Bytes"].encode("latin-1"))
            found = _parse_line(lines.readline())
            if found is None:
                sys.stderr.write("error: the gateway that ran this has ended\n")
                return _UNAVAILABLE
            answer = found
        code = int(answer["exit"])
        return 0 if self._is_unread and code == INTERRUPTED else code

    def _send(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _read(self, path: str) -> dict[str, Any]:
        """Read a file or standard input; return its content, or the reason of the failure."""
        self._is_reading = True
        try:
            if path == "-":
                content = sys.stdin.buffer.read()
            else:
                with open(path, "rb") as file:  # noqa: PTH123 - light
                    content = file.read()
        except OSError as error:
            return {"errno": error.errno, "why": error.strerror or str(error)}
        except ValueError as error:
            return {"why": str(error)}
        finally:
            self._is_reading = False
        return {"content": content.decode("latin-1")}

    def _write(self, stream: TextIO, output: str | bytes) -> None:
        """Write output; once its reader is gone, the command is cancelled."""
        if self._is_unread and stream is sys.stdout:
            return
        try:
            if isinstance(output, bytes):
                stream.buffer.write(output)
            else:
                stream.write(output)
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            self._is_unread = self._is_unread or stream is sys.stdout
            self._cancel()

    def _cancel(self) -> None:
        self._is_cancelled = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Cancel the command at an interrupt, and wait for its end; exit immediately at the second."""

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            if self._is_cancelled or self._is_reading:
                os._exit(INTERRUPTED)
            self._cancel()

        before = signal.getsignal(signal.SIGINT)
        if before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
