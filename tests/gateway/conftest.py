"""Fixtures of the gateway tests."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(home: Path) -> Path:
    """Have no test touch the user's state."""
    return home
