"""Another try, where that can do no harm."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from math import inf

import anyio

from toolcrib.concurrency.backoff import Backoff
from toolcrib.errors import BackendUnavailableError, ToolLoginRequiredError
from toolcrib.execution.call import Answer, Call, Emit, Update
from toolcrib.execution.middleware.compose import require
from toolcrib.execution.protocols import Next


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Tries again when a backend is unavailable, after pauses that grow.

    A call is repeated only if it certainly never arrived, or if its tool says that running it twice does no
    more than running it once, and never after a part of its result has been sent. A pause that would not end
    before the deadline of the caller is not begun: the error is raised at once.
    """

    attempts: int = 3
    """How many tries there are in all."""
    first_delay: float = 0.2
    """Seconds before the second try."""
    factor: float = 2.0
    """How many times longer each pause is than the one before."""
    max_delay: float = 5.0
    """Seconds that no pause is longer than."""
    jitter: float = 0.5
    """The part of a pause that is left to chance, so that many callers do not come back together."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    """Waits so many seconds."""
    chance: Callable[[], float] = random.random
    """Returns a number in [0, 1), for the jitter."""

    def __post_init__(self) -> None:
        require(
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
        """Return the first answer of several tries."""
        watched = None if call.emit is None else _Told(call.emit)
        if watched is not None:
            call = replace(call, emit=watched)
        backoff = Backoff(
            self.first_delay, self.max_delay, factor=self.factor, jitter=self.jitter, chance=self.chance
        )
        tried = 1
        while True:
            try:
                return _noted(await go_on(call), tried)
            except BackendUnavailableError as error:
                pause = backoff.next()
                last = tried == self.attempts or (watched is not None and watched.part)
                harms = error.sent and not call.repeatable
                is_useless = isinstance(error, ToolLoginRequiredError)
                if last or harms or is_useless or pause >= _time_left():
                    if tried > 1:
                        error.add_note(f"tried {tried} times")
                    raise
            await self.sleep(pause)
            tried += 1


class _Told:
    """Passes updates on, and remembers whether a part of the result was among them."""

    __slots__ = ("emit", "part")

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.part = False

    async def __call__(self, update: Update) -> None:
        self.part = self.part or update.kind == "chunk"
        await self.emit(update)


def _time_left() -> float:
    return anyio.current_effective_deadline() - anyio.current_time()


def _noted(answer: Answer, tries: int) -> Answer:
    return answer if tries == 1 else replace(answer, notes=(*answer.notes, f"answered at try {tries}"))
