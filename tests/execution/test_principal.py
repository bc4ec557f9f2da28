"""Whom a name in a rule means: exactly one issuer's principal."""

import pytest

from toolcrib.execution import Principal, Rule
from toolcrib.execution.policy.rules import Rules
from toolcrib.execution.principal import Issuers

AUTHORITY = "https://login.example"
NONE = Issuers()
TOKEN = Issuers(tokens=frozenset({"ci"}))
LOGIN = Issuers(authority=AUTHORITY)
BOTH = Issuers(tokens=frozenset({"ci"}), authority=AUTHORITY)
ISSUERS = {"none": NONE, "token": TOKEN, "login": LOGIN, "both": BOTH}
PRINCIPALS = {
    "token": Principal(issuer="tokens", subject="ci", client="ci"),
    "account": Principal(issuer=AUTHORITY, subject="ci", client="ci"),
    "local": Principal(issuer="local", subject="ci", client="ci"),
    "program": Principal(subject="ci", client="ci"),
}
EVERY = {*PRINCIPALS}
MEANT: list[tuple[str, str, set[str]]] = [
    ("ci", "none", EVERY),
    ("ci", "token", {"token"}),
    ("ci", "login", {"account"}),
    ("ci", "both", {"token"}),
    ("client:ci", "none", EVERY),
    ("client:ci", "token", {"token"}),
    ("client:ci", "login", {"account"}),
    ("client:ci", "both", {"token"}),
    *[("token:ci", name, {"token"}) for name in ISSUERS],
    *[("user:ci", name, {"account"}) for name in ISSUERS],
    *[("local:ci", name, {"local"}) for name in ISSUERS],
    ("user:", "both", set()),
    ("ann", "both", set()),
    ("*", "both", EVERY),
]


@pytest.mark.parametrize(("who", "issuers", "meant"), MEANT)
def test_name_in_a_rule_means_principals_of_one_issuer(who: str, issuers: str, meant: set[str]) -> None:
    rules = Rules([Rule(name="it", who=[who], effect="allow")], issuers=ISSUERS[issuers])
    assert {name for name, each in PRINCIPALS.items() if rules.grants(each).rules} == meant


def test_client_that_names_itself_is_no_client_of_an_issuer() -> None:
    rules = Rules([Rule(name="it", who=["client:mcp:editor"], effect="allow")], issuers=BOTH)
    assert rules.grants(Principal(client="mcp:editor")).rules
    assert rules.grants(Principal(issuer="local", subject="ann", client="mcp:editor")).rules
    assert not rules.grants(Principal(issuer=AUTHORITY, subject="ann", client="mcp:editor")).rules


def test_rules_have_another_version_with_other_issuers() -> None:
    rule = Rule(name="it", who=["ci"], effect="allow")
    assert len({Rules([rule], issuers=each).version for each in ISSUERS.values()}) == len(ISSUERS)
