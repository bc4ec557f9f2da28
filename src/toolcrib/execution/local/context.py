"""The running call, as a handler sees it."""

from collections.abc import Awaitable, Generator
from concurrent.futures import Future
from typing import get_args

from toolcrib.errors.base import either
from toolcrib.execution.background import Loop
from toolcrib.execution.records import Call, Emit, Update
from toolcrib.model.context import Context, LogLevel

__all__ = ["RunningCall"]

_LEVELS: tuple[str, ...] = get_args(LogLevel)


class _Told:
    """An awaitable that has happened already."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class RunningCall(Context):
    """The context of one call; what is told after the call has ended goes nowhere."""

    def __init__(self, call: Call) -> None:
        self.tool_id = call.tool_id
        self.caller = call.caller
        self._emit: Emit | None = call.emit
        self._loop = None if call.emit is None else Loop()
        self._cancelled = False
        self._telling: Future[None] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self._cancelled

    @property
    def is_heard(self) -> bool:
        """Whether somebody listens."""
        return self._emit is not None

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Tell how far the work has come.

        Raises:
            TypeError: it is no number.
        """
        for number in (progress, total):
            if number is not None and not isinstance(number, int | float):
                raise TypeError(f"progress must be a number, not {number!r}")
        said = {"progress": progress, "total": total, "message": message}
        return self.tell(
            Update(kind="progress", data={key: value for key, value in said.items() if value is not None})
        )

    def log(self, message: str, level: LogLevel = "info") -> Awaitable[None]:
        """Tell something to whoever watches the call.

        Raises:
            ValueError: there is no such level.
        """
        if level not in _LEVELS:
            raise ValueError(
                f"there is no level {level!r}; write log(message, level), with {either(_LEVELS)}"
            )
        return self.tell(Update(kind="progress", data={"message": message, "level": level}))

    def tell(self, update: Update) -> Awaitable[None]:
        """Pass an update on: from a thread at once, from a coroutine when it is awaited."""
        if self._emit is None or self._loop is None:
            return _Told()
        if self._loop.is_here:
            return self._pass_on(update)
        future = self._telling = self._loop.start(lambda: self._pass_on(update))
        if future is not None:
            if self._emit is None:  # the call ended before there was anything to cancel
                future.cancel()
            self._loop.wait_for(future)
        return _Told()

    async def _pass_on(self, update: Update) -> None:
        emit = self._emit  # asked in the loop, where the call ends too
        if emit is not None:
            await emit(update)

    def end(self, *, cancelled: bool) -> None:
        """Let nothing more through."""
        self._cancelled = self._cancelled or cancelled
        self._emit = None
        if self._telling is not None:
            self._telling.cancel()
