"""Answers of tools that change nothing, given again without asking again."""

import time
from collections.abc import Callable
from math import inf

import anyio

from toolcrib.execution.middleware.frozen import FrozenAnswer, digest, freeze
from toolcrib.execution.middleware.options import require
from toolcrib.execution.middleware.shelf import Shelf
from toolcrib.execution.protocols import Next
from toolcrib.execution.records import Answer, Call
from toolcrib.model.toolid import ToolId

__all__ = ["FROM_CACHE", "Cache"]

FROM_CACHE = "from the cache"
"""The note on an answer that no backend was asked for."""


class _Key:
    """What makes two calls the same; the whole definition counts, so that a changed one is another key."""

    __slots__ = ("_hash", "_same", "tool")

    def __init__(self, call: Call, args: bytes) -> None:
        self.tool = call.tool
        self._same = (args, call.caller, call.backend, call.tool)
        # The arguments alone tell most keys apart, and it takes longer to hash a tool than to look one up.
        self._hash = hash((args, call.caller, call.tool.name))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._same == other._same


class _Flight:
    """A call under way that others with the same key wait for."""

    __slots__ = ("answer", "landed", "over")

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.landed = False
        """Whether it came to an end by itself, and was not broken off."""
        self.answer: FrozenAnswer | None = None


class Cache:
    """Keeps the answers of read-only tools, per caller, for `ttl` seconds.

    Two calls are the same if caller, definition, backend and arguments are; `1`, `1.0` and `true` are not the
    same argument. Same calls at one time are made once, and the others wait for the answer: if it fails, they
    are made themselves; if it is broken off, the next one is made. Errors are never kept, nor is what is not
    plain JSON. Nobody shares a container with anybody, and an answer from here has the note `FROM_CACHE`, and
    tells no updates.
    """

    __slots__ = ("_clears", "_flights", "_shelf")

    def __init__(
        self,
        *,
        max_entries: int = 1000,
        max_bytes: int = 64 * 2**20,
        ttl: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require(
            "Cache",
            {"max_entries": (max_entries, 0, inf), "max_bytes": (max_bytes, 0, inf), "ttl": (ttl, 0, inf)},
        )
        self._shelf: Shelf[_Key, FrozenAnswer] = Shelf(
            max_entries=max_entries, max_bytes=max_bytes, ttl=ttl, clock=clock
        )
        self._flights: dict[_Key, _Flight] = {}
        self._clears = 0

    def __len__(self) -> int:
        """Return how many answers are kept."""
        return len(self._shelf)

    @property
    def size(self) -> int:
        """How many bytes of JSON are kept."""
        return self._shelf.size

    def clear(self, tool_id: str | ToolId | None = None) -> None:
        """Forget the answers of one tool, or all; those under way will not be kept either."""
        self._clears += 1
        if tool_id is None:
            self._shelf.clear()
            self._flights.clear()
            return
        wanted = str(tool_id)
        self._shelf.clear(lambda key: str(key.tool.id) == wanted)
        for key in [key for key in self._flights if str(key.tool.id) == wanted]:
            del self._flights[key]

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return a kept answer, that of the same call under way, or a fresh one."""
        if not call.read_only:
            return await go_on(call)
        args = digest(call.args)
        if args is None:
            return await go_on(call)
        key = _Key(call, args)
        while True:
            kept = self._shelf.get(key)
            if kept is not None:
                return kept.thaw(FROM_CACHE)
            flight = self._flights.get(key)
            if flight is None:
                return await self._lead(key, call, go_on)
            await flight.over.wait()
            if flight.answer is not None:
                return flight.answer.thaw(FROM_CACHE)
            if flight.landed:
                return await self._fetch(key, call, go_on)

    async def _lead(self, key: _Key, call: Call, go_on: Next) -> Answer:
        """Make a call that others wait for, unless a slow reader of its updates could hold them up."""
        if call.emit is not None:
            return await self._fetch(key, call, go_on)
        flight = self._flights[key] = _Flight()
        try:
            answer = await self._fetch(key, call, go_on, flight)
        except Exception:
            flight.landed = True
            raise
        finally:
            if self._flights.get(key) is flight:
                del self._flights[key]
            flight.over.set()
        return answer

    async def _fetch(self, key: _Key, call: Call, go_on: Next, flight: _Flight | None = None) -> Answer:
        """Make a call, and keep its answer if it can be kept and nothing was cleared meanwhile."""
        clears = self._clears
        answer = await go_on(call)
        frozen = freeze(answer)
        if flight is not None:
            flight.landed, flight.answer = True, frozen
        if frozen is not None and clears == self._clears:
            self._shelf.put(key, frozen, frozen.size)
        return answer
