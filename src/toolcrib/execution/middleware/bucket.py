"""A token bucket: how long until the next call may go."""

__all__ = ["Bucket"]


class Bucket:
    """Holds up to `burst` tokens and gains one every `interval` seconds; a call takes one.

    In any stretch of t seconds at most `burst + t / interval` tokens are taken.

    >>> bucket = Bucket(burst=2, interval=0.5, now=0.0)
    >>> [bucket.take(now=0.0) for _ in range(3)], bucket.wait(now=0.0), bucket.take(now=0.5)
    ([True, True, False], 0.5, True)
    """

    __slots__ = ("_burst", "_full_at", "_interval", "_latest")

    def __init__(self, *, burst: int, interval: float, now: float) -> None:
        self._burst = burst
        self._interval = interval
        self._full_at = now
        self._latest = now

    def wait(self, now: float, ahead: int = 0) -> float:
        """Return how many seconds a call has to wait that lets `ahead` others go first."""
        now = self._monotonic(now)
        return max(0.0, self._full_at - now - (self._burst - 1 - ahead) * self._interval)

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        if self.wait(now) > 0:
            return False
        self._full_at = max(self._full_at, self._monotonic(now)) + self._interval
        return True

    def is_full(self, now: float) -> bool:
        """Return whether nothing has to be remembered of this bucket."""
        return self._full_at <= self._monotonic(now)

    def _monotonic(self, now: float) -> float:
        """Return the time, which never runs backwards here whatever the clock does."""
        self._latest = max(self._latest, now)
        return self._latest
