"""Transport over the standard input and output of a child process."""

import logging
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse

from toolcrib.concurrency.turns import LoopTurn
from toolcrib.errors import ServerUnavailableError
from toolcrib.errors.text import fit
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.mcp.transport.dispatcher import TransportStreams
from toolcrib.execution.mcp.transport.lines import (
    LONG_LINE,
    DroppedMessages,
    Lines,
    LineTooLongError,
    read_line,
    read_long_line,
)
from toolcrib.execution.mcp.transport.outbox import Outbox
from toolcrib.execution.mcp.transport.process import ServerProcess, StderrTail, share_launch
from toolcrib.execution.mcp.walls.wall import open_wall
from toolcrib.redaction import hide_secrets

MAX_MESSAGE_BYTES = 64 * 2**20
"""The maximum size of a message from a server, in bytes."""

_WRITE_BYTES = 64 * 2**10
"""Bytes written in one step, so that a server which reads slowly is seen to read."""
_READ_CHECKS = 3
"""Checks within `patience` whether the server reads."""
_DRAIN_SECONDS = 0.3
"""Seconds to read on after the death of a server, for answers that it gave before."""
_FLUSH_SECONDS = 0.5
"""Seconds to write waiting messages before the server is stopped."""
_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
_MAX_EQUAL_LINES = 20
"""Equal lines in a row that show that the program is no server."""
_MAX_STRAY_LINES = 100
"""Lines of any kind that do."""
_MAX_READ_BYTES = 200
_MAX_SHOWN = 60


@asynccontextmanager
async def stdio_transport(  # noqa: PLR0913 - the last three are limits
    config: ServerConfig,
    *,
    name: str,
    stderr: StderrTail,
    written: ServerConfig | None = None,
    workers: str | None = None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    grace: float = 1.0,
    patience: float = 30.0,
) -> AsyncGenerator[TransportStreams, None]:
    """Run a server for the length of the block, and give the streams that a `ClientSession` takes.

    `written` has the settings without values from the environment, for messages. `workers` is the folder of
    the workers that share the server.

    What it prints on standard output beside messages is skipped and kept in `stderr`. When it dies, sends a
    message that is too long, or prints a great deal before it has sent any message at all, the read stream
    brings a `ServerUnavailableError` that says so, and ends. So it does when the server reads nothing for
    `patience` seconds while messages wait and no call is under way. After the block neither it nor anything
    it started in its process group is left. The block's own exceptions come out of it as they are. A server
    with a `sandbox` runs behind its wall.

    Raises:
        ServerUnavailableError: it cannot be started.
    """
    failure: Exception | None = None
    async with open_wall(config, name=name, written=written) as wall:
        launch = None if wall is None else wall.launch
        if workers is not None:
            launch = share_launch(config, name, workers)
        process = await ServerProcess.start(config, name=name, written=written, launch=launch)
        stderr.pid = process.pid
        connection = _StdioConnection(process, name, stderr, max_message_bytes)
        with closing(connection):
            async with anyio.create_task_group() as tasks:
                for work in (connection.read, connection.write, connection.watch):
                    tasks.start_soon(work)
                tasks.start_soon(connection.check_reader_stalled, patience)
                tasks.start_soon(process.keep_stderr, stderr)
                if wall is not None:
                    tasks.start_soon(wall.serve)
                try:
                    yield connection.inbox, connection.outbox
                except Exception as error:  # noqa: BLE001 - the block's own, which the task group would wrap
                    failure = error
                finally:
                    with anyio.CancelScope(shield=True):
                        await connection.hang_up()
                        await process.stop(grace=grace)
                    tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


