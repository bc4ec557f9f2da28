"""The best of many scores are those that sorting would put first."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolcrib.discovery.search.lexical.bm25 import top_slots

few_values = st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.5]), max_size=400)
any_values = st.lists(st.floats(0, 100, width=32), max_size=200)
sizes = st.sampled_from([0, 1, 63, 64, 65, 127, 128, 129, 640, 641, 1_000])


def sort_and_take(scores: NDArray[np.float32], count: int) -> list[int]:
    """Return the places that `best` promises, by sorting."""
    positive = sorted((score for score in scores.tolist() if score > 0), reverse=True)[: max(count, 0)]
    return [at for at, score in enumerate(scores.tolist()) if positive and score >= positive[-1]]


@given(st.one_of(few_values, any_values), st.integers(-1, 450))
@example([1.0] * 129, 1)
@example([0.0] * 64 + [1.0], 1)
@example([0.0] * 640, 3)
def test_the_best_are_those_that_sorting_puts_first(values: list[float], count: int) -> None:
    scores = np.array(values, dtype=np.float32)
    assert sorted(top_slots(scores, count).tolist()) == sort_and_take(scores, count)


@given(sizes, st.integers(1, 20), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_top_slots_do_not_depend_on_block_boundaries(size: int, count: int, seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(0, 50, size).astype(np.float32) * (random.random(size) < share)
    scores = scores.astype(np.float32)
    assert sorted(top_slots(scores, count).tolist()) == sort_and_take(scores, count)


@pytest.mark.parametrize("count", [1, 10, 10**9])
def test_the_scores_are_left_as_they_are(count: int) -> None:
    scores = np.arange(1_000, dtype=np.float32)
    before = scores.copy()
    top_slots(scores, count)
    assert (scores == before).all()
