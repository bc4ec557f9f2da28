"""Cache for the answers of read-only tools.

Two rules keep it correct:

- Invalidation: a call of any other tool may change its backend. So it drops the entries of that backend
before
  it begins (calls after it must not see the old state) and after it ends (reads during it may have seen
  either). Reads that are in progress at these moments are marked stale, and their answers are not stored.
- Isolation: entries are stored as JSON text and parsed for each caller, so no two callers share an object,
and
  the size of an entry is known. The principal is part of the key.

Equal calls at the same time are made once (`_Flight`). The caller that makes the call is the leader; if it is
cancelled, its call is cancelled too, and the next waiting caller becomes the leader.
"""

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
from toolcrib.execution.middleware.compose import by_backend, check_options
from toolcrib.execution.protocols import Next
from toolcrib.model.json_text import sorted_json
from toolcrib.model.plain import measure
from toolcrib.model.toolid import ToolId

FROM_CACHE = "from the cache"
"""The note on an answer from the cache."""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Key:
    """The key of a call: arguments, principal, backend and the whole definition of the tool."""

    __slots__ = ("_hash", "_same", "backend", "tool")

    def __init__(self, call: Call, args: bytes) -> None:
        self.tool = call.tool
        self.backend = _backend_key(call)
        self._same = (args, call.principal, call.backend, call.tool)
        # Arguments already distinguish most keys, and hashing a whole tool takes longer than the lookup.
        self._hash = hash((args, call.principal, call.tool.name))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._same == other._same


class _Flight:
    """A call in progress for which other callers with the same key wait."""

    __slots__ = ("answer", "completed", "ended", "loop")

    def __init__(self) -> None:
        self.loop = current_token()
        """Callers of another event loop do not wait: this one may stop before the call ends."""
        self.ended = anyio.Event()
        self.completed = False
        """Whether it ended by itself; False if it was cancelled."""
        self.answer: FrozenAnswer | None = None


class _Read:
    """A call in progress whose answer is stored, unless it is invalidated before."""

    __slots__ = ("fresh", "key")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.fresh = True


