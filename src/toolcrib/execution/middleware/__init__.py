"""Middleware around each call to a backend: result guard, cache, retries, rate and concurrency limits.

The first one is the outermost. Put the cache first, so that its answers cost nothing; then retries, and then
the limits, so that each try counts:

    Runner(index, middleware=(Cache(), Retry(), RateLimit(10, 1), ConcurrencyLimit(8)))
"""

from toolcrib.execution.middleware.cache import FROM_CACHE, Cache
from toolcrib.execution.middleware.compose import by_backend, compose
from toolcrib.execution.middleware.concurrency import ConcurrencyLimit
from toolcrib.execution.middleware.guard import ResultGuard
from toolcrib.execution.middleware.rate import RateLimit
from toolcrib.execution.middleware.retry import Retry

__all__ = [
    "FROM_CACHE",
    "Cache",
    "ConcurrencyLimit",
    "RateLimit",
    "ResultGuard",
    "Retry",
    "by_backend",
    "compose",
]
