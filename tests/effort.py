"""Limits of CPU time that mean the same on every machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time

import pytest

REFERENCE = 0.02
"""CPU seconds that `_work` takes on the machine on which a second is a second."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail a test whose block takes more CPU time, on a slow or busy machine as much more as that is slower."""
    start = process_time()
    yield
    taken = process_time() - start
    if taken > seconds:
        allowed = seconds * slowness()
        if taken > allowed:
            pytest.fail(f"took {taken:.2f} s of CPU time, and {allowed:.2f} are allowed on this machine")


def slowness() -> float:
    """Return how many times as long as on the reference machine everything takes at this moment, at least 1."""
    return max(1.0, *(_seconds() / REFERENCE for _ in range(3)))


def _seconds() -> float:
    start = process_time()
    _work()
    return process_time() - start


def _work() -> None:
    """Do what our code does most: build and read small dicts, lists and texts."""
    for number in range(21_000):
        record = {"name": f"tool-{number}", "tags": [number % 7, number % 11], "schema": {"type": "object"}}
        assert sum(record["tags"]) + len(record["name"]) + len(record["schema"]["type"]) > 0  # type: ignore[call-overload, index]
