"""Progress and log messages of a running request, buffered for its listener."""

import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

from toolcrib.execution.call import Emit, Update

_Result = TypeVar("_Result")
_ROOM = 64
"""Updates buffered for a slow listener; beyond that, the oldest are dropped."""


class Updates:
    """The buffered updates of one call.

    The reader of the connection must not wait for one listener, since it serves other calls too: it adds
    updates here, and the listener takes them at its own pace. A slow listener loses the oldest ones. Only the
    latest progress matters, and memory stays bounded.
    """

    def __init__(self) -> None:
        self._waiting: deque[Update] = deque(maxlen=_ROOM)
        self._wake = anyio.Event()
        self._over = False

    def put(self, update: Update) -> None:
        """Add an update, unless the call has ended."""
        if not self._over:
            self._waiting.append(update)
            self._wake.set()

    async def put_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Add the update of a progress notification."""
        self.put(progress_update(progress, total, message))

    async def relay(self, emit: Emit, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Run the work and return its result; deliver its updates meanwhile, all of them before the return.

        Raises:
            Exception: from the work, or from the listener, which cancels the work.
        """
        outcome: list[_Result] = []
        failures: list[Exception] = []

        async def deliver() -> None:
            try:
                await self._pass_on(emit)
            except Exception as error:  # noqa: BLE001 - the listener is user code; raised below
                failures.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deliver)
            try:
                outcome.append(await work())
            except Exception as error:  # noqa: BLE001 - raised below, outside of the group that would wrap it
                failures.append(error)
            self._over = True
            self._wake.set()
        if failures:
            raise failures[0]
        return outcome[0]

    async def _pass_on(self, emit: Emit) -> None:
        while True:
            while self._waiting:
                await emit(self._waiting.popleft())
            if self._over:
                return
            self._wake = anyio.Event()
            await self._wake.wait()


def progress_update(progress: float, total: float | None, message: str | None) -> Update:
    """Return the update for a progress notification.

    >>> progress_update(1.0, 4.0, None).data
    {'progress': 1.0, 'total': 4.0}
    """
    payload = {"progress": progress, "total": total, "message": message}
    return Update(kind="progress", data={key: value for key, value in payload.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUpdate(Update):
    """A log message; as progress it has a text and a level."""

    params: dict[str, Any]
    """The parameters of the notification, unchanged."""


def log_update(params: dict[str, Any]) -> LogUpdate:
    """Return the update for a log notification, whose data may be any JSON.

    >>> log_update({"level": "info", "data": {"msg": "half way", "extra": None}}).data
    {'message': 'half way', 'level': 'info'}
    """
    value = data = params.get("data")
    if isinstance(data, dict):
        texts = (data.get(key) for key in ("message", "msg"))
        value = next((text for text in texts if isinstance(text, str)), data)
    message = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return LogUpdate(kind="progress", data={"message": message, "level": params.get("level")}, params=params)
