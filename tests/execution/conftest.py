"""What every test of running tools may ask for."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
