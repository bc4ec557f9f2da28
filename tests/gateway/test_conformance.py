"""The official conformance suite against a gateway, in both eras: everything that applies to it must pass.

One run of the suite asks for everything that a revision requires, and for what is pending beside that. A check
may fail only where it stands here, with the reason. Most scenarios call tools, prompts and resources of a
fixture by name (`test_simple_text`, `test://static-text`, ...). A gateway has other tools.
"""

from collections.abc import Iterator

import pytest
from gateway.support import Place, Served
from servers.launch import tiny
from servers.suite import REVISIONS, Outcome, run_server_scenarios

pytestmark = pytest.mark.proof

GENERIC = {
    "2025-11-25": {
        "server-initialize",
        "ping",
        "tools-list",
        "server-sse-multiple-streams",
        "resources-list",
        "dns-rebinding-protection",
        "server-session-lifecycle",
    },
    "2026-07-28": {
        "server-stateless",
        "tools-list",
        "server-sse-multiple-streams",
        "resources-list",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "caching",
        "input-required-result-unsupported-methods",
        "input-required-result-validate-input",
        "http-header-validation",
    },
}
"""Scenarios that need no fixture: each of these must have run, and passed."""
FIXTURE = "calls a tool, reads a resource or gets a prompt of the suite's fixture by its name"
PROMPTS = "a gateway has no prompts, and does not say that it has"
COMPLETION = "there is nothing to complete: it has no prompts, and its resources are told by whole addresses"
LOGGING = "a gateway sends no log messages, and does not say that it does"
TASKS = "the extension of tasks, which a gateway does not claim"
APART = {
    "completion-complete": COMPLETION,
    "elicitation-sep1034-defaults": FIXTURE,
    "elicitation-sep1330-enums": FIXTURE,
    "http-custom-header-server-validation": "needs a tool whose arguments are sent as headers",
    "input-required-result-*": FIXTURE,
    "json-schema-2020-12": FIXTURE,
    "logging-set-level": LOGGING,
    "prompts-*": PROMPTS,
    "resources-read-*": FIXTURE,
    "resources-subscribe": "what it keeps does not change, so there is nothing to subscribe to",
    "resources-templates-read": FIXTURE,
    "resources-unsubscribe": "what it keeps does not change, so there is nothing to subscribe to",
    "server-sse-polling": FIXTURE,
    "tasks-*": TASKS,
    "tools-call-*": FIXTURE,
}
"""Scenarios that do not apply, and why."""
APART_CHECKS = {"sep-2549-prompts-list-caching-hints": PROMPTS}
"""Single checks of the others that do not apply, and why."""


def failures(outcome: Outcome, scenario: str) -> list[str]:
    """Return the failed checks of a scenario, except those that fail for lack of its fixture."""
    return [
        f"{check['id']}: {check.get('errorMessage')}"
        for check in outcome.checks[scenario]
        if check["status"] == "FAILURE"
        and check["id"] not in APART_CHECKS
        and not (check.get("details") or {}).get("untestable")
    ]


def is_apart(scenario: str) -> bool:
    """Return whether a scenario does not apply."""
    return any(scenario.startswith(name[:-1]) if name.endswith("*") else scenario == name for name in APART)


@pytest.fixture(scope="module", params=["1", "2"], ids=["one process", "two workers"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway over a server, as `toolcrib serve` starts it."""
    place = Place(tmp_path_factory.mktemp("gateway"), {"tiny": tiny()})
    with Served(place, "--workers", request.param) as served:
        yield served


@pytest.fixture(scope="module", params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    """A revision of the protocol."""
    said: str = request.param
    return said


@pytest.fixture(scope="module")
def outcome(served: Served, revision: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of the suite when it tests everything that a revision requires."""
    return run_server_scenarios(served.url, revision, tmp_path_factory.mktemp("conformance"))


def test_every_scenario_that_applies_passes(outcome: Outcome, revision: str) -> None:
    failed = {name: failures(outcome, name) for name in outcome.checks if not is_apart(name)}
    assert {name: found for name, found in failed.items() if found} == {}
    generic = GENERIC[revision]
    assert {name for name in generic if outcome.checks.get(name)} == generic
    assert not [name for name in generic if failures(outcome, name)]


def test_most_checks_of_what_applies_were_made(outcome: Outcome, revision: str) -> None:
    made = sum(outcome.passed(name) for name in GENERIC[revision])
    assert made >= {"2025-11-25": 15, "2026-07-28": 50}[revision]


def test_a_page_elsewhere_cannot_reach_it_by_a_name_that_leads_here(outcome: Outcome) -> None:
    checks = outcome.checks["dns-rebinding-protection"]
    assert {check["status"] for check in checks} == {"SUCCESS"}
