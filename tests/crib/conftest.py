"""What every test of the crib may ask for."""

import sys
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).parent / "server.py"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which state is kept, and keep it away from the user's."""
    folder = tmp_path / "home"
    monkeypatch.setenv("TOOLCRIB_HOME", str(folder))
    return folder


@pytest.fixture
def little() -> Any:
    """Return what makes the settings of a little server that behaves as told."""

    def settings(*how: str, **fields: Any) -> dict[str, Any]:
        return {"command": sys.executable, "args": ["-S", "-I", str(SERVER), *how], **fields}

    return settings
