from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.evaluation.catalogue import admissible_names, distinct, loses_words
from toolcrib.model.toolid import name_fault

names = st.lists(
    st.text(st.sampled_from("ab_-./@ é字") | st.characters(), min_size=1, max_size=6), unique=True
)


@given(names)
def test_every_name_gets_an_admissible_one_of_its_own(given_names: list[str]) -> None:
    found = admissible_names(given_names)
    assert list(found) == given_names
    assert not any(name_fault(name) for name in found.values())
    assert len(set(found.values())) == len(given_names)


@given(names, st.randoms())
def test_the_order_of_names_does_not_matter(given_names: list[str], random: object) -> None:
    shuffled = sorted(given_names, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert admissible_names(shuffled) == admissible_names(given_names)


@given(st.text(ascii_letters + digits + "_.-", min_size=1, max_size=128))
def test_an_admissible_name_stays_as_it_is(name: str) -> None:
    assert admissible_names([name]) == {name: name}


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("PDF&URLTool", "PDF_URLTool"),
        ("nasa/apod", "nasa_apod"),
        ("@toolsdk.ai/aws-ses-mcp", "toolsdk.ai_aws-ses-mcp"),
        ("Visualize Entity Detections", "Visualize_Entity_Detections"),
        ("café:menü", "cafe_menu"),
        ("天气", "tool"),
        ("x" * 200, "x" * 128),
    ],
)
def test_words_stay_apart(name: str, plain: str) -> None:
    assert admissible_names([name]) == {name: plain}


def test_long_names_that_differ_late_stay_different() -> None:
    long = ["x" * 200 + end for end in "ab"]
    assert len(set(admissible_names(long).values())) == 2


def test_a_digest_that_is_taken_is_not_given_again() -> None:
    first = distinct("a", "original", ())
    second = distinct("a", "original", {first})
    assert first != second
    assert distinct("a", "original", ()) == first


@pytest.mark.parametrize(
    ("name", "loses"), [("a/b", False), ("café", False), ("天气", True), ("get 天气", True)]
)
def test_only_letters_without_a_plain_form_are_lost(name: str, loses: bool) -> None:
    assert loses_words(name) is loses
