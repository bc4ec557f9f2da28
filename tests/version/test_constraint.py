"""Constraints: npm's ranges, the versions they admit, and their text."""

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import nodesemver  # type: ignore[import-untyped]
import pytest
from effort import at_most
from hypothesis import assume, given
from hypothesis import strategies as st
from laws import law

from toolcrib.errors import InvalidConstraintError, InvalidVersionError
from toolcrib.version import Constraint, Version

CANONICAL = {
    "": "*",
    "   ": "*",
    "||": "*",
    "^1.2 || *": "*",
    ">=*": "*",
    "<=x": "*",
    "=*": "*",
    "^x": "*",
    "x - x": "*",
    ">=0.0.0": "*",
    ">=v0": "*",
    "1": ">=1.0.0 <2.0.0-0",
    "v1.2": ">=1.2.0 <1.3.0-0",
    "=1.X.*": ">=1.0.0 <2.0.0-0",
    "= v1.2.3+build.5": "1.2.3",
    "^1": ">=1.0.0 <2.0.0-0",
    "^0": "<1.0.0-0",
    "^0.0": "<0.1.0-0",
    "^0.0.0": "<0.0.1-0",
    "^0.0.0-0": ">=0.0.0-0 <0.0.1-0",
    "^0.2.3": ">=0.2.3 <0.3.0-0",
    "^1.2.3": ">=1.2.3 <2.0.0-0",
    "^ v1.2.3-rc.1": ">=1.2.3-rc.1 <2.0.0-0",
    "~0": "<1.0.0-0",
    "~1.2": ">=1.2.0 <1.3.0-0",
    "~> 1.2.3-rc.1": ">=1.2.3-rc.1 <1.3.0-0",
    ">1": ">=2.0.0",
    ">1.2": ">=1.3.0",
    "<=1": "<2.0.0-0",
    "<=1.2": "<1.3.0-0",
    "<1.2": "<1.2.0-0",
    ">=1.2": ">=1.2.0",
    ">*": "<0.0.0-0",
    "<0": "<0.0.0-0",
    "<0 || >x": "<0.0.0-0",
    "<0 || 1.2.3": "1.2.3",
    "1.2.3 <0": "<0.0.0-0",
    "1.2.3 1.2.3 =1.2.3": "1.2.3",
    "1.2.3 * >=0.0.0": "1.2.3",
    "1.2.3||1.2.3": "1.2.3||1.2.3",
    " \t1.2.3 \n - \u00a0 2 ": ">=1.2.3 <3.0.0-0",
    "1.2 - 2.3.4-rc.1": ">=1.2.0 <=2.3.4-rc.1",
    "1.2.3-x - x": ">=1.2.3-x",
    "~1.x.5": ">=1.0.0 <2.0.0-0",
    "1.x.x-alpha": ">=1.0.0 <2.0.0-0",
    "^9007199254740991.0.0": ">=9007199254740991.0.0 <9007199254740992.0.0-0",
}