class _StdioConnection:
    """The pipes of a server process, and the streams of its session."""

    inbox: MemoryObjectReceiveStream[SessionMessage | Exception]

    def __init__(self, process: ServerProcess, name: str, tail: StderrTail, max_message_bytes: int) -> None:
        self._process = process
        self._name = name
        self._tail = tail
        self._dropped = DroppedMessages(name)
        self._chatter = NonProtocolOutput()
        self._max_message_bytes = max_message_bytes
        self._incoming, self.inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.outbox = Outbox(self._write, self._drop)
        self._pieces = 0
        self._must_queue_answer = False
        """Whether the last message was no answer, so that the next answer must not overtake it."""
        self._all_read = anyio.Event()
        self._all_written = anyio.Event()
        self._ended = False

    async def read(self) -> None:
        """Read messages from the server; read on when the session has ended, or the server would block."""
        lines = Lines(max_bytes=self._max_message_bytes)
        has_reader = True
        with suppress(*_GONE):
            while True:
                piece = await self._process.stdout.receive()
                if has_reader:
                    has_reader = await self._pass_on(piece, lines, LoopTurn())
        self._all_read.set()
        reason = "it closed its output"
        with anyio.move_on_after(_DRAIN_SECONDS):
            reason = await self._process.exited()
        await self._end(reason)

    async def _pass_on(self, piece: bytes, lines: Lines, turn: LoopTurn) -> bool:
        """Pass the messages in a piece on to the session; return False when no more are wanted."""
        try:
            for line in lines.feed(piece):
                await self._dropped.pace()
                await turn.yield_if_over()
                if not line.strip():
                    self._dropped.note_lines(1, messages=0)
                    continue
                messages = await read_long_line(line) if len(line) >= LONG_LINE else read_line(line)
                self._dropped.note_lines(1, messages=len(messages))
                if not messages and (reason := self._keep_stray_line(line)) is not None:
                    await self._end(reason)
                    self._process.signal(signal.SIGTERM)  # what does not speak MCP need not be asked to end
                    return False
                for message in messages:
                    self._chatter.spoke()
                    if not self._resolve_at_once(message):
                        await self._incoming.send(SessionMessage(message))
        except LineTooLongError as error:
            await self._end(str(error))
            return False
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return False
        return True

    def _resolve_at_once(self, message: JSONRPCMessage) -> bool:
        """Hand an answer to its waiting request without the session's stream; return whether that was done.

        An answer must not overtake messages before it, such as a log message of the same call: after one
        that is no answer, the next answer goes over the stream too.
        """
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            self._must_queue_answer = True
            return False
        self.outbox.note_answer(message)
        if self._must_queue_answer:
            self._must_queue_answer = False
            return False
        return self.outbox.on_answer(message)

    def _keep_stray_line(self, line: bytes) -> str | None:
        """Keep a line that is not a message; return a reason if the program seems not to speak MCP at all."""
        self._tail.stray(line)
        # Many servers log like this.
        self._dropped.note("a line that is not a message", level=logging.DEBUG, size=len(line))
        return self._chatter.verdict(line)

    def _drop(self, _: JSONRPCMessage) -> None:
        self._dropped.note("a request while it does not read the answers to others")

    async def write(self) -> None:
        """Write the messages of the session to the server."""
        try:
            while (text := await self.outbox.take()) is not None:
                for start in range(0, len(text), _WRITE_BYTES):
                    await self._write(text[start : start + _WRITE_BYTES])
        except _GONE:
            reason = "it closed its input"
            with anyio.move_on_after(_DRAIN_SECONDS):  # most often because it is dead, which says more
                reason = await self._process.exited()
            await self._end(reason)
        finally:
            self._all_written.set()

    async def _write(self, piece: bytes) -> None:
        await self._process.stdin.send(piece)
        self._pieces += 1

    async def check_reader_stalled(self, patience: float) -> None:
        """End the connection with a server that does not read messages that wait for it."""
        idle, before = 0, self._pieces
        while idle < _READ_CHECKS:
            await anyio.sleep(patience / _READ_CHECKS)
            idle = idle + 1 if self.outbox.neglected and self._pieces == before else 0
            before = self._pieces
        await self._end(f"it has not read its input for {patience:g} s")

    async def watch(self) -> None:
        """End the connection when the process exits, though its children may keep the pipes open."""
        reason = await self._process.exited()
        self._process.signal(signal.SIGTERM)
        with anyio.move_on_after(_DRAIN_SECONDS):
            await self._all_read.wait()
        await self._end(reason)
        await self._process.sweep()

    async def _end(self, reason: str) -> None:
        """Report once why the connection ends, and wake its readers and writers."""
        if self._ended:
            return
        self._ended = True
        with (
            anyio.move_on_after(_DRAIN_SECONDS),
            suppress(anyio.ClosedResourceError, anyio.BrokenResourceError),
        ):
            await self._incoming.send(ServerUnavailableError(self._name, reason, self._tail.text()))
        self._incoming.close()
        self.outbox.break_off()

    async def hang_up(self) -> None:
        """Stop listening, and let the last messages of the session reach the server."""
        self.inbox.close()
        self.outbox.close()
        with anyio.move_on_after(_FLUSH_SECONDS):
            await self._all_written.wait()

    def close(self) -> None:
        """Close every stream that is still open."""
        for stream in (self.inbox, self.outbox, self._incoming):
            stream.close()


class NonProtocolOutput:
    """Tells servers that log to standard output until they speak from programs that do not speak MCP at all.

    >>> chatter = NonProtocolOutput()
    >>> {chatter.verdict(b"garbage") for _ in range(19)}
    {None}
    >>> chatter.verdict(b"garbage")
    "it writes text to standard output that is not MCP, such as 'garbage'"
    """

    def __init__(self) -> None:
        self._lines = 0
        self._same = 0
        self._last = b""
        self._spoke = False

    def spoke(self) -> None:
        """Record that it has sent a message; from then on it may print anything."""
        self._spoke = True

    def verdict(self, line: bytes) -> str | None:
        """Return why the program is no server, after one more such line; None while it may be one."""
        if self._spoke:
            return None
        self._same = self._same + 1 if line == self._last else 1
        self._last = line
        self._lines += 1
        if self._same < _MAX_EQUAL_LINES and self._lines < _MAX_STRAY_LINES:
            return None
        text = hide_secrets(line[:_MAX_READ_BYTES].decode(errors="replace").strip())
        return f"it writes text to standard output that is not MCP, such as {fit(text, _MAX_SHOWN)!r}"
