"""Names of tools and prompts of several servers at one endpoint."""

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from toolcrib.crib import Settings
from toolcrib.gateway.resources.addresses import sole_source
from toolcrib.model.public_names import public_name, split_name
from toolcrib.model.toolid import MAX_NAME_LENGTH

NAMES = st.one_of(
    st.text("ab_.-9", min_size=1, max_size=12),
    st.text("ab_.-9", min_size=50, max_size=MAX_NAME_LENGTH),
    st.text(min_size=1, max_size=8),
    st.builds(public_name, st.none(), st.text("ab_.", min_size=1, max_size=5)),
    st.builds(public_name, st.text("ab_", min_size=1, max_size=5), st.text("ab_.", min_size=1, max_size=5)),
)
NAMED = st.tuples(st.none() | NAMES, NAMES)


@given(NAMED)
def test_a_name_has_at_most_64_plain_characters(named: tuple[str | None, str]) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", public_name(*named))


@given(NAMED, NAMED)
def test_no_two_are_named_alike(one: tuple[str | None, str], other: tuple[str | None, str]) -> None:
    assume(one != other)
    assert public_name(*one) != public_name(*other)


@given(NAMED)
def test_a_name_leads_back_unless_it_ends_in_a_hash(named: tuple[str | None, str]) -> None:
    public = public_name(*named)
    assert split_name(public) == (None if re.search(r"-[0-9a-f]{12}$", public) else named)


def test_names_do_not_change_from_one_version_to_the_next() -> None:
    assert public_name("github", "create_issue") == "github__create_issue"
    assert public_name("a_", "b") == "a___b-a00766a378dc"
    assert public_name("a", "_b") == "a___b"
    assert public_name("files", "x" * 60) == f"files__{'x' * 44}-c8ffedde350d"


def test_the_only_server_of_a_configuration_keeps_its_names() -> None:
    server, api = {"command": "a"}, {"document": "a.json"}
    assert sole_source(Settings(servers={"a": server})) == "a"
    assert sole_source(Settings(servers={"a": server, "b": server | {"disabled": True}})) == "a"
    assert sole_source(Settings(servers={"a": server, "b": server})) is None
    assert sole_source(Settings(servers={"a": server}, openapi={"b": api})) is None
    assert sole_source(Settings()) is None
