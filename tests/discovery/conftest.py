"""Fixtures of the tests of discovery."""

from pathlib import Path

import pytest
from needs import lack


@pytest.fixture(scope="session")
def minilm(root: Path) -> Path:
    """Return the folder of a real embedding model; skip where it was not made, fail in CI."""
    folder = root / ".models" / "minilm"
    if not (folder / "model.onnx").is_file():
        lack("the stock model")
    return folder