REASONS = {
    "==1.0": "'==1.0' has one '=' too many; write a single '='",
    "!=1": "'!=1' excludes a version, which npm ranges cannot; write '<1.2.3 || >1.2.3'",
    "~=1.2": "'~=1.2' has two operators; write one, as in '>=1.2.3' or '~1.2'",
    "> =1": "'> =1' has two operators; write one, as in '>=1.2.3' or '~1.2'",
    "=>1.2": "'=>1.2' has its operator backwards; write '>=' or '<='",
    ">=1,<2": "'>=1,<2' has a ','; a space means AND",
    ">=1 && <2": "'&&' has a '&'; a space means AND",
    "1 | 2": "'|' has a single '|'; write '||' for OR",
    "1.2.3 - ": "'-' is half a hyphen range; write '1.2.3 - 2.3.4', alone or between '||'",
    "1 - 2 - 3": "'-' is half a hyphen range; write '1.2.3 - 2.3.4', alone or between '||'",
    ">1 - 2": "'-' is half a hyphen range; write '1.2.3 - 2.3.4', alone or between '||'",
    "1.2 >": "'>' has no version after it; write one, as in '>=1.2.3'",
    "^1.2-rc.1": "'^1.2-rc.1' has a prerelease, which needs three numbers before it",
    "~1.2.3beta": "'~1.2.3beta' lacks a '-' before its prerelease",
    "1.2.3.4": "'1.2.3.4' has more than three numbers",
    ">=01.2": "in '>=01.2', '01' has a leading zero; write '1'",
    ">1.2.3-01": "in '>1.2.3-01', the prerelease identifier '01' has a leading zero; write '1'",
    "1..2": "in '1..2', a number is missing",
    "1.x.5": "'1.x.5' has a number after a wildcard; end there, as in '1.x'",
    ">x.1": "'>x.1' has a number after a wildcard; end there, as in '1.x'",
    "latest": "'latest' is neither a version nor a range; write one such as '^1.2', or '*' for any",
    "1 || V2": "'V2' is neither a version nor a range; write one such as '^1.2', or '*' for any",
    "*1.2.3": "'*1.2.3' is neither a version nor a range; write one such as '^1.2', or '*' for any",
    "+build": "'+build' is neither a version nor a range; write one such as '^1.2', or '*' for any",
    "١.x": "in '١.x', '١' is not a number",
    "a" * 100: f"'{'a' * 40}…' is neither a version nor a range; write one such as '^1.2', or '*' for any",
    " " * 1025: "it has 1025 characters; at most 1024 are allowed",
    "1||2||" * 50 + "3": "its canonical form is longer than 1024 characters; write fewer ranges",
    "9" * 300: "a version in it is too long: major has more than 256 digits",
    "^" + "9" * 250 + ".0.0": "a version in it is too long: it has 257 characters; at most 256 are allowed",
}

ATTACKS = {
    "spaces": " " * 1_000_000,
    "spaces inside": "1" + " " * 1020 + "-2",
    "spaces around hyphens": "1 - " * 256,
    "alternatives": "||" * 512,
    "many alternatives": "1||" * 341,
    "bars": "|" * 1023,
    "digits": "1" * 1024,
    "zeros": "0" * 1024,
    "a long number with a tail": "1" * 1023 + "!",
    "dots": "1." * 512,
    "wildcards": "*." * 512,
    "a long prerelease with a tail": "1.2.3-" + "a" * 1017 + "!",
    "many identifiers with a tail": "1.2.3-" + "1." * 508 + "!",
    "mixed identifiers with a tail": "1.2.3-" + "0a-1." * 203 + "!",
    "hyphens": "1.2.3" + "-" * 1019,
    "plus signs": "1.2.3" + "+a" * 509,
    "operators": ">" * 1024,
    "tildes": "~> " * 341,
    "vs": "v" * 1024,
    "many comparators": ">1 " * 341,
}

numbers = st.sampled_from(["0", "1", "2", "10"])
prereleases = st.lists(st.sampled_from(["0", "1", "10", "alpha", "rc-1", "x"]), min_size=1, max_size=2)
suffixes = st.just("") | prereleases.map(lambda parts: f"-{'.'.join(parts)}")
fulls = st.builds("{}.{}.{}{}{}".format, numbers, numbers, numbers, suffixes, st.sampled_from(["", "+b.1"]))
opens = (
    st.builds("{}.{}".format, numbers, numbers | st.sampled_from("xX*")) | numbers | st.sampled_from("xX*")
)
partials = st.builds("{}{}".format, st.sampled_from(["", "", "v"]), fulls | opens)
operators = st.sampled_from(["", "^", "~", "~>", ">", ">=", "<", "<=", "=", "> ", "<=  ", "^\t"])
simples = st.builds("{}{}".format, operators, partials)
alternatives = (
    st.lists(simples, min_size=1, max_size=3).map(" ".join)
    | st.builds("{} - {}".format, partials, partials)
    | st.just("")
)
ranges = st.lists(alternatives, min_size=1, max_size=3).map(" || ".join)
versions = fulls.map(Version.parse)


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_a_constraint_is_written_back_in_npms_canonical_form(text: str, canonical: str) -> None:
    constraint = Constraint.parse(text)
    assert str(constraint) == canonical
    assert str(Constraint.parse(canonical)) == canonical
    assert constraint.text == text


