"""The matrix: windows of versions that work together."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import InvalidConstraintError, InvalidVersionError, NoCompatibleVersionError
from toolcrib.version import Matrix, Verdict, Version

small = st.builds(Version, st.integers(0, 3), st.integers(0, 2), st.just(0), st.sampled_from(["", "rc.1"]))


@pytest.fixture
def matrix() -> Matrix:
    return (
        Matrix()
        .add("api", "1.0.0", "1.9.9", deprecated=True, message="api 1 ends in May")
        .add("api", "3.0.0")
        .add("db", Version(2, 0, 0), Version(2, 9, 9))
    )


@pytest.mark.parametrize(
    ("version", "ok"),
    [("1.9.9", False), ("2.0.0-rc.1", False), ("2.0.0", True), ("2.9.9+b", True), ("2.9.10", False)],
)
def test_both_ends_of_a_window_are_inside(matrix: Matrix, version: str, ok: bool) -> None:
    assert matrix.check("db", version).ok is ok
    assert matrix.check("db", Version.parse(version)).ok is ok


def test_windows_of_one_component_are_alternatives(matrix: Matrix) -> None:
    assert matrix.check("api", "1.5.0").ok
    assert matrix.check("api", "3.5.0").ok
    assert not matrix.check("api", "2.0.0").ok


def test_a_window_without_a_maximum_is_open(matrix: Matrix) -> None:
    assert matrix.check("api", "9999.0.0") == Verdict(ok=True)


def test_an_unknown_component_is_ok_and_there_is_nothing_to_say(matrix: Matrix) -> None:
    assert matrix.check("queue", "0.0.1") == Verdict(ok=True, deprecated=False, message="")


def test_a_refusal_names_the_windows_and_says_what_to_do(matrix: Matrix) -> None:
    verdict = matrix.check("api", "2.0.0")
    assert verdict == Verdict(
        ok=False,
        deprecated=False,
        message="api 2.0.0 is not supported; use >=1.0.0 <=1.9.9 or >=3.0.0",
    )


def test_a_deprecated_window_gives_its_message(matrix: Matrix) -> None:
    assert matrix.check("api", "1.5.0") == Verdict(ok=True, deprecated=True, message="api 1 ends in May")


def test_a_deprecated_window_without_a_message_says_where_to_go() -> None:
    matrix = Matrix().add("api", "1.0.0", "1.9.9", deprecated=True)
    assert matrix.check("api", "1.0.0").message == "api 1.0.0 is deprecated; plan to replace it"
    matrix.add("api", "3.0.0")
    assert matrix.check("api", "1.0.0").message == "api 1.0.0 is deprecated; use >=3.0.0"


def test_a_window_in_use_wins_over_a_deprecated_one_in_either_order() -> None:
    first = Matrix().add("api", "1.0.0", deprecated=True, message="old").add("api", "1.5.0", message="new")
    last = Matrix().add("api", "1.5.0", message="new").add("api", "1.0.0", deprecated=True, message="old")
    for matrix in (first, last):
        assert matrix.check("api", "1.6.0") == Verdict(ok=True, message="new")
        assert matrix.check("api", "1.4.0") == Verdict(ok=True, deprecated=True, message="old")


def test_a_verdict_is_as_true_as_it_is_ok(matrix: Matrix) -> None:
    assert matrix.check("api", "3.0.0")
    assert not matrix.check("api", "2.0.0")


def test_a_verdict_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Verdict(ok=True).ok = False  # type: ignore[misc]


def test_a_window_upside_down_is_refused(matrix: Matrix) -> None:
    with pytest.raises(
        InvalidConstraintError, match=r"'2\.0\.0 - 1\.0\.0': the minimum is above the maximum"
    ):
        matrix.add("api", "2.0.0", "1.0.0")
    assert not matrix.check("api", "2.0.0").ok


def test_a_window_of_one_version_holds_it() -> None:
    assert Matrix().add("api", "1.0.0+a", "1.0.0+b").check("api", "1.0.0").ok


@pytest.mark.parametrize("bad", ["1.0", "^1.0.0", ""])
def test_only_exact_versions_are_taken(matrix: Matrix, bad: str) -> None:
    with pytest.raises(InvalidVersionError):
        matrix.add("api", bad)
    with pytest.raises(InvalidVersionError):
        matrix.check("unknown", bad)
    with pytest.raises(InvalidVersionError):
        matrix.negotiate("unknown", ["1.0.0", bad])


def test_the_highest_acceptable_version_is_taken(matrix: Matrix) -> None:
    assert matrix.negotiate("db", ["2.9.0", "2.10.0", "2.1.0"]) == Version(2, 9, 0)


def test_a_version_in_use_is_taken_before_a_higher_deprecated_one() -> None:
    matrix = Matrix().add("api", "1.0.0", "1.9.9").add("api", "2.0.0", deprecated=True)
    assert matrix.negotiate("api", ["2.5.0", "1.1.0", "1.2.0"]) == Version(1, 2, 0)
    assert matrix.negotiate("api", ["2.5.0", "2.4.0"]) == Version(2, 5, 0)


def test_disjoint_windows_do_not_refuse_everything(matrix: Matrix) -> None:
    assert matrix.negotiate("api", ["1.5.0", "2.0.0"]) == Version(1, 5, 0)
    assert matrix.negotiate("api", ["1.5.0", "2.0.0", "3.0.0"]) == Version(3, 0, 0)


def test_the_highest_version_of_an_unknown_component_is_taken(matrix: Matrix) -> None:
    offered = (text for text in ("1.0.0", "10.0.0", "9.0.0"))
    assert matrix.negotiate("queue", offered) == Version(10, 0, 0)


def test_no_acceptable_version_names_wanted_and_available(matrix: Matrix) -> None:
    with pytest.raises(NoCompatibleVersionError) as caught:
        matrix.negotiate("db", ["v1.0.0", Version(3, 0, 0)])
    assert caught.value.available == ("1.0.0", "3.0.0")
    assert str(caught.value) == (
        "no compatible version of 'db': wanted >=2.0.0 <=2.9.9, available: 1.0.0, 3.0.0"
    )


@pytest.mark.parametrize(("component", "wanted"), [("db", ">=2.0.0 <=2.9.9"), ("queue", "any version")])
def test_no_available_version_is_an_error(matrix: Matrix, component: str, wanted: str) -> None:
    with pytest.raises(NoCompatibleVersionError) as caught:
        matrix.negotiate(component, [])
    assert (caught.value.component, caught.value.available, caught.value.wanted) == (component, (), wanted)


def test_windows_added_from_many_threads_are_all_kept() -> None:
    matrix = Matrix()

    def work(major: int) -> bool:
        for minor in range(20):
            matrix.add("api", f"{major}.{minor}.0", f"{major}.{minor}.0")
        return all(matrix.check("api", f"{major}.{minor}.0").ok for minor in range(20))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(16)))
    offered = [f"{major}.{minor}.0" for major in range(16) for minor in range(20)]
    assert all(matrix.check("api", version).ok for version in offered)


@given(st.lists(st.tuples(small, small, st.booleans()), max_size=3), st.lists(small, min_size=1, max_size=5))
def test_negotiated_version_is_the_best_acceptable(
    windows: list[tuple[Version, Version, bool]], offered: list[Version]
) -> None:
    matrix = Matrix()
    for a, b, deprecated in windows:
        matrix.add("api", min(a, b), max(a, b), deprecated=deprecated)
    verdicts = {version: matrix.check("api", version) for version in offered}
    try:
        chosen = matrix.negotiate("api", offered)
    except NoCompatibleVersionError:
        assert not any(verdicts.values())
    else:
        rank = max((not verdict.deprecated, version) for version, verdict in verdicts.items() if verdict.ok)
        assert rank == (not verdicts[chosen].deprecated, chosen)
