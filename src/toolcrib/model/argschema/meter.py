"""A limit on work, so that a hostile input costs no more than an honest large one."""

MAX_VALUES = 2_000_000
"""How many values one check looks at before it gives up."""


class SpentError(Exception):
    """The limit is reached; it never leaves the package."""


class Meter:
    """Counts work down to nothing."""

    __slots__ = ("_left",)

    def __init__(self, limit: int = MAX_VALUES) -> None:
        self._left = limit

    def spend(self, amount: int = 1) -> None:
        """Take an amount off what is left.

        Raises:
            SpentError: there was not enough left.
        """
        self._left -= amount
        if self._left < 0:
            raise SpentError