class Cache:
    """Caches the answers of read-only tools for `ttl` seconds, separately for each principal.

    A call of any other tool removes the entries of its backend, when it begins and when it ends. All local
    functions count as one backend.

    Two calls are equal if principal, definition, backend and arguments are equal; `1`, `1.0` and `true` are
    different arguments. Equal calls at the same time are made once, and the others wait for the answer: if it
    fails, each makes its own call; if it is cancelled, the next one makes it. Errors, values that are not
    plain JSON, and answers for which the client was asked for input are not cached. A cached answer has the
    note `FROM_CACHE`, and no updates.
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
        check_options(
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
        """The backends that may have entries, so that calls to others need no search."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._shelf)

    @property
    def size(self) -> int:
        """The size of all entries in bytes of JSON."""
        return self._shelf.size

    def clear(self, tool_id: str | ToolId | None = None) -> None:
        """Remove the entries of one tool, or all; calls in progress are not cached either."""
        wanted = None if tool_id is None else str(tool_id)
        self._remove(lambda key: wanted is None or str(key.tool.id) == wanted)

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return a cached answer, that of an equal call in progress, or a new one."""
        if not call.read_only:
            return await self._call_and_invalidate(call, go_on)
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
                return await self._fetch_for_waiters(key, call, go_on)
            await flight.ended.wait()
            if flight.answer is not None:
                return flight.answer.thaw(FROM_CACHE)
            if flight.completed:
                return await self._fetch(key, call, go_on)

    async def _fetch_for_waiters(self, key: _Key, call: Call, go_on: Next) -> Answer:
        """Make a call for which others wait.

        Others do not wait for a call with updates, since a slow reader of those would delay them.
        """
        if call.emit is not None:
            return await self._fetch(key, call, go_on)
        flight = self._flights[key] = _Flight()

        def release_waiters() -> None:
            """Let the others make their own calls, because this one now waits for input of its client."""
            flight.completed = True
            flight.ended.set()
            if self._flights.get(key) is flight:
                del self._flights[key]

        try:
            answer = await self._fetch(key, replace(call, on_asked=release_waiters), go_on, flight)
        except Exception:
            flight.completed = True
            raise
        finally:
            if self._flights.get(key) is flight:
                del self._flights[key]
            flight.ended.set()
        return answer

    async def _fetch(self, key: _Key, call: Call, go_on: Next, flight: _Flight | None = None) -> Answer:
        """Make a call, and store its answer if it can be cached and was not invalidated."""
        read = _Read(key)
        self._reads.add(read)
        self._known.add(key.backend)
        try:
            answer = await go_on(call)
        finally:
            self._reads.discard(read)
        frozen = freeze(answer)
        if flight is not None:
            flight.completed, flight.answer = True, frozen
        if frozen is not None and read.fresh:
            self._shelf.put(key, frozen, frozen.size)
        return answer

    async def _call_and_invalidate(self, call: Call, go_on: Next) -> Answer:
        """Make a call that may change its backend, also if it fails."""
        backend = _backend_key(call)
        self._remove_backend(backend)
        try:
            return await go_on(call)
        finally:
            self._remove_backend(backend)

    def _remove_backend(self, backend: str) -> None:
        if backend in self._known:
            self._known.discard(backend)
            self._remove(lambda key: key.backend == backend)

    def _remove(self, drops: Callable[[_Key], bool]) -> None:
        self._shelf.clear(drops)
        for key in [key for key in self._flights if drops(key)]:
            del self._flights[key]
        for read in self._reads:
            read.fresh = read.fresh and not drops(read.key)


def _backend_key(call: Call) -> str:
    """Return the unit of invalidation of a call: one server, one API, or this process."""
    return "local" if call.backend.kind == "local" else by_backend(call)


def digest(args: Any) -> bytes | None:
    """Return a digest that is the same for equal arguments; None if they are not plain JSON.

    The order of keys makes no difference; the types of numbers do.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}), digest({"a": 1}) == digest({"a": 1.0})
    (True, False)
    """
    if not _is_json(args):
        return None
    return blake2b(sorted_json(args).encode(), digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class FrozenAnswer:
    """An answer as JSON text."""

    structured: bytes
    mcp_result: bytes | None
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.structured) + len(self.mcp_result or b"")

    def thaw(self, note: str) -> Answer:
        """Return a new copy of the answer, with a note."""
        return Answer(
            structured=from_json(self.structured),
            mcp_result=None if self.mcp_result is None else from_json(self.mcp_result),
            notes=(*self.notes, note),
        )


def freeze(answer: Answer) -> FrozenAnswer | None:
    """Return an answer as JSON text; None if it is not plain JSON, or belongs to one client."""
    if answer.is_personal or not _is_json(answer.structured) or not _is_json(answer.mcp_result):
        return None
    raw = None if answer.mcp_result is None else to_json(answer.mcp_result)
    return FrozenAnswer(to_json(answer.structured), raw, answer.notes)


def _is_json(value: Any) -> bool:
    """Return whether a value is plain JSON within the limits of size and depth."""
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
    """Stores at most `max_entries` values of together at most `max_bytes`, each for `ttl` seconds.

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
        """The size of all values."""
        return self._kept.weight

    def get(self, key: K) -> V | None:
        """Return the value of a key, if it has not expired."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if self._clock() >= kept.until:
            self._kept.pop(key)
            return None
        return kept.value

    def put(self, key: K, value: V, size: int) -> None:
        """Store a value, unless it is larger than `max_bytes`."""
        self._kept.put(key, _Kept(value, self._clock() + self._ttl), weight=size)

    def clear(self, drops: Callable[[K], bool] | None = None) -> None:
        """Remove the keys for which `drops` is true, or all."""
        self._kept.clear(drops)
