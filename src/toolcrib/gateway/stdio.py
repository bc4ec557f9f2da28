"""MCP over standard input and output: one client, until it closes its end or the process is asked to stop."""

import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import mcp_types
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError as PydanticError

from toolcrib.execution.mcp.gateways import CLIENT_NAME
from toolcrib.execution.mcp.transport.lines import Lines
from toolcrib.gateway.signals import Stop, until_urged

_CHUNK = 64 * 1024
_ATOMIC = 4096
"""Bytes that a pipe with room takes without blocking."""
_LONGEST = 64 * 2**20
"""Longest line, in bytes; a longer one is skipped, and answered with an error."""
_TOO_LONG = mcp_types.JSONRPCError(
    jsonrpc="2.0",
    id=None,
    error=mcp_types.ErrorData(
        code=mcp_types.PARSE_ERROR, message=f"a line may have at most {_LONGEST:,} bytes"
    ),
)
_CANCELLED = "notifications/cancelled"
_In = SessionMessage | Exception


async def serve_streams(
    choose: Callable[[mcp_types.JSONRPCMessage], Server[Any]],
    stdin: int,
    stdout: int,
    *,
    stop: Stop | None = None,
    within: float = 10.0,
) -> None:
    """Serve one client over two descriptors, until it closes its end.

    Args:
        choose: returns the server for the first message of the client.
        stdin: the descriptor that the client writes to.
        stdout: the descriptor that the client reads from.
        stop: asks to stop: new requests are refused, and running ones may end; urged, they are cancelled. A
            client that closes its end asks to stop too.
        within: seconds that running requests have to end then.
    """
    conversation = _Conversation(stop or Stop())
    async with (
        _open_transport(conversation, stdin, stdout) as (received, sent),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_stop_in_time, conversation, within, tasks.cancel_scope)
        server = choose(await conversation.first_message())
        await server.run(received, sent, server.create_initialization_options())
        tasks.cancel_scope.cancel()


def is_toolcrib(first: mcp_types.JSONRPCMessage) -> bool:
    """Return whether a client is another toolcrib, by its first message."""
    params = (first.params if isinstance(first, mcp_types.JSONRPCRequest) else None) or {}
    meta = params.get("_meta")
    told = params.get("clientInfo") or (
        meta.get(mcp_types.CLIENT_INFO_META_KEY) if isinstance(meta, dict) else None
    )
    return isinstance(told, dict) and told.get("name") == CLIENT_NAME


