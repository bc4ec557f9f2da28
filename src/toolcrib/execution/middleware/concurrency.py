"""At most so many calls to one backend at a time."""

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass, field
from math import inf

from anyio.lowlevel import current_token

from toolcrib.concurrency.fair_slots import FairSlots
from toolcrib.execution.call import Answer, Call
from toolcrib.execution.middleware.compose import Key, by_backend, require
from toolcrib.execution.principal import slot_owner
from toolcrib.execution.protocols import Next


class _Room:
    """The places of one backend, and how many calls are in them or wait for one."""

    __slots__ = ("loop", "places", "visitors")

    def __init__(self, limit: int, loop: object) -> None:
        self.loop = loop
        """The event loop of its visitors; those of another are gone, with or without having left."""
        self.places = FairSlots(limit)
        self.visitors = 0


@dataclass(frozen=True, slots=True, eq=False)
class ConcurrencyLimit:
    """Lets at most `limit` calls to a backend run at once; the others wait, and principals take turns.

    A principal, or all clients that nobody vouches for together, cannot take all places of several. A tool
    that calls another on the same backend, and waits for it, takes two places.
    """

    limit: int
    """How many calls run at once."""
    _: KW_ONLY
    key: Key = by_backend
    """Which calls share the places."""
    _rooms: dict[Hashable, _Room] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        require("ConcurrencyLimit", {"limit": (self.limit, 1, inf)}, whole={"limit"})

    def __len__(self) -> int:
        """Return how many backends have calls running or waiting."""
        return len(self._rooms)

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return the answer to a call that had a place."""
        key, loop = self.key(call), current_token()
        room = self._rooms.get(key)
        if room is None or room.loop != loop:
            room = self._rooms[key] = _Room(self.limit, loop)
        room.visitors += 1
        try:
            async with room.places.hold(slot_owner(call.principal)):
                return await go_on(call)
        finally:
            room.visitors -= 1
            if not room.visitors and self._rooms.get(key) is room:
                del self._rooms[key]
