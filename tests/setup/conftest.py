"""Fixtures of the setup tests."""

from pathlib import Path
from typing import Any

import pytest
from servers import launch


@pytest.fixture(autouse=True)
def home(home: Path) -> Path:
    """Have no test touch the user's state."""
    return home


@pytest.fixture
def little() -> Any:
    """Return the function that builds the settings of a little server with a given behaviour."""
    return launch.little
