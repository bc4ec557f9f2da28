"""The number of rounds of a benchmark; with `--quick` just enough to show that it runs."""

import sys

QUICK = "--quick" in sys.argv


def turns(usual: int, quick: int = 2) -> int:
    """Return how many rounds, tools or runs to measure."""
    return quick if QUICK else usual
