"""Limits the number of parallel calls to a backend."""

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass, field
from math import inf

from anyio.lowlevel import current_token

from toolcrib.concurrency.fair_slots import FairSlots
from toolcrib.execution.call import Answer, Call
from toolcrib.execution.middleware.compose import Key, by_backend, check_options
from toolcrib.execution.principal import slot_owner
from toolcrib.execution.protocols import Next


class _BackendSlots:
    """The slots of one backend, and the number of calls that hold or wait for one."""

    __slots__ = ("calls", "loop", "slots")

    def __init__(self, limit: int, loop: object) -> None:
        self.loop = loop
        """The event loop of these calls; calls of a loop that has ended never release their slots."""
        self.slots = FairSlots(limit)
        self.calls = 0


@dataclass(frozen=True, slots=True, eq=False)
class ConcurrencyLimit:
    """Lets at most `limit` calls to a backend run in parallel; others wait, and principals take turns.

    If there are several slots, one principal, or all unauthenticated clients together, cannot take all of
    them. A tool that calls another one on the same backend, and waits for it, takes two slots.
    """

    limit: int
    """The number of parallel calls."""
    _: KW_ONLY
    key: Key = by_backend
    """Calls with equal keys share the slots."""
    _backends: dict[Hashable, _BackendSlots] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        check_options("ConcurrencyLimit", {"limit": (self.limit, 1, inf)}, whole={"limit"})

    def __len__(self) -> int:
        """Return the number of backends with running or waiting calls."""
        return len(self._backends)

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Wait for a slot, and make the call."""
        key, loop = self.key(call), current_token()
        backend = self._backends.get(key)
        if backend is None or backend.loop != loop:
            backend = self._backends[key] = _BackendSlots(self.limit, loop)
        backend.calls += 1
        try:
            async with backend.slots.hold(slot_owner(call.principal)):
                return await go_on(call)
        finally:
            backend.calls -= 1
            if not backend.calls and self._backends.get(key) is backend:
                del self._backends[key]
