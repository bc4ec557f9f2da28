"""Texts that are hard to read, and how long reading may take."""

from collections.abc import Callable
from time import thread_time
from typing import Any

from effort import slowness

HOSTILE = {
    "capitals": "A",
    "capitals and one small letter": "AAb",
    "acronyms and their plurals": "AAs",
    "humps": "aB",
    "dotted letters": "a.",
    "hyphens": "a-",
    "dots": ".",
    "underscores": "_",
    "apostrophes": "a'",
    "contractions": "a's",
    "denials": "n't",
    "digits": "1",
    "one Chinese character": "天",
    "Chinese between Latin": "a天",
    "Thai": "ก็",
    "accents upon accents": "\u0301\u0316",
    "Hebrew points upon points": "\u05b0\u05b1",
    "Devanagari marks upon marks": "\u0951\u0952",
    "Japanese marks upon marks": "\uff9e\u0951",
    "what stands for eighteen letters": "\ufdfa",
    "emoji families": "👩‍👩‍👧‍👦",
    "right-to-left marks": "\u202eا",
    "NUL": "\0",
    "lone surrogates": "\ud800",
}

SHORT = 0.2
"""Seconds that are few on any machine, so that its speed need not be measured."""


def seconds(work: Callable[[], Any]) -> float:
    """Return the CPU time that some work takes on a machine of usual speed, the better of two runs."""
    times = []
    for _ in range(2):
        start = thread_time()
        work()
        times.append(thread_time() - start)
    taken = min(times)
    return taken if taken < SHORT else taken / slowness()
