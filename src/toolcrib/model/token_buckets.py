"""Token buckets, wherever they are kept: in memory, in a file, or in a database."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A request for one token of a bucket, which is full when it is first used."""

    name: str
    """The name of the bucket."""
    burst: int
    """The number of tokens in the full bucket."""
    interval: float
    """Seconds after which the bucket gains a token."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A bucket without a token."""

    request: TokenRequest
    """The request for a token of this bucket."""
    wait: float
    """Seconds until it has a token."""


class TokenBuckets(Protocol):
    """Buckets by name; in any period of t seconds, at most `burst + t / interval` tokens of one are taken.

    Every method may be called from any thread, and by any process that shares the buckets.
    """

    def take_tokens(self, wanted: Sequence[TokenRequest]) -> Shortage | None:
        """Take a token of each bucket, or, if one of them has none, of no bucket at all.

        Raises:
            StoreError: the buckets cannot be reached or used.
        """
        ...
