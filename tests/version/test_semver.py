"""Versions: syntax and order."""

import pickle
from dataclasses import FrozenInstanceError, replace
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import InvalidVersionError
from toolcrib.version import Version, compare

# The two lists that semver.org gives for testing a pattern.
VALID = [
    "0.0.4",
    "1.2.3",
    "10.20.30",
    "1.1.2-prerelease+meta",
    "1.1.2+meta",
    "1.1.2+meta-valid",
    "1.0.0-alpha",
    "1.0.0-beta",
    "1.0.0-alpha.beta",
    "1.0.0-alpha.beta.1",
    "1.0.0-alpha.1",
    "1.0.0-alpha0.valid",
    "1.0.0-alpha.0valid",
    "1.0.0-alpha-a.b-c-somethinglong+build.1-aef.1-its-okay",
    "1.0.0-rc.1+build.1",
    "2.0.0-rc.1+build.123",
    "1.2.3-beta",
    "10.2.3-DEV-SNAPSHOT",
    "1.2.3-SNAPSHOT-123",
    "1.0.0",
    "2.0.0",
    "1.1.7",
    "2.0.0+build.1848",
    "2.0.1-alpha.1227",
    "1.0.0-alpha+beta",
    "1.2.3----RC-SNAPSHOT.12.9.1--.12+788",
    "1.2.3----R-S.12.9.1--.12+meta",
    "1.2.3----RC-SNAPSHOT.12.9.1--.12",
    "1.0.0+0.build.1-rc.10000aaa-kk-0.1",
    "99999999999999999999999.999999999999999999.99999999999999999",
    "1.0.0-0A.is.legal",
]
INVALID = [
    "1",
    "1.2",
    "1.2.3-0123",
    "1.2.3-0123.0123",
    "1.1.2+.123",
    "+invalid",
    "-invalid",
    "-invalid+invalid",
    "-invalid.01",
    "alpha",
    "alpha.beta",
    "alpha.beta.1",
    "alpha.1",
    "alpha+beta",
    "alpha_beta",
    "alpha.",
    "alpha..",
    "beta",
    "1.0.0-alpha_beta",
    "-alpha.",
    "1.0.0-alpha..",
    "1.0.0-alpha..1",
    "1.0.0-alpha...1",
    "1.0.0-alpha....1",
    "1.0.0-alpha.....1",
    "1.0.0-alpha......1",
    "1.0.0-alpha.......1",
    "01.1.1",
    "1.01.1",
    "1.1.01",
    "1.2",
    "1.2.3.DEV",
    "1.2-SNAPSHOT",
    "1.2.31.2.3----RC-SNAPSHOT.12.09.1--..12+788",
    "1.2-RC-SNAPSHOT",
    "-1.0.3-gamma+b7718",
    "+justmeta",
    "9.8.7+meta+meta",
    "9.8.7-whatever+meta+meta",
    "99999999999999999999999.999999999999999999.99999999999999999----RC-SNAPSHOT.12.09.1--------------------------------..12",
]

# SemVer 2.0.0, clause 11, and what lies around its examples; each older than the next.
ASCENDING = [
    "0.0.0-0",
    "0.0.0",
    "0.0.1",
    "0.9.10",
    "0.10.0",
    "1.0.0-0",
    "1.0.0-9",
    "1.0.0-10",
    "1.0.0-10.0",
    "1.0.0-9007199254740993",
    "1.0.0-9007199254740994",
    "1.0.0--",
    "1.0.0--1",
    "1.0.0-0a",
    "1.0.0-10a",
    "1.0.0-9a",
    "1.0.0-Alpha",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.9",
    "1.0.0-alpha.10",
    "1.0.0-alpha.beta",
    "1.0.0-alpha0",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1-alpha",
    "1.0.1",
    "2.0.0",
    "2.1.0",
    "2.1.1",
    "9007199254740993.0.0",
    "9007199254740994.0.0",
]

