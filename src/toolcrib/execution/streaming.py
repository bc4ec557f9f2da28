"""The events of a streamed call."""

from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from toolcrib.concurrency.background import Background
from toolcrib.errors import ToolcribError, explain
from toolcrib.execution.call import Emit, StreamEvent, Update
from toolcrib.model.results import RunResult

_MAX_UNREAD_UPDATES = 16
"""A tool waits when the reader is this many updates behind."""


async def stream_events(
    ref: str, tool_id: Callable[[], str], run: Callable[[Emit], Awaitable[RunResult]]
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the updates of a run as they come, then one `done` or one `error`.

    `ref` is the reference of the caller; `tool_id` returns the id of the tool once it is known. The run
    starts when the first event is requested, waits while its updates are not read, and is cancelled when the
    generator is closed.
    """
    send, receive = anyio.create_memory_object_stream[Update](_MAX_UNREAD_UPDATES)
    ending = _Ending()
    # a task of its own: a task group must not stay open across the `yield` of a generator
    task = Background(lambda: _run_to_end(run, send, ending))
    try:
        async for update in receive:
            found = tool_id()
            named = None if ref == found else ref
            yield StreamEvent.from_valid(kind=update.kind, tool_id=found, ref=named, data=update.data)
        found = tool_id()
        yield ending.event(found, None if ref == found else ref)
    finally:
        receive.close()
        await task.stop()


class _Ending:
    """The end of a run: a result, an error of the call, or a failure that the reader has to raise."""

    result: RunResult | None = None
    error: ToolcribError | None = None
    failure: BaseException | None = None

    def event(self, tool_id: str, ref: str | None) -> StreamEvent:
        if self.failure is not None:
            raise self.failure
        if self.error is not None:
            return StreamEvent.from_valid(
                kind="error", tool_id=tool_id, ref=ref, data=explain(self.error), error=self.error
            )
        result = self.result
        value, backend = (None, None) if result is None else (result.structured, result.backend)
        return StreamEvent.from_valid(kind="done", tool_id=tool_id, ref=ref, data=value, backend=backend)


async def _run_to_end(
    run: Callable[[Emit], Awaitable[RunResult]], send: MemoryObjectSendStream[Update], ending: _Ending
) -> None:
    try:
        ending.result = await run(send.send)
    except ToolcribError as error:
        ending.error = error
    except anyio.get_cancelled_exc_class() as error:
        ending.failure = error
        raise
    except BaseException as error:  # noqa: BLE001 - a bug or an interrupt, raised in the reader
        ending.failure = error
    finally:
        send.close()
