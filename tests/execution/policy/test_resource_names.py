"""Names of resources in rules: every spelling that a server may read as an address gets the same decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from pydantic import AnyUrl

from toolcrib.errors import PolicyDeniedError
from toolcrib.execution import Principal, Rule
from toolcrib.execution.policy.resource_names import canonical_address
from toolcrib.execution.policy.rules import Grants, Rules

ANN = Principal(issuer="https://login.example", subject="ann")
_PARTS = (
    "file:", "FILE:", "http:", "note:", "/", "//", "///", "\\", "host", "HOST", "ho\u00adst", "\uff48ost", "localhost",
    ":80", ":080", ":", ":81", "u@", ".", "..", "%2e", "%2E%2e", "\t", "\n", " ", "\x00", "\x1f", "\u00a0", "%20", "é",
    "secret", "public", "%73ecret", "sec\tret", "a", "?x", "#x", ";y", "[1]", "{n}", "toolcrib://servers/s/",
)  # fmt: skip
ADDRESSES = st.lists(st.sampled_from(_PARTS), min_size=1, max_size=12).map("".join)
SCHEMES = ("file:///", "http://host/", "note://host/", "note:", "note:/")


def rules_of(*rules: tuple[str, str]) -> Grants:
    made = [
        Rule(name=f"{place}", tools=[tools], effect=effect) for place, (tools, effect) in enumerate(rules)
    ]  # type: ignore[arg-type]
    return Rules(made).grants(ANN)


@law(400)
@given(ADDRESSES, st.sampled_from(SCHEMES))
def test_spelling_that_is_admitted_is_admitted_as_a_server_normalises_it(address: str, scheme: str) -> None:
    try:
        normal = str(AnyUrl(address))
    except ValueError:
        return
    for grants in (
        rules_of((f"s:{scheme}secret*", "deny"), ("s", "allow")),
        rules_of((f"s:{scheme}public*", "allow")),
        rules_of((f"s:{scheme}*", "allow")),
    ):
        assert grants.admits(f"s:{normal}") or not grants.admits(f"s:{address}")


@law(400)
@given(ADDRESSES)
def test_canonical_address_is_its_own_canonical_form(address: str) -> None:
    canonical = canonical_address(address)
    assert canonical is None or canonical_address(canonical) == canonical


@pytest.mark.parametrize(
    ("denied", "address"),
    [
        ("http://host:80/secret", "http://host/secret"),
        ("http:/HOST/secret/*", "http://host/secret/a"),
        ("http://host/secret/*", "http://u:p@host/secret/a"),
        ("http://host/secret/*", "http://host./secret/a"),
        ("http://host/secret/*", "http://host/secret;v=1/a"),
        ("http://xn--mnchen-3ya.de/*", "http://münchen.de/a"),
        ("http://münchen.de/*", "http://xn--mnchen-3ya.de/a"),
        ("http://127.0.0.1/*", "http://0x7f.1/a"),
        ("note:secret", "note:a/../secret"),
        ("note:secret", "note:./secret"),
        ("closed", " closed\n"),
        ("file:///secret/*", "toolcrib://servers/x/file:secret/a"),
        ("file:///C:/secret/*", "file:///C|/secret/a"),
        ("file:///C:/secret/*", "file:///c:/secret/a"),
        ("file:///secret/*", "file:///SECRET/a"),
        ("file:///Secret/*", "file:///%53ecreT/a"),
        ("file:///secret/*", "file://secret/a"),
        ("file:///caf\u00e9/*", "file:///cafe%CC%81/a"),
        ("note:///secret/*", "note:/secret/a"),
        ("note://secret/*", "note:secret/a"),
        ("note:secret/*", "note:///secret/a"),
        ("note://secret/*", "note://secret:80/a"),
        ("note:secret/*", "note:publ\\ic/../secret/a"),
        ("note:secret/*", "note:publ%5Cic/../secret/a"),
        ("note:secret/*", "note:publ%2Fic/../secret/a"),
        ("db://tables/x[?]name=secret", "db://tables/x?name=secret#"),
        ("db://tables/x[?]name=secret", "db://tables/x//?name=secret"),
        ("note:closed", "note:clo%C2%ADsed"),
        ("note:closed", "note:\uff43losed"),
    ],
)
def test_address_that_a_server_may_take_for_a_denied_one_is_denied(denied: str, address: str) -> None:
    grants = rules_of((f"s:{denied}", "deny"), ("s", "allow"))
    assert not grants.admits(f"s:{address}")
    assert grants.admits("s:http://host/public/a")


@pytest.mark.parametrize(
    "address",
    [
        "note:public/x\\y/../../secret/a",
        "note:public/x%5Cy/../../secret/a",
        "note:public/x%2Fy/../../secret/a",
        "note:public/x%252Fy/%2E%2E/../secret/a",
        "file:///public/x%5Cy/%252e%252e/%252e%252e/secret/a",
        "file:///public/x%25252Fy/%252e%252e/%252e%252e/secret/a",
        "http://host/public/..;/secret/a",
        "http://host/public/..;v=1/secret/a",
        "http://host/public/%2E%2E%20/secret/a",
        "http://host/public/%2E.%00/secret/a",
        "http://host/public/..%C2%AD/secret/a",
        "http://host/public/%EF%BC%8E%EF%BC%8E/secret/a",
        "http://host/public/..%252F..%252Fsecret/a",
    ],
)
def test_address_that_a_server_may_resolve_out_of_what_is_allowed_is_refused(address: str) -> None:
    grants = rules_of(*((f"s:{start}public/*", "allow") for start in ("file:///", "note:", "http://host/")))
    assert not grants.admits(f"s:{address}")


@pytest.mark.parametrize(
    "address",
    [
        "file:///public/a%20b",
        "file:///public/100%25",
        "file:///public/a%252Fb",
        "file:///public/..a/...",
        "file:///public/a;b/c",
        "file:///C:/public/a",
        "note:public/x\\y",
        "http://host/public/%E5%8C%97?x=1",
    ],
)
def test_plain_address_below_what_is_allowed_is_admitted(address: str) -> None:
    starts = ("file:///", "file:///C:/", "note:", "http://host/")
    assert rules_of(*((f"s:{start}public/*", "allow") for start in starts)).admits(f"s:{address}")
    assert rules_of((f"s:{address}", "allow")).admits(f"s:{address}")


def test_port_of_http_tells_a_service_from_a_denied_one() -> None:
    grants = rules_of(("s:http://host/*", "deny"), ("s", "allow"))
    assert grants.admits("s:http://host:3000/a")


def test_rule_with_an_address_that_is_not_canonical_allows_its_canonical_form() -> None:
    grants = rules_of(("s:http://Host:80/My Notes/*", "allow"))
    assert grants.admits("s:http://host/My%20Notes/a")
    assert not grants.admits("s:http://host:81/My%20Notes/a")


@pytest.mark.parametrize(
    ("rules", "apart"),
    [
        ([("*", "allow")], False),
        ([("s:*", "deny")], False),
        ([("other:file:///a", "deny"), ("s", "allow")], False),
        ([("s:file:///a", "deny"), ("s", "allow")], True),
        ([("*:delete_*", "deny"), ("*", "allow")], True),
        ([("s:file:*", "allow")], True),
        ([], False),
    ],
)
def test_rules_tell_addresses_of_a_server_apart(rules: list[tuple[str, str]], apart: bool) -> None:
    assert rules_of(*rules).tells_addresses_apart("s") is apart


def test_address_that_is_too_long_is_refused_and_cut_in_the_error() -> None:
    grants = rules_of(("s:file:///secret/*", "deny"), ("s", "allow"))
    with pytest.raises(PolicyDeniedError, match="longer than 8,192 characters") as refused:
        grants.admit(f"s:file:///{'a' * 100_000}")
    assert len(str(refused.value)) < 1_000
