"""The bounded memory of functions."""

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.search.memo import Memo


@given(st.lists(st.text(max_size=4)), st.integers(1, 5))
def test_memo_returns_computed_values_and_stays_within_its_limit(keys: list[str], limit: int) -> None:
    memo = Memo(str.upper, limit=limit, keeps=lambda key, _: len(key) < 3)
    for key in keys:
        assert memo[key] == key.upper()
        assert len(memo) <= limit
    assert all(len(key) < 3 for key in memo)


def test_memo_computes_a_kept_value_once() -> None:
    computed: list[str] = []
    memo = Memo(computed.append, limit=2, keeps=lambda *_: True)
    for key in ("a", "b", "a", "c", "a"):
        assert memo[key] is None
    assert computed == ["a", "b", "c", "a"]