@pytest.mark.parametrize(("text", "reason"), REASONS.items(), ids=range(len(REASONS)))
def test_a_refusal_says_what_is_wrong_and_what_to_do(text: str, reason: str) -> None:
    with pytest.raises(InvalidConstraintError) as caught:
        Constraint.parse(text)
    assert (caught.value.text, caught.value.reason) == (text, reason)


@pytest.mark.parametrize("value", [None, 1, b"^1", ["^1"], Version(1, 2, 3)])
def test_only_text_is_parsed(value: Any) -> None:
    with pytest.raises(InvalidConstraintError, match=r"a constraint is text such as '\^1\.2', not "):
        Constraint.parse(value)


@pytest.mark.parametrize(
    ("text", "version", "default", "included"),
    [
        ("^1.2.3-rc.1", "1.2.3-rc.0", False, False),
        ("^1.2.3-rc.1", "1.2.3-rc.2", True, True),
        ("^1.2.3-rc.1", "1.2.4-rc.2", False, True),
        ("^1.2.3-rc.1", "2.0.0-rc.1", False, False),
        ("^1.2.3", "1.2.3-rc.1", False, False),
        ("^1.2", "1.2.0-rc.1", False, True),
        ("~1.2", "1.2.0-rc.1", False, True),
        ("1.x", "1.0.0-0", False, True),
        ("*", "1.0.0-rc.1", False, True),
        (">=0.0.0", "0.0.0-rc.1", False, False),
        (">=0.0.0-0", "0.0.0-rc.1", True, True),
        (">1", "2.0.0-rc.1", False, True),
        ("<1", "1.0.0-rc.1", False, False),
        ("<=1", "1.0.0-rc.1", False, True),
        ("1.0.0 - 2.0.0", "1.0.0-rc.1", False, True),
        ("1.0.0 - 2.0.0", "2.0.0-rc.1", False, True),
        ("1.0.0 - 2.0.0", "2.0.1-rc.1", False, False),
        ("1.0.0-b - 2.0.0-b", "1.0.0-a", False, False),
        ("1.0.0-b - 2.0.0-b", "2.0.0-a", True, True),
        ("1.2.3-a || 2.0.0", "2.0.0-a", False, False),
        (">1.2.3-a <2.0.0", "2.0.0-a", False, True),
    ],
)
def test_prereleases_are_for_those_who_opt_in(text: str, version: str, default: bool, included: bool) -> None:
    constraint = Constraint.parse(text)
    assert constraint.check(version) is default
    assert constraint.check(Version.parse(version), include_prerelease=True) is included


def test_a_version_or_its_text_can_be_in_a_constraint() -> None:
    constraint = Constraint.parse("^1.2")
    assert "v1.3.0+b" in constraint
    assert Version(1, 3, 0) in constraint
    assert "2.0.0" not in constraint


@pytest.mark.parametrize("bad", ["1.2", "latest", "", None])
def test_check_raises_for_a_malformed_version(bad: Any) -> None:
    constraint = Constraint.parse("*")
    with pytest.raises(InvalidVersionError):
        constraint.check(bad)
    with pytest.raises(InvalidVersionError):
        assert bad in constraint


def test_constraints_are_equal_when_their_canonical_forms_are() -> None:
    texts = ("^1.2", "^1.2.x", "^v1.2.0", ">=1.2 <2")
    assert len({Constraint.parse(text) for text in texts}) == 1
    assert Constraint.parse("^1.2") != Constraint.parse("^1.3")
    assert Constraint.parse("^1.2") != "^1.2"  # type: ignore[comparison-overlap]


