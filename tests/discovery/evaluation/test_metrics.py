from itertools import product
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.evaluation import auc, hit_at_1, ndcg_at, recall_at, reciprocal_rank

ids = st.sampled_from("abcdefgh")
rankings = st.lists(ids, unique=True)
relevants = st.sets(ids)
depths = st.integers(1, 10)
values = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1)


def gain(ranked: list[str], relevant: set[str]) -> float:
    return sum((name in relevant) / log2(place + 2) for place, name in enumerate(ranked))


@given(depths, rankings, relevants)
def test_ndcg_is_the_gain_over_that_of_the_ideal_ranking(
    k: int, ranked: list[str], relevant: set[str]
) -> None:
    ideal = gain(sorted(relevant)[:k], relevant)
    assert ndcg_at(k, ranked, relevant) == pytest.approx(gain(ranked[:k], relevant) / ideal if ideal else 0)


@given(depths, rankings, relevants)
def test_recall_counts_what_is_among_the_first(k: int, ranked: list[str], relevant: set[str]) -> None:
    found = [name for name in relevant if name in ranked[:k]]
    assert recall_at(k, ranked, relevant) == (len(found) / len(relevant) if relevant else 0)


@given(rankings, relevants)
def test_the_reciprocal_rank_is_that_of_the_first_relevant_id(ranked: list[str], relevant: set[str]) -> None:
    places = [place for place, name in enumerate(ranked, 1) if name in relevant]
    assert reciprocal_rank(ranked, relevant) == (1 / min(places) if places else 0)
    assert hit_at_1(ranked, relevant) == float(places[:1] == [1])


@given(depths, st.lists(ids), relevants)
def test_no_metric_leaves_its_scale_even_where_a_ranking_repeats_itself(
    k: int, ranked: list[str], relevant: set[str]
) -> None:
    for value in (
        ndcg_at(k, ranked, relevant),
        recall_at(k, ranked, relevant),
        reciprocal_rank(ranked, relevant),
        hit_at_1(ranked, relevant),
    ):
        assert 0 <= value <= 1 + 1e-9


@given(depths, relevants.filter(bool), rankings)
def test_the_ideal_ranking_scores_one(k: int, relevant: set[str], others: list[str]) -> None:
    ideal = [*sorted(relevant), *(name for name in others if name not in relevant)]
    assert ndcg_at(k, ideal, relevant) == pytest.approx(1)
    assert hit_at_1(ideal, relevant) == reciprocal_rank(ideal, relevant) == 1


def test_a_label_that_names_a_tool_twice_counts_once() -> None:
    assert ndcg_at(10, ["a"], ["a", "a"]) == recall_at(5, ["a"], ["a", "a"]) == 1


@given(st.lists(values, min_size=1), st.lists(values, min_size=1))
def test_auc_counts_the_pairs_in_the_right_order_and_half_the_ties(
    positives: list[float], negatives: list[float]
) -> None:
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in product(positives, negatives)]
    assert auc(positives, negatives) == pytest.approx(sum(pairs) / len(pairs))


@given(st.lists(values, min_size=1), st.lists(values, min_size=1))
def test_auc_is_the_opposite_with_the_groups_exchanged(
    positives: list[float], negatives: list[float]
) -> None:
    assert auc(positives, negatives) + auc(negatives, positives) == pytest.approx(1)


@pytest.mark.parametrize(("positives", "negatives"), [([], [1.0]), ([1.0], []), ([], [])])
def test_auc_of_an_empty_group_is_chance(positives: list[float], negatives: list[float]) -> None:
    assert auc(positives, negatives) == 0.5
