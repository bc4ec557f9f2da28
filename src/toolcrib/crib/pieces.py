"""The journal of one piece of a durable run that code runs in: it makes no call, and says which come next."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio

from toolcrib.runs.journal import Answered, RunJournal


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A call that comes next."""

    key: str
    tool_id: str
    """The reference in the call."""
    args: dict[str, Any]
    within: float | None = None
    """Its timeout."""


@dataclass(slots=True)
class PieceJournal:
    """Answers calls from the journal of the run; all others wait, and are `wanted`.

    `ready` is set when the sandbox waits for calls that have no answer, and for nothing else.
    """

    journal: RunJournal
    wanted: dict[str, WantedCall] = field(default_factory=dict)
    ready: anyio.Event = field(default_factory=anyio.Event)
    _awaited: frozenset[str] = frozenset()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.journal.run_id

    @property
    def state(self) -> bytes | None:
        """The state of the sandbox to resume from; None at the beginning."""
        return self.journal.state

    @property
    def dump_interval(self) -> float:
        """Zero: the sandbox is left at each call, so its state is stored with each."""
        return 0.0

    def answered_calls(self) -> Iterable[Answered]:
        """Return the recorded calls, in the order in which they were begun."""
        return self.journal.answered_calls()

    def suspend(self, state: bytes) -> None:
        """Set the state to resume from, which is stored with the next call."""
        self.journal.suspend(state)

    def note_waiting(self, keys: Iterable[str]) -> None:
        """Take note of the calls that the sandbox waits for; a chain is one of them, with several steps."""
        self._awaited = frozenset(keys)
        self._check_ready()

    async def call(
        self,
        key: str,
        tool_id: str,
        args: dict[str, Any],
        make: Callable[[], Awaitable[Any]],  # noqa: ARG002 - a worker makes it in another piece
        within: float | None = None,
    ) -> Any:
        """Return or raise the recorded outcome of a call; wait for ever if there is none."""
        if (before := self.journal.find_answer(key, tool_id, args)) is not None:
            return before.replay()
        self.wanted[key] = WantedCall(key, tool_id, args, within)
        self._check_ready()
        await anyio.sleep_forever()
        return None

    def _check_ready(self) -> None:
        blocked = {key.partition("/")[0] for key in self.wanted}
        if self._awaited and self._awaited <= blocked:
            self.ready.set()
