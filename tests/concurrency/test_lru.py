"""LruCache: insertion, eviction, and their order."""

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.concurrency.lru import LruCache

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["get", "put", "pop"]), st.integers(0, 5), st.integers(0, 12)), max_size=60
)


@given(ACTIONS, st.integers(0, 4), st.integers(0, 20))
def test_cache_equals_a_plain_model(actions: list[tuple[str, int, int]], most: int, heaviest: int) -> None:
    cache: LruCache[int, str] = LruCache(most, max_weight=heaviest)
    model: OrderedDict[int, tuple[str, int]] = OrderedDict()
    for number, (action, key, weight) in enumerate(actions):
        if action == "put":
            model.pop(key, None)
            expected = []
            if weight <= heaviest and most:
                model[key] = f"{number}", weight
                while len(model) > most or sum(each for _, each in model.values()) > heaviest:
                    expected.append(model.popitem(last=False)[1][0])
            assert cache.put(key, f"{number}", weight) == expected
        elif action == "get":
            if key in model:
                model.move_to_end(key)
            assert cache.get(key) == model.get(key, (None,))[0]
        else:
            assert cache.pop(key) == model.pop(key, (None,))[0]
        assert list(cache) == list(model)
        assert cache.values() == [value for value, _ in model.values()]
        assert cache.weight == sum(each for _, each in model.values())
        assert [each in cache for each in range(6)] == [each in model for each in range(6)]


def test_clear_removes_the_keys_that_match() -> None:
    cache: LruCache[int, str] = LruCache(10)
    for number in range(10):
        cache.put(number, f"{number}", weight=1)
    cache.clear(lambda key: key % 2 == 0)
    assert (list(cache), cache.weight) == ([1, 3, 5, 7, 9], 5)
    cache.clear()
    assert (len(cache), cache.weight) == (0, 0)


def test_threads_can_share_a_cache() -> None:
    cache: LruCache[int, int] = LruCache(8, max_weight=50)

    def use(start: int) -> None:
        for number in range(start, start + 2_000):
            cache.put(number % 20, number, weight=number % 11)
            cache.get((number * 7) % 20)
            cache.pop((number * 3) % 20)
            list(cache)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    assert len(cache) <= 8
    assert cache.weight == sum(value % 11 for value in cache.values()) <= 50
