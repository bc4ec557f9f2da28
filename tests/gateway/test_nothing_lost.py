"""The official conformance suite against a server with everything in it, directly and through a gateway.

The gateway shows the server's own tools, resources and prompts (`expose = "all"`). It may fail no scenario that
the server passes alone, in either revision of the protocol: over HTTP and over stdio to the server, and to one that
knows only the handshake. The same holds for a server of the SDK's own `MCPServer`, which speaks both eras, and asks
its clients in the way of the handshake.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from gateway.support import Place, Served
from servers.launch import conformance, conformance_over_http, dual, dual_over_http
from servers.suite import REVISIONS, Outcome, run_server_scenarios
from waiting import PATIENCE

pytestmark = pytest.mark.proof

SCENARIOS = {"2025-11-25": 33, "2026-07-28": 50}
CHECKS = {"2025-11-25": 84, "2026-07-28": 196}
NO_TASKS = {
    "tasks-capability-negotiation",
    "tasks-dispatch-and-envelope",
    "tasks-lifecycle",
    "tasks-mrtr-composition",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-request-state-removal",
    "tasks-wire-fields",
}
"""Scenarios that require tasks, which a server of the handshake era does not have."""
NO_KEYS = {"input-required-result-basic-elicitation", "input-required-result-multiple-input-requests"}
"""Scenarios that require keys for several questions in one round; in the handshake era the server sends them
without keys, one after the other.
"""
LOST = {("handshake", "2026-07-28"): NO_TASKS | NO_KEYS}
"""Scenarios that a gateway fails although the server passes them, by way to the server and revision."""


@pytest.fixture(scope="module", params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    """A revision of the protocol."""
    asked: str = request.param
    return asked


@pytest.fixture(scope="module")
def direct(revision: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of the suite at the server alone."""
    with conformance_over_http() as server:
        return run_server_scenarios(server["url"], revision, tmp_path_factory.mktemp("direct"))


@pytest.fixture(scope="module", params=["http", "stdio", "handshake"])
def way(request: pytest.FixtureRequest) -> str:
    """The transport between the gateway and the server."""
    asked: str = request.param
    return asked


@pytest.fixture(scope="module")
def gateway(way: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway that shows everything of the server."""
    with ExitStack() as stack:
        flags = ["--handshake"] if way == "handshake" else []
        server = conformance() if way == "stdio" else stack.enter_context(conformance_over_http(*flags))
        servers = {"conformance": {**server, "start_timeout": PATIENCE}}
        place = Place(tmp_path_factory.mktemp("gateway"), servers, gateway={"expose": "all"})
        yield stack.enter_context(Served(place))


def test_the_server_alone_passes_every_scenario(direct: Outcome, revision: str) -> None:
    wrong = {name: direct.problems(name, ("FAILURE", "WARNING")) for name in direct.checks}
    assert {name: found for name, found in wrong.items() if found} == {}
    assert len(direct.checks) == SCENARIOS[revision]
    assert sum(map(direct.passed, direct.checks)) == CHECKS[revision]


def test_no_scenario_is_lost_behind_a_gateway(
    direct: Outcome, gateway: Served, way: str, revision: str, tmp_path: Path
) -> None:
    through = run_server_scenarios(gateway.url, revision, tmp_path)
    lost = {name: through.problems(name) for name in through.failed - direct.failed}
    assert lost.keys() == LOST.get((way, revision), set()), lost
    assert through.checks.keys() == direct.checks.keys()


@pytest.fixture(scope="module")
def dual_direct(revision: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of the suite at the server of both eras alone."""
    with dual_over_http() as server:
        return run_server_scenarios(server["url"], revision, tmp_path_factory.mktemp("direct"))


@pytest.fixture(scope="module", params=["http", "stdio"])
def dual_gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A gateway that shows everything of the server of both eras."""
    with ExitStack() as stack:
        server = dual() if request.param == "stdio" else stack.enter_context(dual_over_http())
        servers = {"dual": {**server, "start_timeout": PATIENCE}}
        place = Place(tmp_path_factory.mktemp("gateway"), servers, gateway={"expose": "all"})
        yield stack.enter_context(Served(place))


def test_no_scenario_of_a_server_of_both_eras_is_lost_behind_a_gateway(
    dual_direct: Outcome, dual_gateway: Served, revision: str, tmp_path: Path
) -> None:
    assert len(dual_direct.checks) == SCENARIOS[revision]
    assert revision != "2025-11-25" or not dual_direct.failed
    through = run_server_scenarios(dual_gateway.url, revision, tmp_path)
    assert {name: through.problems(name) for name in through.failed - dual_direct.failed} == {}
    assert through.checks.keys() == dual_direct.checks.keys()
