"""Answers of tools that change nothing, given again without asking again."""

import time
from collections.abc import Callable
from math import inf

import anyio
from anyio.lowlevel import current_token

from toolcrib.execution.middleware.frozen import FrozenAnswer, digest, freeze
from toolcrib.execution.middleware.keys import by_backend
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

    __slots__ = ("_hash", "_same", "backend", "tool")

    def __init__(self, call: Call, args: bytes) -> None:
        self.tool = call.tool
        self.backend = _place(call)
        self._same = (args, call.caller, call.backend, call.tool)
        # The arguments alone tell most keys apart, and it takes longer to hash a tool than to look one up.
        self._hash = hash((args, call.caller, call.tool.name))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._same == other._same


class _Flight:
    """A call under way that others with the same key wait for."""

    __slots__ = ("answer", "landed", "loop", "over")

    def __init__(self) -> None:
        self.loop = current_token()
        """Nobody waits for a call of another event loop: it may never come to an end."""
        self.over = anyio.Event()
        self.landed = False
        """Whether it came to an end by itself, and was not broken off."""
        self.answer: FrozenAnswer | None = None


class _Read:
    """A call under way whose answer is kept, unless it is out of date before it comes."""

    __slots__ = ("fresh", "key")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.fresh = True


class Cache:
    """Keeps the answers of read-only tools, per caller, for `ttl` seconds.

    A call of any other tool drops what is kept of its backend, when it begins and again when it ends; what is
    read meanwhile is not kept. All local functions are one backend here.

    Two calls are the same if caller, definition, backend and arguments are; `1`, `1.0` and `true` are not the
    same argument. Same calls at one time are made once, and the others wait for the answer: if it fails, they
    are made themselves; if it is broken off, the next one is made. Errors are never kept, nor is what is not
    plain JSON. Nobody shares a container with anybody, and an answer from here has the note `FROM_CACHE`, and
    tells no updates.
    """

    __slots__ = ("_flights", "_known", "_reads", "_shelf")

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
            whole={"max_entries", "max_bytes"},
            endless={"ttl"},
        )
        self._shelf: Shelf[_Key, FrozenAnswer] = Shelf(
            max_entries=max_entries, max_bytes=max_bytes, ttl=ttl, clock=clock
        )
        self._flights: dict[_Key, _Flight] = {}
        self._reads: set[_Read] = set()
        self._known: set[str] = set()
        """The backends that something may be kept of; all others need not be looked for."""

    def __len__(self) -> int:
        """Return how many answers are kept."""
        return len(self._shelf)

    @property
    def size(self) -> int:
        """How many bytes of JSON are kept."""
        return self._shelf.size

    def clear(self, tool_id: str | ToolId | None = None) -> None:
        """Forget the answers of one tool, or all; those under way will not be kept either."""
        wanted = None if tool_id is None else str(tool_id)
        self._forget(lambda key: wanted is None or str(key.tool.id) == wanted)

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return a kept answer, that of the same call under way, or a fresh one."""
        if not call.read_only:
            return await self._change(call, go_on)
        args = digest(call.args)
        if args is None:
            return await go_on(call)
        key = _Key(call, args)
        while True:
            kept = self._shelf.get(key)
            if kept is not None:
                return kept.thaw(FROM_CACHE)
            flight = self._flights.get(key)
            if flight is None or flight.loop != current_token():
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
        """Make a call, and keep its answer if it can be kept and was not forgotten meanwhile."""
        read = _Read(key)
        self._reads.add(read)
        self._known.add(key.backend)
        try:
            answer = await go_on(call)
        finally:
            self._reads.discard(read)
        frozen = freeze(answer)
        if flight is not None:
            flight.landed, flight.answer = True, frozen
        if frozen is not None and read.fresh:
            self._shelf.put(key, frozen, frozen.size)
        return answer

    async def _change(self, call: Call, go_on: Next) -> Answer:
        """Make a call after which nothing may be as it was on its backend, also where it fails."""
        backend = _place(call)
        self._forget_backend(backend)
        try:
            return await go_on(call)
        finally:
            self._forget_backend(backend)

    def _forget_backend(self, backend: str) -> None:
        if backend in self._known:
            self._known.discard(backend)
            self._forget(lambda key: key.backend == backend)

    def _forget(self, drops: Callable[[_Key], bool]) -> None:
        self._shelf.clear(drops)
        for key in [key for key in self._flights if drops(key)]:
            del self._flights[key]
        for read in self._reads:
            read.fresh = read.fresh and not drops(read.key)


def _place(call: Call) -> str:
    """Return what a call may change, or reads: one server, one API, or this process."""
    return "local" if call.backend.kind == "local" else by_backend(call)
