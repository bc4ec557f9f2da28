"""How thoroughly laws are searched: `make test` by the same examples every time, `make proof` by many new ones."""

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

THOROUGH = float(os.environ.get("THOROUGH", "1"))
"""How many times as many examples as a law asks for are tried."""
EXAMPLES = 25
"""Examples of a law that asks for no number of its own."""

settings.register_profile(
    "toolcrib",
    max_examples=max(1, round(EXAMPLES * THOROUGH)),
    deadline=None,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink),
    print_blob=True,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
)
"""No verdict depends on time: a law is bounded by its examples, and slow generation is no failure."""
settings.load_profile("toolcrib")


def law(examples: int = EXAMPLES, **options: Any) -> settings:
    """Return the settings of a law that so many examples show; `make proof` tries more."""
    return settings(max_examples=max(1, round(examples * THOROUGH)), **options)
