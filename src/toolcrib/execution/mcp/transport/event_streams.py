"""Event streams over HTTP: pauses before they are reopened, and filtering of their lists."""

import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import anyio
import httpx2

from toolcrib.concurrency.backoff import Backoff
from toolcrib.concurrency.turns import split_dense_chunks
from toolcrib.execution.mcp.transport.lines import (
    DroppedMessages,
    Lines,
    LineTooLongError,
    with_shallow_tools,
)

_DATA = re.compile(rb"data: ?[^\r\n]")
"""A line of an event with data."""
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_MAX_VAIN_RESUMES = 3
"""Consecutive resumptions of a call's stream without a new event, at most."""
_MAX_RESUMES = 30
"""Resumptions in all: each waits inside the one before."""


class Pace:
    """The pauses between the openings of one event stream.

    A server says how soon it wants to be asked again, and may say at once, for ever. It is asked at most
    once a second; when that brings nothing, more and more rarely.
    """

    def __init__(self) -> None:
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._opened: float | None = None

    async def wait(self) -> None:
        """Wait until the stream may be opened again; at first, not at all."""
        rest = 0.0 if self._opened is None else self._opened + self._backoff.next() - anyio.current_time()
        if rest > 0:
            await anyio.sleep(rest)
        else:
            self._backoff.reset()
        self._opened = anyio.current_time()

    def reset(self) -> None:
        """Make the next pause a short one."""
        self._backoff.reset()


class Resumes:
    """Counts resumptions of the stream that answers one call."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._last: str | None = None
        self._vain_resumes = 0
        self._total = 0

    async def allowed(self, last_event: str | None) -> bool:
        """Return whether it may be resumed once more, when that is due."""
        self._total += 1
        if last_event != self._last:
            self._last, self._vain_resumes = last_event, 0
            self._pace.reset()
        self._vain_resumes += 1
        if self._vain_resumes > _MAX_VAIN_RESUMES or self._total > _MAX_RESUMES:
            return False
        await self._pace.wait()
        return True


class _PacedEvents(httpx2.AsyncByteStream):
    """The events of a server, read in small parts where they are many, and slowly where they are useless."""

    def __init__(self, stream: Any, pieces: AsyncIterable[bytes], dropped: DroppedMessages) -> None:
        self._stream, self._pieces, self._dropped = stream, pieces, dropped

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in split_dense_chunks(self._pieces):
            await self._dropped.pace()
            yield part
            lines = part.count(b"\n") or part.count(b"\r")
            self._dropped.note_lines(lines, messages=len(_DATA.findall(part)))

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


def pace_events(response: httpx2.Response, dropped: DroppedMessages) -> None:
    """Have the events of a response, if it has any, read in turn with everything else."""
    kind = response.headers.get("content-type", "").lower()
    if not kind.startswith("text/event-stream") or response.is_stream_consumed:
        return
    stream: Any = response.stream
    pieces: AsyncIterable[bytes] = stream
    if "content-encoding" in response.headers:  # a few packed bytes may be many lines
        packed = httpx2.Response(response.status_code, headers=response.headers, stream=stream)
        pieces = packed.aiter_bytes()
        del response.headers["content-encoding"]
    response.stream = _PacedEvents(stream, pieces, dropped)


class ShallowEvents(httpx2.AsyncByteStream):
    """The events that answer a listing, without the tools in them that are nested too deep."""

    def __init__(self, stream: Any, max_bytes: int) -> None:
        self._stream = stream
        self._lines = Lines(max_bytes=max_bytes)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            try:
                for line in self._lines.feed(piece):
                    yield self._make_shallow(line) + b"\n"
            except LineTooLongError as error:
                raise httpx2.SSEError(str(error)) from error
        yield b"".join(self._lines.feed(b"\n"))

    def _make_shallow(self, line: bytes) -> bytes:
        name, colon, data = line.partition(b":")
        return name + colon + with_shallow_tools(data) if name == b"data" and data.strip() else line

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()
