"""Fixtures of the tests of HTTP providers."""

from collections.abc import Iterator

import pytest
from execution.http.server import serving


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Serve the application once for all tests."""
    with serving() as address:
        yield address
