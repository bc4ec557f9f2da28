"""The official conformance suite against a crib as a client: every scenario but those of OAuth."""

from pathlib import Path

import pytest
from servers.launch import python
from servers.suite import run_client_scenario

pytestmark = pytest.mark.proof

CLIENT = str(Path(__file__).with_name("scenario_client.py"))
SCENARIOS = {
    "2025-11-25": (
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ),
    "2026-07-28": (
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ),
}


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [(revision, scenario) for revision, scenarios in SCENARIOS.items() for scenario in scenarios],
)
def test_a_crib_passes_a_scenario(revision: str, scenario: str, tmp_path: Path) -> None:
    outcome = run_client_scenario(" ".join(python(CLIENT)), scenario, revision, tmp_path)
    assert outcome.problems(scenario, ("FAILURE", "WARNING")) == []
    assert outcome.passed(scenario)
