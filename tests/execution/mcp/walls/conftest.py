"""Fixtures of the tests of walls."""

from collections.abc import Iterator

import pytest
from runtime.engines import dockerd


@pytest.fixture(scope="session")
def needs_docker() -> Iterator[None]:
    """Have a container engine; skip where it cannot be started, and fail in CI."""
    with dockerd():
        yield


@pytest.fixture(
    scope="session",
    params=["bubblewrap", pytest.param("docker", marks=pytest.mark.proof)],
)
def kind(request: pytest.FixtureRequest) -> str:
    """Return each kind of wall that works here; that of Docker is tried in proofs alone."""
    request.getfixturevalue("needs_docker" if request.param == "docker" else "needs_bubblewrap")
    return str(request.param)
