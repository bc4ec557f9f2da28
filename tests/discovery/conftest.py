"""What every test of discovery may ask for."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def minilm(root: Path) -> Path:
    """Return the folder of a real embedding model; skip where it was not made, fail in CI."""
    folder = root / ".models" / "minilm"
    if not (folder / "model.onnx").is_file():
        reason = f"needs the model in {folder}, which `make .models/minilm/model.onnx` makes"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
