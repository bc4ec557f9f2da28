"""The official conformance suite against logins: every scenario of OAuth but those of DPoP and of workload identity."""

from pathlib import Path

import pytest
from servers.launch import python
from servers.suite import run_client_scenario

pytestmark = pytest.mark.proof

CLIENT = str(Path(__file__).with_name("auth_scenario_client.py"))
BOTH = (
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "basic-cimd",
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
    "pre-registration",
)
LATEST = (
    "resource-mismatch",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
)
FIRST = ("2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback")
EXTENSIONS = ("client-credentials-jwt", "client-credentials-basic")


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        *(("2025-03-26", each) for each in FIRST),
        *(("2025-11-25", each) for each in BOTH),
        *(("2026-07-28", each) for each in (*BOTH, *LATEST, *EXTENSIONS)),
    ],
)
def test_a_login_passes_a_scenario(revision: str, scenario: str, tmp_path: Path) -> None:
    more = ("--force",) if scenario in EXTENSIONS else ()
    outcome = run_client_scenario(" ".join(python(CLIENT)), f"auth/{scenario}", revision, tmp_path, *more)
    (name,) = outcome.checks
    assert outcome.problems(name, ("FAILURE", "WARNING")) == []
    assert outcome.passed(name)
