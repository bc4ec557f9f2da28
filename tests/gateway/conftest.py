"""What every test of the gateway may ask for."""

from pathlib import Path

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which state is kept, and keep it away from the user's."""
    folder = tmp_path / "home"
    monkeypatch.setenv("TOOLCRIB_HOME", str(folder))
    return folder
