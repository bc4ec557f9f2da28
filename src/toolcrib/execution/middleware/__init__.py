"""Small layers around one call to one backend: retry, rate and concurrency limits, and a cache.

They are put around every call in the order given, the first one outermost. A cache belongs outside, then
retries, then the limits, so that each try is counted:

    Runner(index, middleware=(Cache(), Retry(), RateLimit(10, 1), ConcurrencyLimit(8)))
"""

from toolcrib.execution.middleware.cache import FROM_CACHE, Cache
from toolcrib.execution.middleware.compose import by_backend, compose
from toolcrib.execution.middleware.concurrency import ConcurrencyLimit
from toolcrib.execution.middleware.rate import RateLimit
from toolcrib.execution.middleware.retry import Retry

__all__ = [
    "FROM_CACHE",
    "Cache",
    "ConcurrencyLimit",
    "RateLimit",
    "Retry",
    "by_backend",
    "compose",
]
