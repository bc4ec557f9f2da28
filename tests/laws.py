"""Hypothesis profiles: `test` tries the same examples every time, `proof` three times as many, and others each time.

`test` is loaded unless pytest is told otherwise: `pytest --hypothesis-profile=proof`.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

EXAMPLES = 25
"""Examples that a proof tries of a law that asks for no number of its own."""

# No verdict depends on time: a law is bounded by its examples, and slow generation is no failure.
COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
)
settings.register_profile("test", COMMON, max_examples=8, derandomize=True)
settings.register_profile(
    "proof",
    COMMON,
    max_examples=EXAMPLES,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
)
settings.load_profile("test")


def law(examples: int, **options: Any) -> settings:
    """Return the settings of a law that a proof tries so many examples of; other profiles try their share."""
    return settings(max_examples=max(1, examples * settings.default.max_examples // EXAMPLES), **options)