REASONS = {
    "": "it is empty; write a version such as '1.2.3'",
    "1": "it is partial; write '1.0.0'",
    "v1.2": "it is partial; write '1.2.0'",
    "1.2-rc.1": "it is partial; write '1.2.0'",
    "1.2.3.4": "it has 4 numbers where SemVer has three; write '1.2.3'",
    "1.02.3": "'02' has a leading zero; write '2'",
    "1.2.00": "'00' has a leading zero; write '0'",
    "1.2.x": "'x' is not a number; a version is MAJOR.MINOR.PATCH",
    "1..3": "a number is missing; a version is MAJOR.MINOR.PATCH",
    "1.2.3beta": "it lacks a '-' before its prerelease; write '1.2.3-beta'",
    "١.2.3": "'١' is not a number; a version is MAJOR.MINOR.PATCH",
    "１.2.3": "'１' is not a number; a version is MAJOR.MINOR.PATCH",
    "1.2.3\n": "remove the spaces or line breaks around it",
    " 1.2.3": "remove the spaces or line breaks around it",
    "V1.2.3": "write the prefix as a lower-case 'v', or leave it out",
    "vv1.2.3": "'v1' is not a number; a version is MAJOR.MINOR.PATCH",
    "=1.2.3": "a version has no operator; write the version alone, or parse a Constraint",
    "1.2.3-": "the prerelease has an empty identifier; remove the extra '.', '-' or '+'",
    "1.2.3+": "the build has an empty identifier; remove the extra '.', '-' or '+'",
    "1.2.3-..": "the prerelease has an empty identifier; remove the extra '.', '-' or '+'",
    "1.2.3-rc.01": "the prerelease identifier '01' has a leading zero; write '1'",
    "1.2.3-rc_1": "the prerelease identifier 'rc_1' may contain only ASCII letters, digits and '-'",
    "1.2.3+a+b": "the build identifier 'a+b' may contain only ASCII letters, digits and '-'",
    "1.2.3-" + "a" * 251: "it has 257 characters; at most 256 are allowed",
    "9" * 100_000: "it has 100000 characters; at most 256 are allowed",
}

numbers = st.integers(min_value=0, max_value=12) | st.integers(min_value=0, max_value=10**30)
words = st.text("0aZ-", min_size=1, max_size=4)
identifiers = words.filter(lambda word: not word.isdigit()) | numbers.map(str)
prereleases = st.lists(identifiers, max_size=3).map(".".join)
builds = st.lists(words, max_size=3).map(".".join)
versions = st.builds(Version, numbers, numbers, numbers, prereleases, builds)


@pytest.mark.parametrize("text", VALID)
def test_valid_examples_of_semver_org_round_trip(text: str) -> None:
    assert str(Version.parse(text)) == text


@pytest.mark.parametrize("text", INVALID)
def test_invalid_examples_of_semver_org_are_refused(text: str) -> None:
    with pytest.raises(InvalidVersionError):
        Version.parse(text)


@pytest.mark.parametrize(("text", "reason"), REASONS.items(), ids=range(len(REASONS)))
def test_a_refusal_says_what_is_wrong_and_what_to_do(text: str, reason: str) -> None:
    with pytest.raises(InvalidVersionError) as caught:
        Version.parse(text)
    assert caught.value.reason == reason


@pytest.mark.parametrize("value", [None, 1, 1.2, b"1.2.3", True, ["1.2.3"], Version(1, 2, 3)])
def test_only_text_is_parsed(value: Any) -> None:
    with pytest.raises(InvalidVersionError, match=r"a version is text such as '1\.2\.3', not "):
        Version.parse(value)


def test_a_version_has_its_five_parts() -> None:
    version = Version.parse("v1.2.3-rc.1+b5")
    assert version == Version(1, 2, 3, "rc.1", "b5")
    assert (version.major, version.minor, version.patch) == (1, 2, 3)
    assert (version.prerelease, version.build) == ("rc.1", "b5")