class _Conversation:
    """The requests of a client without an answer, and whether it may make more."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self._open: set[mcp_types.RequestId] = set()
        self._all_answered = anyio.Event()
        self._first: mcp_types.JSONRPCMessage | None = None
        self._has_begun = anyio.Event()

    async def first_message(self) -> mcp_types.JSONRPCMessage:
        """Wait for the first message and return it; it is passed on like all others."""
        while self._first is None:
            await self._has_begun.wait()
        return self._first

    def note_received(self, message: mcp_types.JSONRPCMessage) -> None:
        """Count a request of the client as open; one that it cancels gets no answer."""
        if self._first is None:
            self._first = message
            self._has_begun.set()
        if isinstance(message, mcp_types.JSONRPCRequest):
            self._open.add(message.id)
        elif isinstance(message, mcp_types.JSONRPCNotification) and message.method == _CANCELLED:
            self._settle((message.params or {}).get("requestId"))

    def note_sent(self, message: mcp_types.JSONRPCMessage) -> None:
        """Count the request of a sent answer as closed."""
        if isinstance(message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError):
            self._settle(message.id)

    async def wait_answered(self) -> None:
        """Wait until all requests are answered."""
        while self._open:
            self._all_answered = anyio.Event()
            await self._all_answered.wait()

    def _settle(self, request_id: Any) -> None:
        if isinstance(request_id, int | str):
            self._open.discard(request_id)
        if not self._open:
            self._all_answered.set()


async def _stop_in_time(conversation: _Conversation, within: float, everything: anyio.CancelScope) -> None:
    """Stop when asked to and all requests are answered, within a time, or at once if urged."""
    await conversation.stop.asked.wait()
    await until_urged(conversation.wait_answered, conversation.stop, within)
    everything.cancel()


@contextmanager
def taken_over() -> Iterator[tuple[int, int]]:
    """Yield the descriptors of standard input and output, for the protocol alone.

    Meanwhile tools and libraries print to standard error, and read from an empty file.
    """
    sys.stdout.flush()
    own = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nowhere, 0)
        os.dup2(2, 1)
        yield own
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(own[0], 0)
        os.dup2(own[1], 1)
        for descriptor in (*own, nowhere):
            os.close(descriptor)


@asynccontextmanager
async def _open_transport(
    conversation: _Conversation, stdin: int, stdout: int
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[_In], MemoryObjectSendStream[SessionMessage]], None]:
    """Yield the streams from which the SDK reads messages, and to which it writes them."""
    put, received = anyio.create_memory_object_stream[_In](0)
    sent, take = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_messages, conversation, stdin, put, sent.clone())
        tasks.start_soon(_write_messages, conversation, stdout, take, put)
        try:
            yield received, sent
        finally:
            tasks.cancel_scope.cancel()
            for stream in (put, received, sent, take):
                stream.close()


async def _read_messages(
    conversation: _Conversation,
    stdin: int,
    put: MemoryObjectSendStream[_In],
    back: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Read messages until the client closes its end, which asks to stop."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with put, back:
            async for line in _read_lines(stdin):
                if line is None:
                    await back.send(SessionMessage(_TOO_LONG))
                else:
                    await _take_message(conversation, line, put, back)
            if not conversation.stop.asked.is_set():
                conversation.stop.ask()
            await anyio.sleep_forever()  # what is put is read as long as somebody could put more


async def _take_message(
    conversation: _Conversation,
    line: bytes,
    put: MemoryObjectSendStream[_In],
    back: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Pass a message on; answer an invalid line, or a request that comes too late, with an error."""
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except PydanticError as error:
        await back.send(SessionMessage(_parse_error(error)))
        return
    if conversation.stop.asked.is_set() and isinstance(message, mcp_types.JSONRPCRequest):
        late = mcp_types.ErrorData(code=mcp_types.CONNECTION_CLOSED, message="the gateway is stopping")
        await back.send(SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=message.id, error=late)))
        return
    conversation.note_received(message)
    await put.send(SessionMessage(message))


def _parse_error(error: PydanticError) -> mcp_types.JSONRPCError:
    if error.errors(include_input=False, include_url=False)[0]["type"] == "json_invalid":
        data = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message="a line must be JSON")
    else:
        data = mcp_types.ErrorData(
            code=mcp_types.INVALID_REQUEST, message="a line must be a JSON-RPC message"
        )
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=None, error=data)


async def _read_lines(stdin: int) -> AsyncIterator[bytes | None]:
    """Yield the lines of a client, and None for a line that is too long, of which nothing is kept."""
    lines = Lines(max_bytes=_LONGEST)
    while data := await _read_some(stdin):
        for line in lines.feed_skipping(data):
            if line is None or line.strip():
                yield line


async def _read_some(stdin: int) -> bytes:
    """Wait for data and return it; empty at the end."""
    try:
        await anyio.wait_readable(stdin)
    except (PermissionError, NotImplementedError):  # a plain file, for which nobody has to wait
        return await to_thread.run_sync(os.read, stdin, _CHUNK, abandon_on_cancel=True)
    return os.read(stdin, _CHUNK)


async def _write_messages(
    conversation: _Conversation,
    stdout: int,
    take: MemoryObjectReceiveStream[SessionMessage],
    put: MemoryObjectSendStream[_In],
) -> None:
    """Write messages; if the client has closed its end, stop reading too."""
    try:
        async for message in take:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await _write_all(stdout, text.encode() + b"\n")
            conversation.note_sent(message.message)
    except OSError:  # its end is closed
        take.close()
        put.close()


async def _write_all(stdout: int, data: bytes) -> None:
    """Write all data, waiting for a slow client."""
    rest = memoryview(data)
    while rest:
        with suppress(PermissionError, NotImplementedError):  # a plain file takes everything
            await anyio.wait_writable(stdout)
        rest = rest[os.write(stdout, rest[:_ATOMIC]) :]
