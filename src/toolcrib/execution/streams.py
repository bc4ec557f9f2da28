"""A running tool as a stream of events."""

from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from toolcrib.concurrency.background import Background
from toolcrib.errors import ToolcribError, explain
from toolcrib.execution.records import Emit, StreamEvent, Update
from toolcrib.model.results import RunResult

__all__ = ["stream_events"]

_BUFFER = 16
"""How many updates a tool may be ahead of whoever reads them; at the next it waits."""


async def stream_events(
    tool_id: str, run: Callable[[Emit], Awaitable[RunResult]]
) -> AsyncGenerator[StreamEvent, None]:
    """Yield what a run tells, as it is told, and then how it ended, in one `done` or one `error`.

    The run starts with the first event asked for, waits while nobody takes what it told, and is cancelled
    when the stream is left.
    """
    send, receive = anyio.create_memory_object_stream[Update](_BUFFER)
    ending = _Ending()
    task = Background(lambda: _follow(run, send, ending))
    try:
        async for update in receive:
            yield StreamEvent.of_checked(kind=update.kind, tool_id=tool_id, data=update.data)
        yield ending.event(tool_id)
    finally:
        receive.close()
        await task.stop()


class _Ending:
    """How a run ended: with a result, with an error, or, where it says neither, with neither."""

    result: RunResult | None = None
    error: ToolcribError | None = None
    failure: BaseException | None = None

    def event(self, tool_id: str) -> StreamEvent:
        if self.failure is not None:
            raise self.failure
        if self.error is not None:
            return StreamEvent.of_checked(
                kind="error", tool_id=tool_id, data=explain(self.error), error=self.error
            )
        result = self.result
        value, backend = (None, None) if result is None else (result.structured, result.backend)
        return StreamEvent.of_checked(kind="done", tool_id=tool_id, data=value, backend=backend)


async def _follow(
    run: Callable[[Emit], Awaitable[RunResult]], send: MemoryObjectSendStream[Update], ending: _Ending
) -> None:
    try:
        ending.result = await run(send.send)
    except ToolcribError as error:
        ending.error = error
    except anyio.get_cancelled_exc_class() as error:
        ending.failure = error
        raise
    except BaseException as error:  # noqa: BLE001 - a mistake of ours, or an interrupt: the reader raises it
        ending.failure = error
    finally:
        send.close()
