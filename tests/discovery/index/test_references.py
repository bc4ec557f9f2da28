"""References mean an exact tool, the latest version, or the best that a constraint admits."""

from typing import Any

import pytest
from discovery.index.support import ISSUE, filled, make

from toolcrib.discovery import Index
from toolcrib.errors import InvalidConstraintError, InvalidToolIdError, ToolNotFoundError
from toolcrib.model import Resolver, ToolId

VERSIONS = ["0.9.0", "1.0.0", "1.2.0", "1.10.0", "2.0.0", "2.1.0-rc.1", "3.0.0-beta"]


@pytest.fixture
def index() -> Index:
    return filled(make("merge", "git", version=version) for version in VERSIONS)


def test_an_index_is_a_resolver(index: Index) -> None:
    assert isinstance(index, Resolver)


@pytest.mark.parametrize(
    ("ref", "version"),
    [
        ("git:merge", "2.0.0"),
        ("git:merge:1.0.0", "1.0.0"),
        ("git:merge:v1.0.0", "1.0.0"),
        ("git:merge:1.0.0+build", "1.0.0"),
        ("git:merge:3.0.0-beta", "3.0.0-beta"),
        ("git:merge:^1", "1.10.0"),
        ("git:merge:^1.2", "1.10.0"),
        ("git:merge:~1.2", "1.2.0"),
        ("git:merge:1", "1.10.0"),
        ("git:merge:1.x", "1.10.0"),
        ("git:merge:>=1 <2", "1.10.0"),
        ("git:merge:1.0.0 - 1.5.0", "1.2.0"),
        ("git:merge:0.9 || 1.0", "1.0.0"),
        ("git:merge:=1.2.0", "1.2.0"),
        ("git:merge:*", "2.0.0"),
        ("git:merge:>=2.1.0-rc.0", "2.1.0-rc.1"),
        ("git:merge:^3.0.0-alpha", "3.0.0-beta"),
    ],
)
def test_a_reference_means_the_highest_stable_version_it_admits(index: Index, ref: str, version: str) -> None:
    assert index.resolve(ref).version == version


def test_an_id_object_means_what_its_text_means(index: Index) -> None:
    assert index.resolve(ToolId("git", "merge")).version == "2.0.0"
    assert index.resolve(ToolId("git", "merge", "v1.2.0")).version == "1.2.0"


@pytest.mark.parametrize("ref", ["git:merge:^4", "git:merge:4.0.0", "git:merge:>2.0.0", "git:merge:1.0.0-rc"])
def test_a_version_that_is_not_there_is_not_replaced_by_another(index: Index, ref: str) -> None:
    with pytest.raises(ToolNotFoundError) as caught:
        index.resolve(ref)
    assert set(caught.value.suggestions) <= {f"git:merge:{version}" for version in VERSIONS}
    assert len(caught.value.suggestions) == 3
    assert caught.value.ref == ref


def test_only_prereleases_give_the_highest_of_them() -> None:
    index = filled(make("a", "n", version=version) for version in ("1.0.0-rc.2", "1.0.0-rc.10", "0.9.0-x"))
    assert index.resolve("n:a").version == "1.0.0-rc.10"
    with pytest.raises(ToolNotFoundError):
        index.resolve("n:a:*")


def test_a_tool_without_a_version_is_the_one_without() -> None:
    index = filled([make("a", "n"), make("a", "n", version="9.0.0")])
    assert index.resolve("n:a").version is None
    assert index.resolve("n:a:*").version == "9.0.0"
    index.unregister("n:a")
    assert index.resolve("n:a").version == "9.0.0"


def test_get_takes_no_liberties(index: Index) -> None:
    for ref in ("git:merge", "git:merge:1.9.0"):
        with pytest.raises(ToolNotFoundError):
            index.get(ref)
    with pytest.raises(InvalidToolIdError):
        index.get("git:merge:^1")


@pytest.mark.parametrize("bad", [
    "git:merge:", "git::^1", ":merge:^1", "git:mer ge:^1", "::", "git:merge: ",
    "git:merge:1:2", "git:merge:1.0.0:2", "git:merge:^1:", "git:merge::", "a:b:c:d",
])  # fmt: skip
def test_a_reference_with_an_empty_foreign_or_fourth_part_is_refused(index: Index, bad: str) -> None:
    with pytest.raises(InvalidToolIdError) as caught:
        index.resolve(bad)
    assert f"{bad!r}: " in str(caught.value)


@pytest.mark.parametrize("bad", ["latest", "^", "1.2.3.4", "\ud800", "🌦️", "^" * 1_000_000])
def test_malformed_constraint_is_refused(index: Index, bad: str) -> None:
    with pytest.raises(InvalidConstraintError):
        index.resolve(f"git:merge:{bad}")


def test_the_versions_of_a_tool_are_listed_in_their_order(index: Index) -> None:
    index.register(make("merge", "git"))
    index.register(make("merge_all", "git", version="5.0.0"))
    expected = ("git:merge", *(f"git:merge:{version}" for version in VERSIONS))
    assert index.versions("git:merge") == expected
    assert index.versions(ToolId("git", "merge", "1.0.0")) == expected
    assert index.versions("merge") == ()


@pytest.mark.parametrize(
    ("ref", "suggested"),
    [
        ("github:create_isue", "github:create_issue"),
        ("githb:create_issue", "github:create_issue"),
        ("githb:create_isue", "github:create_issue"),
        ("create_issue", "github:create_issue"),
        ("create_isue", "github:create_issue"),
        ("createIssue", "github:create_issue"),
        ("GitHub:create_issue", "github:create_issue"),
        ("github:create_issue:1.0.0", "github:create_issue"),
        ("github:issue_create", "github:create_issue"),
        ("sendmail", "send_mail"),
        ("mail:send_mail", "send_mail"),
        ("github:merge", "github:merge:1.2.0"),
        ("github:merge:1.2.1", "github:merge:1.2.0"),
        ("ticket", "github:create_issue"),
    ],
)
def test_mistyped_id_is_answered_with_the_similar_id(ref: str, suggested: str) -> None:
    index = filled()
    index.register(ISSUE.replace(meta={"aliases": ["ticket"]}))
    with pytest.raises(ToolNotFoundError) as caught:
        index.get(ref)
    assert suggested in caught.value.suggestions
    assert repr(suggested) in str(caught.value)


@pytest.mark.parametrize("ref", ["zzzzzz", "x" * 128, "a", f"{'n' * 128}:{'x' * 128}:1.0.0"])
def test_dissimilar_reference_has_no_suggestions(ref: str) -> None:
    with pytest.raises(ToolNotFoundError) as caught:
        filled().get(ref)
    assert caught.value.suggestions == ()


def test_a_slip_in_a_large_catalogue_is_answered_with_the_id_meant() -> None:
    crowd = [
        make(f"{verb}_{noun}_{number}", "big")
        for verb in ("add", "get", "put", "set")
        for noun in ("book", "cart", "user")
        for number in range(150)
    ]
    index = filled([*crowd, ISSUE.replace(namespace="big")])
    for ref, meant in {"big:create_isue": "big:create_issue", "big:put_cart77": "big:put_cart_77"}.items():
        with pytest.raises(ToolNotFoundError) as caught:
            index.get(ref)
        assert meant in caught.value.suggestions


def test_suggestions_are_three_at_most_and_there(index: Index) -> None:
    index.register_many((make("merge", f"n{number}"), None) for number in range(50))
    with pytest.raises(ToolNotFoundError) as caught:
        index.get("merge")
    suggestions: Any = caught.value.suggestions
    assert len(suggestions) == 3
    assert all(one in index for one in suggestions)
