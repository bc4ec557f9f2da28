from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.concurrency.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_the_first_pause_is_no_longer_than_the_longest() -> None:
    assert Backoff(5.0, 2.0).next() == 2.0


def test_without_a_longest_they_grow_for_ever_and_never_overflow() -> None:
    backoff = Backoff(1.0)
    assert [backoff.next() for _ in range(2000)][-1] == float("inf")


def test_a_success_makes_the_next_pause_the_first_again() -> None:
    backoff = Backoff(1.0, 60.0, factor=3.0)
    assert [backoff.next(), backoff.next()] == [1.0, 3.0]
    backoff.reset()
    assert [backoff.next(), backoff.next()] == [1.0, 3.0]


def test_chance_shortens_a_pause_and_not_those_after_it() -> None:
    chances = iter([1.0, 0.0, 0.5])
    backoff = Backoff(8.0, jitter=0.25, chance=lambda: next(chances))
    assert [backoff.next() for _ in range(3)] == [6.0, 16.0, 28.0]


@given(st.floats(0, 100), st.floats(0, 100), st.floats(1, 10), st.floats(0, 1))
def test_every_pause_is_within_its_bounds(first: float, longest: float, factor: float, jitter: float) -> None:
    exact = Backoff(first, longest, factor=factor)
    jittered = Backoff(first, longest, factor=factor, jitter=jitter)
    pauses = [(exact.next(), jittered.next()) for _ in range(20)]
    assert all(pause * (1 - jitter) <= shorter <= pause <= longest for pause, shorter in pauses)
    assert all(before <= after for (before, _), (after, _) in pairwise(pauses))
