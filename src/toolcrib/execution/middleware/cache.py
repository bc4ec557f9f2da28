"""Answers of tools that change nothing, given again without asking again."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import inf
from typing import Any, Generic, TypeVar

import anyio
from anyio.lowlevel import current_token
from pydantic_core import from_json, to_json

from toolcrib.concurrency.lru import LruCache
from toolcrib.errors import ValidationError
from toolcrib.execution.call import Answer, Call
from toolcrib.execution.middleware.compose import by_backend, require
from toolcrib.execution.protocols import Next
from toolcrib.model.json_text import sorted_json
from toolcrib.model.plain import measure
from toolcrib.model.toolid import ToolId

FROM_CACHE = "from the cache"
"""The note on an answer that no backend was asked for."""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Key:
    """What makes two calls the same; the whole definition counts, so that a changed one is another key."""

    __slots__ = ("_hash", "_same", "backend", "tool")

    def __init__(self, call: Call, args: bytes) -> None:
        self.tool = call.tool
        self.backend = _place(call)
        self._same = (args, call.principal, call.backend, call.tool)
        # The arguments alone tell most keys apart, and it takes longer to hash a tool than to look one up.
        self._hash = hash((args, call.principal, call.tool.name))

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
    """Keeps the answers of read-only tools, per principal, for `ttl` seconds.

    A call of any other tool drops what is kept of its backend, when it begins and again when it ends; what is
    read meanwhile is not kept. All local functions are one backend here.

    Two calls are the same if principal, definition, backend and arguments are; `1`, `1.0` and `true` are not
    the same argument. Same calls at one time are made once, and the others wait for the answer: if it fails,
    they are made themselves; if it is broken off, the next one is made. Errors are never kept, nor is what is
    not plain JSON, nor an answer for which the client was asked something. Nobody shares a container with
    anybody, and an answer from here has the note `FROM_CACHE`, and tells no updates.
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

        def part() -> None:
            """Have the others make their calls themselves: this one waits for a client of its own."""
            flight.landed = True
            flight.over.set()
            if self._flights.get(key) is flight:
                del self._flights[key]

        try:
            answer = await self._fetch(key, replace(call, on_asked=part), go_on, flight)
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


def digest(args: Any) -> bytes | None:
    """Return what equal arguments have in common, or None if they are not plain JSON.

    The order of keys makes no difference; the types of numbers do.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}), digest({"a": 1}) == digest({"a": 1.0})
    (True, False)
    """
    if not _is_json(args):
        return None
    return blake2b(sorted_json(args).encode(), digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class FrozenAnswer:
    """An answer kept as JSON text, so that no two callers share an object and its size is known."""

    structured: bytes
    mcp_result: bytes | None
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Return how many bytes are kept."""
        return len(self.structured) + len(self.mcp_result or b"")

    def thaw(self, note: str) -> Answer:
        """Return the answer anew, with a note on where it comes from."""
        return Answer(
            structured=from_json(self.structured),
            mcp_result=None if self.mcp_result is None else from_json(self.mcp_result),
            notes=(*self.notes, note),
        )


def freeze(answer: Answer) -> FrozenAnswer | None:
    """Return an answer as it can be kept, or None if it is not plain JSON, or one client's own."""
    if answer.is_personal or not _is_json(answer.structured) or not _is_json(answer.mcp_result):
        return None
    raw = None if answer.mcp_result is None else to_json(answer.mcp_result)
    return FrozenAnswer(to_json(answer.structured), raw, answer.notes)


def _is_json(value: Any) -> bool:
    """Return whether a value is plain JSON, and not too large or deep to be handled."""
    try:
        measure(value)
    except ValidationError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Kept(Generic[V]):
    value: V
    until: float


class Shelf(Generic[K, V]):
    """Keeps at most `max_entries` values of at most `max_bytes` in all, each for `ttl` seconds.

    >>> shelf = Shelf(max_entries=2, max_bytes=100, ttl=60, clock=lambda: 0.0)
    >>> for name in "abc":
    ...     shelf.put(name, name.upper(), size=10)
    >>> shelf.get("a"), shelf.get("c"), len(shelf), shelf.size
    (None, 'C', 2, 20)
    """

    __slots__ = ("_clock", "_kept", "_ttl")

    def __init__(self, *, max_entries: int, max_bytes: int, ttl: float, clock: Callable[[], float]) -> None:
        self._ttl = ttl
        self._clock = clock
        self._kept: LruCache[K, _Kept[V]] = LruCache(max_entries, max_weight=max_bytes)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """The bytes of all values together."""
        return self._kept.weight

    def get(self, key: K) -> V | None:
        """Return the value kept under a key, if its time is not over."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if self._clock() >= kept.until:
            self._kept.pop(key)
            return None
        return kept.value

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value, unless it is larger than all that may be kept."""
        self._kept.put(key, _Kept(value, self._clock() + self._ttl), weight=size)

    def clear(self, drops: Callable[[K], bool] | None = None) -> None:
        """Forget the keys that `drops` is true of, or all."""
        self._kept.clear(drops)
