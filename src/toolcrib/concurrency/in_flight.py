"""Counts in-flight calls so that shutdown can wait for them."""

import anyio


class InFlight:
    """Counts the tasks inside its `with` block.

    >>> in_flight = InFlight()
    >>> with in_flight:
    ...     len(in_flight)
    1
    """

    def __init__(self) -> None:
        self._count = 0
        self._none: anyio.Event | None = None
        """Set when the count reaches zero; exists only while a task waits for that."""

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if self._count == 0 and self._none is not None:
            self._none.set()
            self._none = None

    async def wait_until_none(self, within: float) -> None:
        """Wait until no call is in flight, for at most `within` seconds."""
        with anyio.move_on_after(within):
            while self._count:  # a call may begin between the event and this task
                self._none = self._none or anyio.Event()
                await self._none.wait()
