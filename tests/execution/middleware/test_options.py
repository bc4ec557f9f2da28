"""The numbers that layers are made with: each can work, or is refused when the layer is made."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from toolcrib.errors import ConfigError
from toolcrib.execution.middleware import Cache, ConcurrencyLimit, RateLimit, Retry

HUGE = 10**400
NO_NUMBERS: list[Any] = [nan, "a", "1", None, True, [1], 1j]
NOT_WHOLE: list[Any] = [*NO_NUMBERS, 2.5, 2.0, inf, HUGE]
NOT_FINITE: list[Any] = [*NO_NUMBERS, inf, HUGE, -HUGE, -inf]


def expect_refusal(make: Callable[..., object], **options: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**options)
    assert [problem.path for problem in caught.value.problems] == [f"/{name}" for name in options]


@pytest.mark.parametrize("value", NOT_WHOLE, ids=str)
def test_counts_must_be_whole_numbers(value: Any) -> None:
    expect_refusal(Retry, attempts=value)
    expect_refusal(ConcurrencyLimit, limit=value)
    expect_refusal(Cache, max_entries=value)
    expect_refusal(Cache, max_bytes=value)
    with pytest.raises(ConfigError, match=r"/calls: must be a whole number"):
        RateLimit(value)
    if value is not None:
        with pytest.raises(ConfigError, match=r"/burst: must be a whole number"):
            RateLimit(1, burst=value)


@pytest.mark.parametrize("value", NOT_FINITE, ids=str)
def test_durations_must_be_finite_numbers(value: Any) -> None:
    for name in ("first_delay", "factor", "max_delay", "jitter"):
        expect_refusal(Retry, **{name: value})
    with pytest.raises(ConfigError, match="/per: "):
        RateLimit(1, value)


def test_no_pause_can_become_what_is_no_number() -> None:
    expect_refusal(Retry, factor=inf)
    Retry(first_delay=0, factor=1e308, max_delay=1e308)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=str)
def test_answers_are_kept_for_a_number_of_seconds(value: Any) -> None:
    expect_refusal(Cache, ttl=value)


@pytest.mark.parametrize(
    "ttl", [inf, HUGE, 0, 5], ids=["for ever", "for very long", "not at all", "for a while"]
)
def test_answers_may_be_kept_for_ever(ttl: Any) -> None:
    assert len(Cache(ttl=ttl)) == 0


def test_a_refusal_says_what_would_be_right() -> None:
    with pytest.raises(
        ConfigError, match=r"ConcurrencyLimit: /limit: must be a whole number, at least 1, not 2\.5"
    ):
        ConcurrencyLimit(2.5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"/factor: must be a finite number, at least 1, not inf"):
        Retry(factor=inf)
    with pytest.raises(ConfigError, match=r"/jitter: must be between 0 and 1, not 2"):
        Retry(jitter=2)
