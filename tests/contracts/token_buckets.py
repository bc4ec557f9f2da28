"""The contract of all token buckets, wherever they are kept; subclass it and provide `buckets`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import wait_until

from toolcrib.model.token_buckets import TokenBuckets, TokenRequest

HOUR = 3_600.0


def token(name: str, burst: int = 1, interval: float = HOUR) -> TokenRequest:
    """Return a request for a token of a bucket of this name."""
    return TokenRequest(name, burst, interval)


class TokenBucketsContract:
    """The contract of `TokenBuckets`."""

    @pytest.fixture
    def buckets(self) -> TokenBuckets | Iterator[TokenBuckets]:
        raise NotImplementedError

    def test_bucket_gives_its_burst_and_no_more(self, buckets: TokenBuckets) -> None:
        wanted = token("a", 3)
        assert [buckets.take_tokens([wanted]) for _ in range(3)] == [None] * 3
        for _ in range(2):
            shortage = buckets.take_tokens([wanted])
            assert shortage is not None
            assert shortage.request == wanted
            assert HOUR - 60 < shortage.wait <= HOUR

    def test_token_comes_back_after_the_interval(self, buckets: TokenBuckets) -> None:
        wanted = token("a", 1, 0.01)
        assert buckets.take_tokens([wanted]) is None
        wait_until(lambda: buckets.take_tokens([wanted]) is None, "there is a token again")

    def test_buckets_are_apart(self, buckets: TokenBuckets) -> None:
        assert buckets.take_tokens([token("a")]) is None
        assert buckets.take_tokens([token("b")]) is None
        assert buckets.take_tokens([token("a")]) is not None

    @pytest.mark.parametrize("names", ["ab", "ba"])
    def test_token_is_taken_of_all_buckets_or_of_none(self, buckets: TokenBuckets, names: str) -> None:
        buckets.take_tokens([token("b")])
        for _ in range(3):
            shortage = buckets.take_tokens([token(name) for name in names])
            assert shortage is not None
            assert shortage.request == token("b")
        assert buckets.take_tokens([token("a")]) is None

    def test_many_threads_get_no_more_than_there_is(self, buckets: TokenBuckets) -> None:
        def take(number: int) -> bool:
            other = token(f"other {number % 2}", 100)
            wanted = [token("a", 7), other] if number % 3 else [other, token("a", 7)]
            return buckets.take_tokens(wanted) is None

        with ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(take, range(40))) == 7
