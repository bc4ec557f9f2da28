"""Progress and log messages of a running call, on their way to whoever listens."""

import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from toolcrib.execution.records import Emit, Update

__all__ = ["Updates", "log_update", "progress_update"]

_Result = TypeVar("_Result")

_ROOM = 64
"""How many updates wait for a slow listener; of more, the oldest are dropped."""


class Updates:
    """The updates of one call that its listener has not yet taken.

    The connection's reader puts them here and never waits, since it serves other calls too; the listener
    takes them at its own pace. One that is slower than the server loses the oldest, because of progress only
    the latest counts, and memory stays bounded.
    """

    def __init__(self) -> None:
        self._waiting: deque[Update] = deque(maxlen=_ROOM)
        self._stirred = anyio.Event()
        self._over = False

    def put(self, update: Update) -> None:
        """Add an update; once the call is over, nothing is added any more."""
        if not self._over:
            self._waiting.append(update)
            self._stirred.set()

    async def put_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Add what a progress notification says."""
        self.put(progress_update(progress, total, message))

    async def relay(self, emit: Emit, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Return what the work gives, and pass updates on while it runs, all of them before this returns.

        Raises:
            Exception: what the work raised, or what the listener did, in which case the work is cancelled.
        """
        outcome: list[_Result] = []
        failures: list[Exception] = []

        async def deliver() -> None:
            try:
                await self._pass_on(emit)
            except Exception as error:  # noqa: BLE001 - the listener is the caller's code: it is raised below
                failures.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deliver)
            try:
                outcome.append(await work())
            except Exception as error:  # noqa: BLE001 - raised below, outside of the group that would wrap it
                failures.append(error)
            self._over = True
            self._stirred.set()
        if failures:
            raise failures[0]
        return outcome[0]

    async def _pass_on(self, emit: Emit) -> None:
        while True:
            while self._waiting:
                await emit(self._waiting.popleft())
            if self._over:
                return
            self._stirred = anyio.Event()
            await self._stirred.wait()


def progress_update(progress: float, total: float | None, message: str | None) -> Update:
    """Return the update for a progress notification.

    >>> progress_update(1.0, 4.0, None).data
    {'progress': 1.0, 'total': 4.0}
    """
    payload = {"progress": progress, "total": total, "message": message}
    return Update(kind="progress", data={key: value for key, value in payload.items() if value is not None})


def log_update(data: Any, level: str) -> Update:
    """Return the update for a log notification, whose data may be anything.

    >>> log_update({"msg": "half way", "extra": None}, "info").data
    {'message': 'half way', 'level': 'info'}
    """
    value = data
    if isinstance(data, dict):
        texts = (data.get(key) for key in ("message", "msg"))
        value = next((text for text in texts if isinstance(text, str)), data)
    message = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return Update(kind="progress", data={"message": message, "level": level})
