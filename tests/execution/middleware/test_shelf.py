"""Values kept for a while: checked against the plainest way to do it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.execution.middleware.cache import Shelf

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 40)),
        st.tuples(st.just("get"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("rest"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("clear"), st.integers(0, 5), st.just(0)),
    ),
    max_size=40,
)


class Plain:
    """The same in a list: the least recently used first."""

    def __init__(self, max_entries: int, max_bytes: int, ttl: float) -> None:
        self.limits = max_entries, max_bytes
        self.ttl = ttl
        self.kept: list[tuple[int, Any, int, float]] = []

    def get(self, key: int, now: float) -> Any:
        for entry in self.kept:
            if entry[0] == key:
                self.kept.remove(entry)
                if now < entry[3]:
                    self.kept.append(entry)
                    return entry[1]
        return None

    def put(self, key: int, value: Any, size: int, now: float) -> None:
        self.clear(key)
        if size <= self.limits[1]:
            self.kept.append((key, value, size, now + self.ttl))
        while len(self.kept) > self.limits[0] or self.size > self.limits[1]:
            del self.kept[0]

    def clear(self, key: int) -> None:
        self.kept = [entry for entry in self.kept if entry[0] != key]

    @property
    def size(self) -> int:
        return sum(entry[2] for entry in self.kept)


@given(max_entries=st.integers(0, 4), max_bytes=st.integers(0, 60), ttl=st.integers(0, 6), steps=STEPS)
def test_a_shelf_does_as_the_plainest_one_would(
    max_entries: int, max_bytes: int, ttl: int, steps: list[tuple[str, int, int]]
) -> None:
    now = 0.0
    shelf: Shelf[int, Any] = Shelf(max_entries=max_entries, max_bytes=max_bytes, ttl=ttl, clock=lambda: now)
    plain = Plain(max_entries, max_bytes, ttl)
    for number, (what, key, size) in enumerate(steps):
        if what == "put":
            shelf.put(key, number, size)
            plain.put(key, number, size, now)
        elif what == "get":
            assert shelf.get(key) == plain.get(key, now)
        elif what == "rest":
            now += key
        else:
            shelf.clear(lambda other, key=key: other == key)
            plain.clear(key)
        assert (len(shelf), shelf.size) == (len(plain.kept), plain.size)