def test_256_characters_are_allowed() -> None:
    text = "1.2.3-" + "a" * 250
    assert str(Version.parse(text)) == text


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((-1, 0, 0), "major must be zero or more"),
        ((0, True, 0), "minor must be an int, not bool"),
        ((0, 0, "1"), "patch must be an int, not str"),
        ((0, 0, 1.0), "patch must be an int, not float"),
        ((10**5000, 0, 0), "major has more than 256 digits"),
        ((-(10**5000), 0, 0), "major has more than 256 digits"),
        ((10**252, 0, 0), "it has 257 characters; at most 256 are allowed"),
        ((1, 0, 0, "rc 1"), "may contain only ASCII letters"),
        ((1, 0, 0, "01"), "'01' has a leading zero; write '1'"),
        ((1, 0, 0, None), "the prerelease must be text, not NoneType"),
        ((1, 0, 0, "", "a..b"), "the build has an empty identifier"),
        ((1, 0, 0, "", "é"), "may contain only ASCII letters"),
        ((1, 0, 0, "a\n"), "may contain only ASCII letters"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_version_built_from_parts_is_checked_too(parts: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(InvalidVersionError) as caught:
        Version(*parts)
    assert reason in str(caught.value)


def test_a_version_cannot_be_changed_but_replaced() -> None:
    version = Version.parse("1.2.3-rc.1")
    with pytest.raises(FrozenInstanceError):
        version.major = 2  # type: ignore[misc]
    assert replace(version, prerelease="") > version


def test_a_version_survives_pickling() -> None:
    version = Version.parse("1.2.3-rc.1+b5")
    copy = pickle.loads(pickle.dumps(version))  # noqa: S301 - our own bytes
    assert (copy, str(copy)) == (version, str(version))


def test_every_pair_of_a_sorted_list_compares_by_its_places() -> None:
    parsed = [Version.parse(text) for text in ASCENDING]
    for (i, a), (j, b) in product(enumerate(parsed), repeat=2):
        assert compare(a, b) == (i > j) - (i < j), (str(a), str(b))
        assert [a < b, a == b, a > b] == [i < j, i == j, i > j]
        assert [a <= b, a != b, a >= b] == [i <= j, i != j, i >= j]
    assert sorted(set(parsed)) == parsed


def test_compare_takes_versions_and_text() -> None:
    assert compare("v1.0.0", Version(1, 0, 0)) == 0
    assert compare(Version(1, 0, 0), "2.0.0") == -1
    with pytest.raises(InvalidVersionError):
        compare("1.0", "1.0.0")


def test_a_version_does_not_compare_with_other_things() -> None:
    assert Version(1, 0, 0) != "1.0.0"  # type: ignore[comparison-overlap]
    with pytest.raises(TypeError):
        assert Version(1, 0, 0) < "2.0.0"  # type: ignore[operator]


@pytest.mark.parametrize(
    ("newer", "older", "compatible"),
    [
        ("1.2.3", "1.2.3", True),
        ("1.2.3+a", "1.2.3+b", True),
        ("1.9.0", "1.2.3", True),
        ("1.2.2", "1.2.3", False),
        ("2.0.0", "1.2.3", False),
        ("0.2.9", "0.2.3", True),
        ("0.9.0", "0.2.3", False),
        ("1.0.0", "0.9.0", False),
        ("1.0.0", "1.0.0-rc.1", True),
        ("1.0.0-rc.1", "1.0.0", False),
    ],
)
def test_compatible_means_the_same_line_and_not_older(newer: str, older: str, compatible: bool) -> None:
    assert Version.parse(newer).compatible_with(older) is compatible
    assert Version.parse(newer).compatible_with(Version.parse(older)) is compatible


def test_leading_zeros_are_refused_rather_than_dropped() -> None:
    with pytest.raises(InvalidVersionError, match="leading zero"):
        Version.parse("01.2.3")


def test_huge_numbers_keep_their_value() -> None:
    assert Version.parse("99999999999999999999.0.0").major == 99999999999999999999
    assert compare("99999999999999999999.0.0", "99999999999999999998.0.0") == 1


def test_numbers_in_a_prerelease_compare_as_numbers() -> None:
    assert Version.parse("1.0.0-alpha.9") < Version.parse("1.0.0-alpha.10")


def test_equality_and_hash_ignore_the_build() -> None:
    a, b = Version.parse("1.0.0+a"), Version.parse("1.0.0+b")
    assert a == b
    assert len({a, b}) == 1


def test_the_text_of_a_version_has_no_v() -> None:
    assert str(Version.parse("v1.2.3")) == "1.2.3"


@given(versions)
def test_parsing_what_was_written_gives_the_same_version(version: Version) -> None:
    again = Version.parse(str(version))
    assert again == version
    assert (str(again), again.build, again.prerelease) == (str(version), version.build, version.prerelease)
    assert Version.parse(f"v{version}") == version


@given(versions, versions)
def test_exactly_one_of_older_equal_and_newer_holds(a: Version, b: Version) -> None:
    assert [a < b, a == b, a > b].count(True) == 1
    assert compare(a, b) == -compare(b, a) == (a > b) - (a < b)
    if a == b:
        assert hash(a) == hash(b)


@given(st.lists(versions, max_size=8))
def test_the_order_is_total(several: list[Version]) -> None:
    ordered = sorted(several)
    assert all(a <= b for a, b in pairwise(ordered))
    assert all(ordered[i] <= ordered[j] for i in range(len(ordered)) for j in range(i, len(ordered)))


@given(versions)
def test_a_release_is_newer_than_its_prereleases(version: Version) -> None:
    release = replace(version, prerelease="")
    assert (release > version) is bool(version.prerelease)


@given(st.text() | st.text("v0123456789.-+aZ \n"))
def test_any_text_is_a_version_or_a_typed_refusal_with_a_reason(text: str) -> None:
    try:
        written = str(Version.parse(text))
    except InvalidVersionError as error:
        written = error.reason and text.removeprefix("v")
    assert written == text.removeprefix("v")
