"""Confidence is a likelihood that grows with everything that speaks for a tool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.confidence import (
    LOW_CONFIDENCE,
    RERANKED,
    adjust_confidence,
    confidence_by_both,
    confidence_by_meaning,
    confidence_by_words,
    order_confidences,
)

amounts = st.one_of(st.floats(0, 50), st.floats(0, 1e300))
exponents = st.one_of(st.floats(-20, 20), st.floats(-1e300, 1e300))


@given(amounts, amounts, exponents)
def test_confidence_lies_between_nothing_and_certainty(
    matched: float, coverage: float, meaning: float
) -> None:
    assert 0 <= confidence_by_words(matched=matched, coverage=coverage) <= 1
    assert 0 <= confidence_by_meaning(meaning) <= 1
    assert 0 <= confidence_by_both(matched=matched, coverage=coverage, meaning=meaning) <= 1


@given(amounts, amounts, amounts, exponents)
def test_to_match_more_words_never_hurts(one: float, other: float, coverage: float, meaning: float) -> None:
    less, more = sorted((one, other))
    assert confidence_by_words(matched=less, coverage=coverage) <= confidence_by_words(
        matched=more, coverage=coverage
    )
    low, high = (
        confidence_by_both(matched=matched, coverage=coverage, meaning=meaning) for matched in (less, more)
    )
    assert low <= high


@given(amounts, amounts, amounts, exponents)
def test_to_cover_more_of_the_question_never_hurts(
    one: float, other: float, matched: float, meaning: float
) -> None:
    less, more = sorted((one, other))
    assert confidence_by_words(matched=matched, coverage=less) <= confidence_by_words(
        matched=matched, coverage=more
    )
    low, high = (
        confidence_by_both(matched=matched, coverage=coverage, meaning=meaning) for coverage in (less, more)
    )
    assert low <= high


@given(exponents, exponents, amounts, amounts)
def test_to_lie_nearer_in_meaning_never_hurts(
    one: float, other: float, matched: float, coverage: float
) -> None:
    less, more = sorted((one, other))
    assert confidence_by_meaning(less) <= confidence_by_meaning(more)
    low, high = (
        confidence_by_both(matched=matched, coverage=coverage, meaning=meaning) for meaning in (less, more)
    )
    assert low <= high


@given(st.floats(-30, 30))
def test_odds_and_their_opposite_make_one(exponent: float) -> None:
    assert confidence_by_meaning(exponent) + confidence_by_meaning(-exponent) == pytest.approx(1)


def test_confidence_is_low_without_evidence() -> None:
    assert confidence_by_words(matched=0, coverage=0) < 0.05
    assert confidence_by_both(matched=0, coverage=0, meaning=0) < 0.05


def test_confidence_is_high_with_all_evidence() -> None:
    assert confidence_by_words(matched=6, coverage=1) > 0.7
    assert confidence_by_both(matched=6, coverage=1, meaning=3) > 0.7


likelihoods = st.floats(0, 1)
rankings = st.lists(likelihoods, max_size=12)


@given(rankings)
def test_ordered_confidences_never_rise(confidences: list[float]) -> None:
    ordered = order_confidences(confidences)
    assert len(ordered) == len(confidences)
    assert all(0 <= one <= 1 for one in ordered)
    assert ordered == sorted(ordered, reverse=True)


@given(rankings)
def test_confidences_that_follow_the_order_are_left_alone(confidences: list[float]) -> None:
    falling = sorted(confidences, reverse=True)
    assert order_confidences(falling) == falling


@given(rankings, st.integers(0, 12))
def test_confidences_of_the_first_do_not_depend_on_how_many_follow(
    confidences: list[float], count: int
) -> None:
    kept = max(count, RERANKED)
    assert order_confidences(confidences[:kept]) == order_confidences(confidences)[:kept]


def test_contradictions_are_averaged_in_odds() -> None:
    first, second, *rest = order_confidences([0.2, 0.8, 0.1])
    assert (first, second, rest) == (pytest.approx(0.5), first, [0.1])


@given(likelihoods, likelihoods, likelihoods)
def test_a_named_topic_never_lowers_and_deprecation_never_raises(
    confidence: float, less: float, more: float
) -> None:
    less, more = sorted((less, more))
    low, high = (adjust_confidence(confidence, share=share, deprecated=False) for share in (less, more))
    assert confidence <= low <= high <= 1
    assert 0 <= adjust_confidence(confidence, share=less, deprecated=True) <= low
    assert adjust_confidence(0.0, share=1.0, deprecated=False) > LOW_CONFIDENCE