def test_a_constraint_cannot_be_changed_and_survives_pickling() -> None:
    constraint = Constraint.parse("^1.2 || 3")
    with pytest.raises(FrozenInstanceError):
        constraint.text = "*"  # type: ignore[misc]
    copy = pickle.loads(pickle.dumps(constraint))  # noqa: S301 - our own bytes
    assert copy == constraint
    assert "3.1.0" in copy


def test_a_caret_below_one_keeps_the_minor() -> None:
    assert "0.2.9" in Constraint.parse("^0.2.3")
    assert "0.9.0" not in Constraint.parse("^0.2.3")


def test_a_caret_does_not_admit_the_prereleases_of_later_versions() -> None:
    assert "1.3.0-beta" not in Constraint.parse("^1.2.0")


def test_several_comparators_can_be_combined() -> None:
    constraint = Constraint.parse(">=1.2.0 <1.5.0 || 2.x || 3.0.0 - 3.2.0")
    admitted = [text for text in ("1.1.0", "1.4.9", "1.5.0", "2.7.0", "3.2.0", "3.2.1") if text in constraint]
    assert admitted == ["1.4.9", "2.7.0", "3.2.0"]


@pytest.mark.attack
@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_hostile_text_is_answered_at_once(text: str) -> None:
    with at_most(0.5):
        try:
            Constraint.parse(text).check("1.2.3-rc.1")
        except InvalidConstraintError as error:
            assert len(str(error)) < 600  # noqa: PT017 - either answer will do, quickly


@given(ranges, st.lists(versions, max_size=5))
def test_a_constraint_and_its_canonical_form_agree(text: str, several: list[Version]) -> None:
    constraint = Constraint.parse(text)
    again = Constraint.parse(str(constraint))
    assert (again, str(again), hash(again)) == (constraint, str(constraint), hash(constraint))
    assert [again.check(version) for version in several] == [constraint.check(version) for version in several]


@given(ranges, versions)
def test_including_prereleases_never_loses_a_version(text: str, version: Version) -> None:
    constraint = Constraint.parse(text)
    assert constraint.check(version, include_prerelease=True) or not constraint.check(version)


def test_a_wildcard_alternative_swallows_the_others_as_in_npm() -> None:
    assert Constraint.parse("* || 2.0.0-rc.1") == Constraint.parse("*")
    assert "2.0.0-rc.1" not in Constraint.parse("* || 2.0.0-rc.1")


@given(alternatives, alternatives, versions)
def test_bars_mean_or(a: str, b: str, version: Version) -> None:
    either = Constraint.parse(f"{a}||{b}")
    assume(str(either) != "*" or not version.prerelease)
    assert (version in either) == (version in Constraint.parse(a) or version in Constraint.parse(b))


@given(simples, simples, versions.filter(lambda version: not version.prerelease))
def test_a_space_means_and(a: str, b: str, version: Version) -> None:
    both = Constraint.parse(f"{a} {b}")
    assert (version in both) == (version in Constraint.parse(a) and version in Constraint.parse(b))


@law(60)
@given(ranges, st.lists(fulls, min_size=1, max_size=5))
def test_checks_agree_with_another_implementation(text: str, several: list[str]) -> None:
    constraint = Constraint.parse(text)
    # The other one does not let a wildcard swallow the alternatives that name a prerelease.
    asked = [version for version in several if str(constraint) != "*" or "-" not in version]
    expected = [nodesemver.satisfies(version, text) for version in asked]
    assert [constraint.check(version) for version in asked] == expected


@given(st.text(max_size=40) | st.text("0123456789.xv*^~<>=|-+ a", max_size=40))
def test_any_text_is_a_constraint_or_a_typed_refusal_with_a_reason(text: str) -> None:
    try:
        outcome = str(Constraint.parse(text))
    except InvalidConstraintError as error:
        outcome = error.reason
    assert outcome
