"""What every test may ask for."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of public suites and real tools; skip where it is absent, fail in CI."""
    if not DATA.is_dir():
        reason = f"needs the data sets in {DATA}, which are not part of the repository"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return DATA
