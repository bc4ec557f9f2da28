"""What is under way at a server or an API, so that one that is to go can wait until nothing is."""

import anyio

__all__ = ["Visits"]


class Visits:
    """Counts those within its `with` blocks.

    >>> visits = Visits()
    >>> with visits:
    ...     len(visits)
    1
    """

    def __init__(self) -> None:
        self._count = 0
        self._none = anyio.Event()
        self._none.set()

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> None:
        if self._count == 0:
            self._none = anyio.Event()
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if self._count == 0:
            self._none.set()

    async def over(self, within: float) -> None:
        """Wait until nobody is left, for at most so many seconds."""
        with anyio.move_on_after(within):
            while self._count:
                await self._none.wait()
