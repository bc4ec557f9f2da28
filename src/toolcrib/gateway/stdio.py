"""MCP over standard input and output: one client, until it closes its end or the process is told to stop."""

import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio
import mcp_types
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError as PydanticError

__all__ = ["serve_streams", "taken_over"]

_CHUNK = 64 * 1024
_ATOMIC = 4096
"""How many bytes a pipe that has room takes without waiting."""
_LONGEST = 64 * 2**20
"""How long a line may be; a client that sends longer ones is not understood."""
_In = SessionMessage | Exception


async def serve_streams(server: Server, stdin: int, stdout: int) -> None:
    """Serve one client that writes to one descriptor and reads from another, until it closes its end."""
    async with _transport(stdin, stdout) as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


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
    stdin: int, stdout: int
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[_In], MemoryObjectSendStream[SessionMessage]], None]:
    """Yield what the SDK reads messages from, and writes them to."""
    put, received = anyio.create_memory_object_stream[_In](0)
    sent, take = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, stdin, put, sent.clone())
        tasks.start_soon(_write, stdout, take, put)
        try:
            yield received, sent
        finally:
            tasks.cancel_scope.cancel()
            for stream in (put, received, sent, take):
                stream.close()


async def _read(
    stdin: int, put: MemoryObjectSendStream[_In], back: MemoryObjectSendStream[SessionMessage]
) -> None:
    """Read messages; what is none is answered at once, as nobody else will."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with put, back:
            async for line in _lines(stdin):
                try:
                    message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except PydanticError as error:
                    await back.send(SessionMessage(_complaint(error)))
                else:
                    await put.send(SessionMessage(message))


def _complaint(error: PydanticError) -> mcp_types.JSONRPCError:
    if error.errors(include_input=False, include_url=False)[0]["type"] == "json_invalid":
        said = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message="a line must be JSON")
    else:
        said = mcp_types.ErrorData(
            code=mcp_types.INVALID_REQUEST, message="a line must be a JSON-RPC message"
        )
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=None, error=said)


async def _lines(stdin: int) -> AsyncIterator[bytes]:
    """Yield the lines that a client writes; what stands after the last one is none."""
    parts: list[bytes] = []
    size = 0
    while data := await _some(stdin):
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join((*parts, end))
            parts, size = [], 0
            if line.strip():
                yield line
        parts.append(rest)
        size += len(rest)
        if size > _LONGEST:
            return


async def _some(stdin: int) -> bytes:
    """Return what there is to read, when there is something; nothing at the end."""
    try:
        await anyio.wait_readable(stdin)
    except (PermissionError, NotImplementedError):  # a plain file, for which nobody has to wait
        return await to_thread.run_sync(os.read, stdin, _CHUNK, abandon_on_cancel=True)
    return os.read(stdin, _CHUNK)


async def _write(
    stdout: int, take: MemoryObjectReceiveStream[SessionMessage], put: MemoryObjectSendStream[_In]
) -> None:
    """Write messages; a client that reads no more has left, so nothing more is read from it either."""
    try:
        async for message in take:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await _all(stdout, text.encode() + b"\n")
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
