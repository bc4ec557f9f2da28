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
from toolcrib.gateway.signals import Stop, until_urged

_CHUNK = 64 * 1024
_ATOMIC = 4096
"""How many bytes a pipe that has room takes without waiting."""
_LONGEST = 64 * 2**20
"""How long a line may be; a longer one is skipped, and answered with an error."""
_TOO_LONG = mcp_types.JSONRPCError(
    jsonrpc="2.0",
    id=None,
    error=mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=f"a line may have {_LONGEST:,} bytes"),
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
    """Serve one client that writes to one descriptor and reads from another, until it closes its end.

    Args:
        choose: returns what it talks to, for the first message that it sends.
        stdin: where it writes to.
        stdout: where it reads from.
        stop: tells to stop: nothing begins any more, and what runs may end; urged, it is broken off. A client
            that closes its end asks for that too, so that the next one to ask urges.
        within: for how many seconds what runs may go on then.
    """
    conversation = _Conversation(stop or Stop())
    async with (
        _transport(conversation, stdin, stdout) as (received, sent),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_end_in_time, conversation, within, tasks.cancel_scope)
        server = choose(await conversation.first_message())
        await server.run(received, sent, server.create_initialization_options())
        tasks.cancel_scope.cancel()


def is_toolcrib(first: mcp_types.JSONRPCMessage) -> bool:
    """Return whether a client is another toolcrib, by what its first message says of it."""
    params = (first.params if isinstance(first, mcp_types.JSONRPCRequest) else None) or {}
    meta = params.get("_meta")
    told = params.get("clientInfo") or (
        meta.get(mcp_types.CLIENT_INFO_META_KEY) if isinstance(meta, dict) else None
    )
    return isinstance(told, dict) and told.get("name") == CLIENT_NAME


class _Conversation:
    """What a client has asked for and was not answered yet, and whether it may ask for more."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self._open: set[mcp_types.RequestId] = set()
        self._all_answered = anyio.Event()
        self._first: mcp_types.JSONRPCMessage | None = None
        self._begun = anyio.Event()

    async def first_message(self) -> mcp_types.JSONRPCMessage:
        """Return the first message, once it is here; it is passed on like all others."""
        while self._first is None:
            await self._begun.wait()
        return self._first

    def note_asked(self, message: mcp_types.JSONRPCMessage) -> None:
        """Note what comes from the client; what it takes back is not answered."""
        if self._first is None:
            self._first = message
            self._begun.set()
        if isinstance(message, mcp_types.JSONRPCRequest):
            self._open.add(message.id)
        elif isinstance(message, mcp_types.JSONRPCNotification) and message.method == _CANCELLED:
            self._settle((message.params or {}).get("requestId"))

    def note_answered(self, message: mcp_types.JSONRPCMessage) -> None:
        """Note what has been sent to the client."""
        if isinstance(message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError):
            self._settle(message.id)

    async def answered(self) -> None:
        """Wait until nothing is left to answer."""
        while self._open:
            self._all_answered = anyio.Event()
            await self._all_answered.wait()

    def _settle(self, request_id: Any) -> None:
        if isinstance(request_id, int | str):
            self._open.discard(request_id)
        if not self._open:
            self._all_answered.set()


async def _end_in_time(conversation: _Conversation, within: float, everything: anyio.CancelScope) -> None:
    """End everything when it is asked for and nothing is left to answer; in time, or at once where urged."""
    await conversation.stop.asked.wait()
    await until_urged(conversation.answered, conversation.stop, within)
    everything.cancel()


@contextmanager
def taken_over() -> Iterator[tuple[int, int]]:
    """Yield the descriptors of standard input and output, which nobody else can reach meanwhile.

    What tools and libraries print goes to standard error, and what they read is empty.
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
async def _transport(
    conversation: _Conversation, stdin: int, stdout: int
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[_In], MemoryObjectSendStream[SessionMessage]], None]:
    """Yield what the SDK reads messages from, and writes them to."""
    put, received = anyio.create_memory_object_stream[_In](0)
    sent, take = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, conversation, stdin, put, sent.clone())
        tasks.start_soon(_write, conversation, stdout, take, put)
        try:
            yield received, sent
        finally:
            tasks.cancel_scope.cancel()
            for stream in (put, received, sent, take):
                stream.close()


async def _read(
    conversation: _Conversation,
    stdin: int,
    put: MemoryObjectSendStream[_In],
    back: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Read messages until the client closes its end, which asks to stop."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with put, back:
            async for line in _lines(stdin):
                if line is None:
                    await back.send(SessionMessage(_TOO_LONG))
                else:
                    await _take(conversation, line, put, back)
            if not conversation.stop.asked.is_set():
                conversation.stop.ask()
            await anyio.sleep_forever()  # what is put is read as long as somebody could put more


async def _take(
    conversation: _Conversation,
    line: bytes,
    put: MemoryObjectSendStream[_In],
    back: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Pass a message on; what is none, or comes too late, is answered at once, as nobody else will."""
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except PydanticError as error:
        await back.send(SessionMessage(_complaint(error)))
        return
    if conversation.stop.asked.is_set() and isinstance(message, mcp_types.JSONRPCRequest):
        late = mcp_types.ErrorData(code=mcp_types.CONNECTION_CLOSED, message="the gateway is stopping")
        await back.send(SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=message.id, error=late)))
        return
    conversation.note_asked(message)
    await put.send(SessionMessage(message))


def _complaint(error: PydanticError) -> mcp_types.JSONRPCError:
    if error.errors(include_input=False, include_url=False)[0]["type"] == "json_invalid":
        data = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message="a line must be JSON")
    else:
        data = mcp_types.ErrorData(
            code=mcp_types.INVALID_REQUEST, message="a line must be a JSON-RPC message"
        )
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=None, error=data)


async def _lines(stdin: int) -> AsyncIterator[bytes | None]:
    """Yield the lines that a client writes, and None for one that is too long, of which nothing is kept."""
    parts: list[bytes] = []
    size = 0
    while data := await _some(stdin):
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join((*parts, end))
            is_whole = size <= _LONGEST
            parts, size = [], 0
            if is_whole and line.strip():
                yield line
        was_whole = size <= _LONGEST
        size += len(rest)
        if size <= _LONGEST:
            parts.append(rest)
        elif was_whole:
            parts = []
            yield None


async def _some(stdin: int) -> bytes:
    """Return what there is to read, when there is something; nothing at the end."""
    try:
        await anyio.wait_readable(stdin)
    except (PermissionError, NotImplementedError):  # a plain file, for which nobody has to wait
        return await to_thread.run_sync(os.read, stdin, _CHUNK, abandon_on_cancel=True)
    return os.read(stdin, _CHUNK)


async def _write(
    conversation: _Conversation,
    stdout: int,
    take: MemoryObjectReceiveStream[SessionMessage],
    put: MemoryObjectSendStream[_In],
) -> None:
    """Write messages; a client that reads no more has left, so nothing more is read from it either."""
    try:
        async for message in take:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await _all(stdout, text.encode() + b"\n")
            conversation.note_answered(message.message)
    except OSError:  # its end is closed
        take.close()
        put.close()


async def _all(stdout: int, data: bytes) -> None:
    """Write all of it, waiting where the client is slow."""
    rest = memoryview(data)
    while rest:
        with suppress(PermissionError, NotImplementedError):  # a plain file takes everything
            await anyio.wait_writable(stdout)
        rest = rest[os.write(stdout, rest[:_ATOMIC]) :]
