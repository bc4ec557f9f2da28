"""Tool ids: syntax, equality, and errors of invalid ones."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import InvalidToolIdError
from toolcrib.model import ToolId

names = st.from_regex(r"[A-Za-z0-9_.-]{1,128}", fullmatch=True)
versions = st.builds(
    "{}.{}.{}{}{}".format,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.sampled_from(["", "-rc.1", "-alpha", "-0.x--y"]),
    st.sampled_from(["", "+b5", "+001.sha"]),
)


@pytest.mark.parametrize(
    ("text", "namespace", "name", "version"),
    [
        ("add", None, "add", None),
        ("math:add", "math", "add", None),
        ("math:add:1.2.3", "math", "add", "1.2.3"),
        ("math:add:1.2.3-rc.1+b5", "math", "add", "1.2.3-rc.1+b5"),
        ("A.b-c_9:-._", "A.b-c_9", "-._", None),
        ("n" * 128 + ":" + "a" * 128, "n" * 128, "a" * 128, None),
        ("1.2.3", None, "1.2.3", None),
    ],
    ids=lambda value: str(value)[:24],
)
def test_an_id_is_read_and_written(text: str, namespace: str | None, name: str, version: str | None) -> None:
    parsed = ToolId.parse(text)
    assert (parsed.namespace, parsed.name, parsed.version) == (namespace, name, version)
    assert str(parsed) == text


EMPTY_PART = "it has an empty part; write name, namespace:name or namespace:name:version"
EXACT = "its version must be an exact one"
ONLY = "may contain only letters, digits, '_', '.' and '-', not"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", EMPTY_PART),
        (":", EMPTY_PART),
        ("a:", EMPTY_PART),
        (":a", EMPTY_PART),
        ("a::c", EMPTY_PART),
        ("a:b:", EMPTY_PART),
        ("::", EMPTY_PART),
        ("a:b:1.0.0:d", "it has more than two colons; write namespace:name:version"),
        (":::", "it has more than two colons; write namespace:name:version"),
        ("a b", f"its name {ONLY} ' '"),
        ("a/b c!:d", f"its namespace {ONLY} '/', ' ', '!'"),
        ("a:é", f"its name {ONLY} 'é'"),
        ("a:b\n", f"its name {ONLY} '\\n'"),
        ("a:" + "b" * 129, "its name must have at most 128 characters, not 129"),
        ("n" * 129 + ":b", "its namespace must have at most 128 characters, not 129"),
        ("a:b:1", f"{EXACT}; invalid version '1': it is partial; write '1.0.0'"),
        (
            "a:b:^1.2",
            f"{EXACT}; invalid version '^1.2': a version has no operator; write the version alone, or parse a Constraint",
        ),
        (
            "a:b:01.2.3",
            f"{EXACT}; invalid version '01.2.3': '01' has a leading zero; write '1'",
        ),
    ],
    ids=lambda value: value[:24] or "empty",
)
def test_malformed_id_is_refused_with_the_remedy(text: str, reason: str) -> None:
    with pytest.raises(InvalidToolIdError) as caught:
        ToolId.parse(text)
    assert caught.value.reason == reason
    assert caught.value.text == text


@pytest.mark.parametrize("value", [None, 5, b"a:b", ["a"], ToolId(None, "a")], ids=lambda v: type(v).__name__)
def test_only_text_is_read(value: Any) -> None:
    with pytest.raises(InvalidToolIdError, match=f"it must be text, not {type(value).__name__}"):
        ToolId.parse(value)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((None, None), "its name must be text, not NoneType"),
        (("a", None), "its name must be text, not NoneType"),
        (("a", ""), "its name must not be empty"),
        (("", "a"), "its namespace must not be empty"),
        ((5, "a"), "its namespace must be text, not int"),
        (("a", "b:c"), f"its name {ONLY} ':'"),
        (("a:b", "c"), f"its namespace {ONLY} ':'"),
        (("a", "b", "1.2"), "its version must be an exact one; .* it is partial; write '1.2.0'"),
        (("a", "b", ""), "its version must be an exact one; .* it is empty"),
        (("a", "b", 1), "its version must be an exact one; .* not int"),
    ],
    ids=repr,
)
def test_an_id_put_together_by_hand_is_checked_as_well(parts: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(InvalidToolIdError, match=reason):
        ToolId(*parts)


def test_a_hostile_id_is_answered_in_a_short_message() -> None:
    with pytest.raises(InvalidToolIdError) as caught:
        ToolId.parse(":" * 1_000_000)
    assert len(str(caught.value)) < 300
    with pytest.raises(InvalidToolIdError) as caught:
        ToolId.parse("".join(map(chr, range(256, 60_000))))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ToolId("a", "b", "v1.2.3"), ToolId("a", "b", "1.2.3")),
        (ToolId("a", "b", "1.2.3+x"), ToolId("a", "b", "1.2.3+y")),
        (ToolId("a", "b", "1.2.3+x"), ToolId.parse("a:b:1.2.3")),
    ],
    ids=["v", "build", "parsed"],
)
def test_ids_are_equal_when_their_versions_compare_equal(one: ToolId, other: ToolId) -> None:
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a:b", "a:b:1.0.0"),
        ("a:b:1.0.0", "a:b:1.0.1"),
        ("a:b:1.0.0-rc.1", "a:b:1.0.0"),
        ("a:b", "a:c"),
        ("a:b", "b"),
        ("A:b", "a:b"),
    ],
)
def test_ids_that_differ_in_any_part_are_not_equal(one: str, other: str) -> None:
    assert ToolId.parse(one) != ToolId.parse(other)


def test_an_id_is_not_equal_to_its_text() -> None:
    text: object = "a:b"
    assert ToolId.parse("a:b") != text


def test_the_version_is_written_without_its_v() -> None:
    assert str(ToolId("a", "b", "v1.2.3")) == "a:b:1.2.3"
    assert ToolId("a", "b", "v1.2.3").version == "1.2.3"


def test_the_version_shows_only_with_a_namespace_but_counts_without() -> None:
    bare = ToolId(None, "add", "1.0.0")
    assert str(bare) == "add"
    assert bare.version == "1.0.0"
    assert bare != ToolId(None, "add")


def test_an_id_does_not_change() -> None:
    tool_id = ToolId("a", "b", "1.0.0")
    with pytest.raises(FrozenInstanceError):
        tool_id.name = "c"  # type: ignore[misc]  # that is the point
    assert replace(tool_id, version="v2.0.0") == ToolId("a", "b", "2.0.0")


@pytest.mark.parametrize(
    "travel", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],  # noqa: S301 - ours
    ids=["copy", "deepcopy", "pickle"],
)  # fmt: skip
def test_an_id_survives_a_journey(travel: Any) -> None:
    tool_id = ToolId("a", "b", "1.0.0+x")
    assert travel(tool_id) == tool_id
    assert str(travel(tool_id)) == str(tool_id)


@given(namespace=names, name=names, version=st.none() | versions)
def test_reading_undoes_writing(namespace: str, name: str, version: str | None) -> None:
    tool_id = ToolId(namespace, name, version)
    assert ToolId.parse(str(tool_id)) == tool_id
    assert str(ToolId.parse(str(tool_id))) == str(tool_id)


@given(st.text(st.sampled_from("ab:.-_ é1^v0"), max_size=24))
def test_any_text_is_either_an_id_that_writes_itself_or_a_typed_refusal(text: str) -> None:
    try:
        tool_id = ToolId.parse(text)
    except InvalidToolIdError:
        return
    assert str(tool_id) in {text, text.replace(":v", ":")}
