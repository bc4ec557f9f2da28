"""Vectors by document id, looked at one by one or found by a graph of neighbours."""

import sys

import numpy as np
import pytest
from discovery.support import DIMENSIONS, WordEmbedder, make, word_vector
from numpy.typing import NDArray

from toolcrib.discovery import EmbeddingSearcher
from toolcrib.discovery.search.semantic.documents import DocumentVectors, VectorUpdate
from toolcrib.discovery.search.semantic.graph import NeighbourGraph
from toolcrib.discovery.search.semantic.vectors import Precision

LIMIT = 100


def vectors(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Return vectors in clusters, as those of real tools are."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((max(1, count // 10), DIMENSIONS))
    found = centres[random.integers(0, len(centres), count)] + random.standard_normal((count, DIMENSIONS)) / 2
    return found.astype(np.float32)


def put(
    documents: DocumentVectors, rows: NDArray[np.float32], first: int = 0, removed: tuple[str, ...] = ()
) -> None:
    ids = [f"tool_{first + number:05}" for number in range(len(rows))]
    documents.apply(
        VectorUpdate(removed, ids, [f"hash of {one} {first}" for one in ids], documents.table.pack(rows))
    )


def filled(
    rows: NDArray[np.float32], *, limit: int = LIMIT, precision: Precision = "int8"
) -> DocumentVectors:
    documents = DocumentVectors(DIMENSIONS, precision=precision, exact_limit=limit)
    put(documents, rows)
    return documents


def link(documents: DocumentVectors) -> None:
    documents.link(documents.unlinked())


def exact(documents: DocumentVectors, query: NDArray[np.float32], count: int) -> list[tuple[str, float]]:
    ids = [documents._ids[slot] for slot in documents.table.slots().tolist()]
    cosines = documents.cosines(query, ids)
    return sorted(zip(ids, cosines.tolist(), strict=True), key=lambda one: (-one[1], one[0]))[:count]


def recall(documents: DocumentVectors, queries: NDArray[np.float32]) -> float:
    found = [len(set(documents.nearest(one, 10).found) & set(exact(documents, one, 10))) for one in queries]
    return sum(found) / len(queries) / 10


def test_few_documents_are_looked_at_one_by_one() -> None:
    documents = filled(vectors(LIMIT))
    link(documents)
    assert documents.method == "exact"
    assert documents.unlinked() == []


@pytest.mark.parametrize("precision", ["int8", pytest.param("int16", marks=pytest.mark.proof)])
def test_many_documents_are_found_by_a_graph_with_the_cosines_of_the_table(precision: Precision) -> None:
    documents = filled(vectors(2000), precision=precision)
    assert documents.method == "exact"
    link(documents)
    assert documents.method == "graph"
    queries = vectors(50, seed=1)
    assert recall(documents, queries) > 0.98
    for query in queries:
        best = documents.nearest(query, 10).found
        assert [cosine for _, cosine in best] == documents.cosines(query, [name for name, _ in best]).tolist()


def test_the_same_documents_in_another_order_make_the_same_graph() -> None:
    rows = vectors(1000)
    order = np.random.default_rng(2).permutation(1000)
    straight, shuffled = (DocumentVectors(DIMENSIONS, precision="int8", exact_limit=LIMIT) for _ in range(2))
    ids = [f"tool_{number}" for number in range(1000)]
    straight.apply(VectorUpdate((), ids, ids, straight.table.pack(rows)))
    mixed = [ids[number] for number in order]
    shuffled.apply(VectorUpdate((), mixed, mixed, shuffled.table.pack(rows[order])))
    link(straight)
    link(shuffled)
    for query in vectors(30, seed=3):
        assert straight.nearest(query, 10).found == shuffled.nearest(query, 10).found


def test_unlinked_documents_are_found_beside_the_graph() -> None:
    documents = filled(vectors(1000))
    link(documents)
    fresh = vectors(20, seed=4)
    put(documents, fresh, first=1000)
    assert documents.method == "graph"
    for number, row in enumerate(fresh):
        assert documents.nearest(row, 1).found[0][0] == f"tool_{1000 + number:05}"
    assert len(documents.unlinked()) == 20
    link(documents)
    assert documents.unlinked() == []
    for number, row in enumerate(fresh):
        assert documents.nearest(row, 1).found[0][0] == f"tool_{1000 + number:05}"


def test_a_replaced_vector_is_found_where_it_is_and_not_where_it_was() -> None:
    rows = vectors(1000)
    documents = filled(rows)
    link(documents)
    moved = vectors(5, seed=5)
    put(documents, moved)
    link(documents)
    for number in range(5):
        name = f"tool_{number:05}"
        assert documents.nearest(moved[number], 1).found[0][0] == name
        assert (name, pytest.approx(1, abs=0.01)) not in documents.nearest(rows[number], 10).found
    assert documents.outdated({"tool_00000": "hash of tool_00000 0"}) == {}


def test_a_removed_document_is_not_found() -> None:
    rows = vectors(1000)
    documents = filled(rows)
    link(documents)
    put(documents, rows[:0], removed=("tool_00007", "unknown"))
    assert "tool_00007" not in [name for name, _ in documents.nearest(rows[7], 50).found]
    assert documents.outdated({"tool_00007": "any"}) == {"tool_00007": "any"}
    assert recall(documents, vectors(20, seed=6)) > 0.98


def test_after_many_changes_the_graph_is_built_afresh() -> None:
    rows = vectors(600)
    documents = filled(rows)
    link(documents)
    put(documents, vectors(250, seed=7))
    link(documents)
    assert documents.method == "graph"
    assert recall(documents, vectors(20, seed=8)) > 0.98


def test_a_graph_that_is_mostly_stale_is_given_up() -> None:
    rows = vectors(600)
    documents = filled(rows)
    link(documents)
    put(documents, rows[:0], removed=tuple(f"tool_{number:05}" for number in range(350)))
    assert documents.method == "exact"
    query = rows[400]
    assert documents.nearest(query, 5).found == exact(documents, query, 5)


def test_neighbours_that_are_all_gone_are_made_up_for_by_looking_at_each() -> None:
    near = np.ones((150, DIMENSIONS), np.float32) + vectors(150) / 100
    documents = filled(np.concatenate((near, vectors(400, seed=9))))
    link(documents)
    put(documents, near[:0], removed=tuple(f"tool_{number:05}" for number in range(150)))
    assert documents.method == "graph"
    query = np.ones(DIMENSIONS, np.float32)
    assert documents.nearest(query, 10).found == exact(documents, query, 10)


def test_a_catalogue_that_has_become_small_has_no_graph() -> None:
    documents = filled(vectors(150))
    link(documents)
    assert documents.method == "graph"
    put(documents, vectors(0), removed=tuple(f"tool_{number:05}" for number in range(60)))
    link(documents)
    assert documents.method == "exact"


def test_very_many_hits_and_chosen_ids_are_looked_at_one_by_one() -> None:
    rows = vectors(1500)
    documents = filled(rows)
    link(documents)
    query = rows[3]
    assert documents.nearest(query, 700).found == exact(documents, query, 700)
    among = {f"tool_{number:05}" for number in range(0, 1500, 2)}
    expected = [one for one in exact(documents, query, 1500) if one[0] in among][:10]
    assert documents.nearest(query, 10, among).found == expected
    assert (
        documents.nearest(query, 10, among | {f"unknown {number}" for number in range(2000)}).found
        == expected
    )


def test_vectors_of_zeros_stay_out_of_the_graph_and_score_zero() -> None:
    rows = vectors(300)
    rows[5] = 0
    documents = filled(rows)
    link(documents)
    assert documents.unlinked() == ["tool_00005"]
    assert documents.cosines(rows[0], ["tool_00005"]).tolist() == [0]
    assert documents.method == "graph"


def test_documents_that_went_between_are_not_put_in_the_graph() -> None:
    rows = vectors(300)
    documents = filled(rows)
    waiting = documents.unlinked()
    put(documents, rows[:0], removed=("tool_00001",))
    documents.link(waiting)
    documents.link(waiting)
    assert documents.unlinked() == []
    assert len(documents) == 299


def test_a_question_of_several_parts_is_found_by_the_graph_with_the_cosines_of_the_table() -> None:
    documents = filled(vectors(2000))
    questions = vectors(80, seed=11).reshape(20, 4, DIMENSIONS)
    expected = [documents.nearest(question, 10).found for question in questions]
    link(documents)
    assert documents.method == "graph"
    shared = 0
    for question, exactly in zip(questions, expected, strict=True):
        best = documents.nearest(question, 10).found
        ids = [name for name, _ in best]
        assert [cosine for _, cosine in best] == documents.cosines(question, ids).tolist()
        shared += len(set(best) & set(exactly))
    assert shared / 200 > 0.95


def test_vectors_come_in_the_order_asked_for_with_the_length_one() -> None:
    rows = vectors(50)
    documents = filled(rows)
    found = documents.vectors(["tool_00007", "unknown", "tool_00003", "tool_00007"])
    assert (found.dtype, found.shape) == (np.float32, (4, DIMENSIONS))
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert found[0] == pytest.approx(units[7], abs=0.01)
    assert found[2] == pytest.approx(units[3], abs=0.01)
    assert np.linalg.norm(found, axis=1).tolist() == pytest.approx([1, 0, 1, 1])
    assert found[0].tolist() == found[3].tolist()
    assert documents.vectors([]).shape == (0, DIMENSIONS)


def test_a_vector_is_the_same_whoever_else_is_asked_for() -> None:
    documents = filled(vectors(300))
    ids = [f"tool_{number:05}" for number in range(300)]
    whole = documents.vectors(ids)
    for row, name in enumerate(ids[:50]):
        assert documents.vectors([name])[0].tolist() == whole[row].tolist()


def test_without_usearch_every_vector_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    assert NeighbourGraph.of(4) is None
    documents = filled(vectors(300))
    link(documents)
    documents.link(["tool_00001"])
    assert documents.method == "exact"
    query = vectors(1, seed=10)[0]
    assert documents.nearest(query, 10).found == exact(documents, query, 10)


def test_equal_vectors_go_by_id() -> None:
    documents = filled(np.ones((50, DIMENSIONS), np.float32))
    best = documents.nearest(np.ones(DIMENSIONS, np.float32), 5).found
    assert [name for name, _ in best] == [f"tool_{number:05}" for number in range(5)]


def test_a_searcher_builds_the_graph_when_it_prepares() -> None:
    searcher = EmbeddingSearcher(WordEmbedder(), exact_limit=50)
    searcher.update([make(f"tool_{number}", f"word{number}") for number in range(120)], [])
    before = searcher.search("tool word7", limit=1)
    assert (searcher.method, before[0].id) == ("exact", "tool_7")
    searcher.prepare()
    assert searcher.method == "graph"
    assert searcher.search("tool word7", limit=1) == before
    assert word_vector("tool").shape == (DIMENSIONS,)
