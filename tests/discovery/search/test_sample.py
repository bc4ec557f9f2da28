"""A sample is the same for the same ids, however they came and went."""

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery.search.hybrid import Sample

SIZE = 256
ids = st.text(max_size=3) | st.sampled_from(["a", "b", "c", "ns:d", "\ud800"])
updates = st.lists(st.tuples(st.lists(ids, max_size=6), st.lists(ids, max_size=6)), max_size=8)


def expected(known: set[str]) -> list[str]:
    return sorted(known, key=lambda one: (crc32(one.encode(errors="surrogatepass")), one))[:SIZE]


@law(20)
@given(updates)
def test_a_sample_is_made_of_what_was_added_and_not_removed_since(
    done: list[tuple[list[str], list[str]]],
) -> None:
    sample, known = Sample(), set[str]()
    for added, removed in done:
        sample.update(added, removed)
        known = (known - set(removed)) | set(added)
        assert sample.ids == expected(known)


def test_few_and_many_at_a_time_give_the_same_sample() -> None:
    names = [f"n{number % 7}:tool_{number}" for number in range(3_000)]
    at_once, one_by_one, late = Sample(), Sample(), Sample()
    at_once.update(names, ())
    for name in reversed(names):
        one_by_one.update([name], ())
    late.update([*names, *(f"x{name}" for name in names)], ())
    late.update([], [f"x{name}" for name in names])
    assert at_once.ids == one_by_one.ids == late.ids == expected(set(names))
    assert len(at_once.ids) == SIZE


def test_unknown_id_can_be_removed_and_known_id_added() -> None:
    sample = Sample()
    sample.update(["a", "a"], ["a", "b"])
    sample.update(["a"], ["z"])
    assert sample.ids == ["a"]
    many = [f"t{number}" for number in range(2_000)]
    sample.update(["a", *many], [*many, "b"])
    sample.update([], many)
    assert sample.ids == ["a"]


def test_a_sample_that_was_handed_out_does_not_change() -> None:
    sample = Sample()
    sample.update(["a"], ())
    handed = sample.ids
    handed.append("x")
    sample.update(["b"], ["a"])
    assert handed == ["a", "x"]
    assert sample.ids == ["b"]
