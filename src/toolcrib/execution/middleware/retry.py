"""Retries calls, if that is safe."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from math import inf

import anyio

from toolcrib.concurrency.backoff import Backoff
from toolcrib.errors import BackendUnavailableError, ToolLoginRequiredError
from toolcrib.execution.call import Answer, Call, Emit, Update
from toolcrib.execution.middleware.compose import check_options
from toolcrib.execution.protocols import Next


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retries when a backend is unavailable, with exponential backoff.

    A call is retried only if it certainly never arrived or its tool is idempotent, and never after a part of
    its result was sent. If the pause would end after the deadline of the caller, the error is raised at once.
    """

    attempts: int = 3
    """The number of tries."""
    first_delay: float = 0.2
    """Seconds before the second try."""
    factor: float = 2.0
    """The factor by which each pause is longer than the last."""
    max_delay: float = 5.0
    """The longest pause in seconds."""
    jitter: float = 0.5
    """The random part of a pause, so that many callers do not retry at the same moment."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    """Waits for the given number of seconds."""
    chance: Callable[[], float] = random.random
    """Returns a number in [0, 1), for the jitter."""

    def __post_init__(self) -> None:
        check_options(
            "Retry",
            {
                "attempts": (self.attempts, 1, inf),
                "first_delay": (self.first_delay, 0, inf),
                "factor": (self.factor, 1, inf),
                "max_delay": (self.max_delay, 0, inf),
                "jitter": (self.jitter, 0, 1),
            },
            whole={"attempts"},
        )

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return the answer of the first successful try."""
        watched = None if call.emit is None else _WatchedEmit(call.emit)
        if watched is not None:
            call = replace(call, emit=watched)
        backoff = Backoff(
            self.first_delay, self.max_delay, factor=self.factor, jitter=self.jitter, chance=self.chance
        )
        tried = 1
        while True:
            try:
                return _add_note(await go_on(call), tried)
            except BackendUnavailableError as error:
                pause = backoff.next()
                last = tried == self.attempts or (watched is not None and watched.has_chunk)
                harms = error.sent and not call.repeatable
                is_useless = isinstance(error, ToolLoginRequiredError)
                if last or harms or is_useless or pause >= _time_left():
                    if tried > 1:
                        error.add_note(f"tried {tried} times")
                    raise
            await self.sleep(pause)
            tried += 1


class _WatchedEmit:
    """Forwards updates, and remembers whether a part of the result was among them."""

    __slots__ = ("emit", "has_chunk")

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.has_chunk = False

    async def __call__(self, update: Update) -> None:
        self.has_chunk = self.has_chunk or update.kind == "chunk"
        await self.emit(update)


def _time_left() -> float:
    return anyio.current_effective_deadline() - anyio.current_time()


def _add_note(answer: Answer, tries: int) -> Answer:
    return answer if tries == 1 else replace(answer, notes=(*answer.notes, f"answered on attempt {tries}"))
