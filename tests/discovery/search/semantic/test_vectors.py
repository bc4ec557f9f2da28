"""A table of vectors: its contents, and cosines that are the same wherever a vector stands."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolcrib.discovery.search.semantic.vectors import Precision, VectorTable

PRECISIONS: tuple[Precision, ...] = ("int8", "int16")
BOTH = pytest.mark.parametrize("precision", PRECISIONS)


def random_vectors(count: int, dimensions: int, seed: int = 0) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def filled(vectors: NDArray[np.float32], precision: Precision = "int8") -> VectorTable:
    table = VectorTable(vectors.shape[1], precision=precision)
    table.add(table.pack(vectors))
    return table


@pytest.mark.parametrize(("precision", "error"), [("int8", 0.002), ("int16", 0.0002)])
@pytest.mark.parametrize("dimensions", [1, 7, 256, 384, 1536])
def test_cosines_are_near_to_the_exact_ones(precision: Precision, error: float, dimensions: int) -> None:
    vectors = random_vectors(500, dimensions)
    query = random_vectors(1, dimensions, seed=1)[0]
    found = filled(vectors, precision).cosines(query)
    assert found.dtype == np.float32
    assert np.abs(found - vectors @ query).mean() < error


@BOTH
@pytest.mark.parametrize("dimensions", [2, 256, 3072, 16_384])
def test_sums_are_exact_even_for_the_longest_rows(precision: Precision, dimensions: int) -> None:
    signs = np.sign(random_vectors(8, dimensions))
    table = filled(np.concatenate((signs, random_vectors(8, dimensions, seed=2))), precision)
    query = signs[0] * np.linspace(0.5, 1, dimensions, dtype=np.float32)
    packed = table.copy_rows(table.slots())
    unit = query.astype(np.float64) / np.linalg.norm(query.astype(np.float64))
    cosines = table.cosines(query)
    exact = packed.rows.astype(np.float64) @ unit / np.linalg.norm(packed.rows.astype(np.float64), axis=1)
    assert cosines == pytest.approx(exact, abs=0.002)
    again = np.concatenate([table.cosines(query, np.array([slot])) for slot in table.slots()])
    assert cosines.tolist() == again.tolist()


@BOTH
def test_a_cosine_is_the_same_to_the_last_bit_wherever_the_vector_stands(precision: Precision) -> None:
    vectors = random_vectors(3000, 100)
    query = random_vectors(1, 100, seed=3)[0]
    order = np.random.default_rng(4).permutation(3000)
    straight = filled(vectors, precision).cosines(query)
    shuffled = filled(vectors[order], precision).cosines(query)
    assert shuffled.tolist() == straight[order].tolist()
    few = filled(vectors[order[:17]], precision).cosines(query)
    assert few.tolist() == shuffled[:17].tolist()


@BOTH
def test_a_vector_of_zeros_and_a_query_of_zeros_are_like_nothing(precision: Precision) -> None:
    table = filled(np.array([[0, 0, 0], [1, 2, 3]], np.float32), precision)
    assert table.cosines(np.array([1, 2, 3])).tolist() == [0, pytest.approx(1, abs=0.001)]
    assert table.cosines(np.zeros(3)).tolist() == [0, 0]


@BOTH
def test_opposite_and_equal_vectors_stay_within_one(precision: Precision) -> None:
    vectors = random_vectors(50, 33)
    table = filled(np.concatenate((vectors, -vectors)), precision)
    for vector in vectors:
        found = table.cosines(vector)
        assert found.max() <= 1
        assert found.min() >= -1


def test_cosines_of_chosen_slots_come_in_their_order() -> None:
    vectors = random_vectors(2000, 200)
    table = filled(vectors)
    slots = np.random.default_rng(5).permutation(2000)[:1500]
    assert table.cosines(vectors[0], slots).tolist() == table.cosines(vectors[0])[slots].tolist()
    assert table.cosines(vectors[0], slots[:0]).tolist() == []


def test_an_empty_table_answers() -> None:
    table = VectorTable(4)
    slots, cosines = table.nearest(np.ones(4), 3)
    assert (len(table), slots.tolist(), cosines.tolist()) == (0, [], [])


def test_the_best_are_as_many_as_asked_and_what_ties_with_the_last() -> None:
    table = filled(np.array([[1, 0], [0, 1], [1, 1], [0, 1], [0, 1]], np.float32))
    north = np.array([0, 1])
    assert table.nearest(north, 1)[0].tolist() == [1, 3, 4]
    assert table.nearest(north, 4)[0].tolist() == [1, 2, 3, 4]
    assert table.nearest(north, 99)[0].tolist() == [0, 1, 2, 3, 4]
    slots, cosines = table.nearest(north, 1, np.array([2, 0]))
    assert slots.tolist() == [2]
    assert cosines.tolist() == [pytest.approx(0.7071, abs=0.001)]


def test_a_slot_that_was_given_up_is_given_out_again_and_never_found_between() -> None:
    vectors = random_vectors(10, 8)
    table = filled(vectors)
    table.remove(np.array([3, 7]))
    assert len(table) == 8
    assert 3 not in table.nearest(vectors[3], 8)[0]
    assert table.add(table.pack(vectors[:1])).tolist() == [3]
    assert table.add(table.pack(vectors[1:4])).tolist() == [7, 10, 11]
    assert table.slots().tolist() == list(range(12))


def test_slots_removed_at_the_end_are_not_compared() -> None:
    vectors = random_vectors(100, 8)
    table = filled(vectors)
    table.remove(np.arange(100))
    assert len(table) == 0
    assert table.add(table.pack(vectors[:2])).tolist() == [0, 1]


def test_many_single_additions_grow_the_table_rarely() -> None:
    table = VectorTable(4)
    row = table.pack(np.ones((1, 4)))
    sizes = {table.nbytes for _ in range(5000) if table.add(row) is not None}
    assert len(table) == 5000
    assert len(sizes) < 15


def test_a_row_of_int8_takes_nine_bits_for_each_dimension() -> None:
    assert filled(random_vectors(1000, 256)).nbytes < 1000 * (256 + 256 // 8 + 8)
    assert filled(random_vectors(1000, 256), "int16").nbytes < 1000 * (512 + 256 // 8 + 8)


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "replace"]), st.integers(0, 30)), max_size=60))
def test_a_table_keeps_what_was_put_in_it(steps: list[tuple[str, int]]) -> None:
    vectors = random_vectors(31, 16)
    queries = random_vectors(3, 16, seed=6)
    table = VectorTable(16)
    model: dict[int, int] = {}
    for step, number in steps:
        packed = table.pack(vectors[number : number + 1])
        slots = np.array(sorted(model), np.intp)
        if step == "add":
            (slot,) = table.add(packed).tolist()
            assert slot not in model
            model[slot] = number
        elif model:
            chosen = slots[number % len(slots)][None]
            if step == "remove":
                table.remove(chosen)
                del model[int(chosen[0])]
            else:
                table.replace(chosen, packed)
                model[int(chosen[0])] = number
    live = sorted(model)
    assert table.slots().tolist() == live
    assert len(table) == len(live)
    fresh = filled(vectors)
    for query in queries:
        expected = fresh.cosines(query)[[model[slot] for slot in live]]
        assert table.cosines(query).tolist() == expected.tolist()


# A question of several parts


@BOTH
def test_similarity_is_the_mean_of_the_whole_and_the_best_part(precision: Precision) -> None:
    vectors = random_vectors(500, 64)
    query = random_vectors(4, 64, seed=7)
    table = filled(vectors, precision)
    whole, *parts = (table.cosines(row) for row in query)
    found = table.cosines(query)
    assert (found.dtype, found.shape) == (np.float32, (500,))
    assert found.tolist() == ((whole + np.max(parts, axis=0)) / 2).tolist()


@BOTH
def test_with_several_rows_too_a_cosine_is_the_same_wherever_the_vector_stands(precision: Precision) -> None:
    vectors = random_vectors(6000, 100)
    query = random_vectors(5, 100, seed=8)
    order = np.random.default_rng(9).permutation(6000)
    straight = filled(vectors, precision).cosines(query)
    table = filled(vectors[order], precision)
    assert table.cosines(query).tolist() == straight[order].tolist()
    slots = np.random.default_rng(10).permutation(6000)[:37]
    assert table.cosines(query, slots).tolist() == straight[order][slots].tolist()
    table.remove(np.arange(0, 6000, 3))
    assert table.cosines(query).tolist() == straight[order][table.slots()].tolist()
    best, cosines = table.nearest(query, 10)
    assert sorted(cosines.tolist()) == sorted(straight[order][table.slots()].tolist())[-10:]
    assert cosines.tolist() == straight[order][best].tolist()


def test_zeros_and_equal_rows_among_several_stay_within_bounds() -> None:
    vectors = random_vectors(50, 33)
    table = filled(np.concatenate((vectors, np.zeros((1, 33), np.float32))))
    alike = table.cosines(np.stack([vectors[0]] * 3))
    assert alike.tolist() == table.cosines(vectors[0]).tolist()
    assert alike[-1] == 0
    assert np.abs(alike).max() <= 1


# Signs


def test_search_by_signs_finds_the_same_best() -> None:
    vectors, queries = random_vectors(6000, 64), random_vectors(20, 64, seed=11)
    near = queries[:, None] + random_vectors(20 * 30, 64, seed=12).reshape(20, 30, 64) * 0.5
    table = filled(np.concatenate((vectors, near.reshape(-1, 64))))
    for query in [*queries, queries[:1].repeat(3, axis=0)]:
        exact, found = (
            sorted(table.nearest(query, 10, approximate=rough)[0].tolist()) for rough in (False, True)
        )
        assert found == exact


def test_search_by_signs_skips_removed_slots() -> None:
    vectors = random_vectors(5000, 64)
    table = filled(vectors)
    table.remove(np.arange(4950))
    found, cosines = table.nearest(vectors[0], 20, approximate=True)
    assert (len(found), len(cosines)) == (20, 20)
    assert found.min() >= 4950


def test_search_by_signs_does_not_depend_on_freed_slots() -> None:
    vectors, queries = random_vectors(140_000, 64), random_vectors(5, 64, seed=13)
    table, fresh = filled(vectors), filled(vectors[1::2])
    table.remove(np.arange(0, 140_000, 2))
    for query in queries:
        found, cosines = table.nearest(query, 64, approximate=True)
        assert (found // 2).tolist() == fresh.nearest(query, 64, approximate=True)[0].tolist()
        assert cosines.tolist() == table.cosines(query)[found // 2].tolist()


def test_exact_search_compares_all_numbers() -> None:
    alike = np.abs(random_vectors(5000, 8))
    table = filled(np.concatenate((alike, np.zeros((1, 8), np.float32))))
    exact = set(table.nearest(alike[0], 10)[0].tolist())
    assert set(np.argsort(-table.cosines(alike[0]), kind="stable")[:10].tolist()) == exact


@BOTH
@pytest.mark.parametrize("dimensions", [1, 3, 64, 100, 256])
def test_signs_are_those_of_the_hadamard_transform(precision: Precision, dimensions: int) -> None:
    packed = VectorTable(dimensions, precision=precision).pack(random_vectors(1100, dimensions))
    transform = np.ones((1, 1))
    while len(transform) < max(64, dimensions):
        transform = np.block([[transform, transform], [transform, -transform]])
    signs = packed.rows.astype(np.float64) @ transform[:dimensions] > 0
    assert np.unpackbits(packed.signs.view(np.uint8), axis=1).astype(np.bool_).tolist() == signs.tolist()
