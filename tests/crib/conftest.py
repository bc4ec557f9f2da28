"""What every test of the crib may ask for."""

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
    """Return what makes the settings of a little server that behaves as told."""
    return launch.little
