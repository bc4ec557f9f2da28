"""The learnt verdict on whether a tool does what a question asks."""

import shutil
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from discovery.support import DIMENSIONS, DictCache, WordEmbedder, make
from numpy.typing import NDArray

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, HybridSearcher, StaticEmbedder, load_embedder
from toolcrib.discovery.search.confidence import (
    JUDGE,
    Features,
    RelevanceClassifier,
    order_confidences,
    read_judge,
)
from toolcrib.discovery.search.semantic import named
from toolcrib.errors import EmbeddingError

CATALOGUE = [
    make("send_mail", "Send a message to somebody."),
    make("get_weather", "Tell the weather forecast of a city."),
    make("create_issue", "Open an issue in a repository."),
    make("play_song", "Play a track by its title."),
    make("book_flight", "Reserve a seat on a plane."),
]
QUESTIONS = ["send a message about the weather", "issue", "open the track of the city by mail", "a seat"]


class Judging(WordEmbedder):
    """An embedder that brings a judge."""

    def __init__(self, judge: RelevanceClassifier | None) -> None:
        super().__init__()
        self.judge = judge


def floats(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


def some_judge(dimensions: int = DIMENSIONS, *, scale: float = 1.0) -> RelevanceClassifier:
    weights = np.random.default_rng(5).standard_normal(3 + 2 * dimensions) * scale
    return RelevanceClassifier(weights.astype(np.float32), -0.5)


def some_evidence(rows: int, dimensions: int = DIMENSIONS) -> Features:
    chance = np.random.default_rng(6)
    signals = chance.random((3, rows)).astype(np.float32) * 4
    vectors = chance.standard_normal((rows + 1, dimensions)).astype(np.float32)
    return Features(*signals, vectors[0], vectors[1:])


def part(evidence: Features, rows: slice) -> Features:
    signals = (evidence.matched[rows], evidence.coverage[rows], evidence.cosines[rows])
    return Features(*signals, evidence.question, evidence.tools[rows])


def hybrid(embedder: Any, cache: DictCache | None = None) -> HybridSearcher:
    searcher = HybridSearcher(Bm25Searcher(), EmbeddingSearcher(embedder, cache=cache))
    searcher.update(CATALOGUE)
    return searcher


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the built-in model."""
    return Path(shutil.copytree(Path(named.__file__).parent / "static_model", tmp_path / "model"))


# What is weighed


def test_evidence_is_the_signals_the_products_and_the_differences() -> None:
    evidence = Features(
        matched=floats(0, np.e - 1),
        coverage=floats(0.5, 9),
        cosines=floats(0.1, -0.2),
        question=floats(1, 2),
        tools=np.array([[3, -1], [0, 2]], np.float32),
    )
    assert evidence.features.dtype == np.float32
    np.testing.assert_allclose(
        evidence.features,
        [[0, 0.5, 0.1, 3, -2, 2, 3], [1, 1.5, -0.2, 0, 4, 1, 0]],
        rtol=1e-6,
    )


def test_a_verdict_is_the_likelihood_of_the_weighed_sum() -> None:
    judge = RelevanceClassifier(floats(1, 0, 0, 2, 0, 0, 0), -3.0)
    evidence = Features(floats(0), floats(0), floats(0), floats(1, 0), np.array([[1, 5]], np.float32))
    assert judge.confidences(evidence) == [pytest.approx(1 / (1 + np.e))]


@pytest.mark.parametrize("scale", [0, 1, 1e30])
def test_confidences_are_finite_and_never_certain(scale: float) -> None:
    found = some_judge(scale=scale).confidences(some_evidence(200))
    assert len(found) == 200
    assert all(type(one) is float and isfinite(one) for one in found)
    assert all(0 < one <= 1 for one in found)
    assert some_judge().confidences(some_evidence(0)) == []


@pytest.mark.parametrize("dimensions", [4, 32, 100, 256])
def test_a_verdict_is_the_same_to_the_last_bit_however_many_are_judged(dimensions: int) -> None:
    judge, evidence = some_judge(dimensions), some_evidence(120, dimensions)
    whole = judge.confidences(evidence)
    for size in (1, 2, 7, 50):
        pieces = [part(evidence, slice(start, start + size)) for start in range(0, 120, size)]
        assert [one for piece in pieces for one in judge.confidences(piece)] == whole


def test_a_judge_of_other_vectors_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="has 11 weights, and vectors of 32 numbers need 67"):
        some_judge(4).confidences(some_evidence(2))


# The file


def test_a_judge_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    judge = some_judge()
    judge.save(tmp_path)
    again = read_judge(tmp_path)
    assert again is not None
    assert again.weights.tolist() == judge.weights.tolist()
    assert again.bias == judge.bias
    evidence = some_evidence(9)
    assert again.confidences(evidence) == judge.confidences(evidence)


def test_a_folder_without_a_judge_has_none(tmp_path: Path) -> None:
    assert read_judge(tmp_path) is None


def file_content(*, in_a_zip: bool = True, **arrays: Any) -> bytes:
    file = BytesIO()
    if in_a_zip:
        np.savez(file, **arrays)
    else:
        np.save(file, arrays["weights"])
    return file.getvalue()


GOOD = file_content(weights=np.ones(9, np.float32), bias=np.float32(1))
ODD = {
    "empty": b"",
    "text": b"no numbers at all",
    "cut": GOOD[: len(GOOD) // 2],
    "damaged": GOOD[:200] + bytes(40) + GOOD[240:],
    "one array": file_content(in_a_zip=False, weights=np.ones(9)),
    "no bias": file_content(weights=np.ones(9)),
    "no weights": file_content(bias=1.0),
    "two biases": file_content(weights=np.ones(9), bias=np.ones(2)),
    "a matrix": file_content(weights=np.ones((9, 2)), bias=1.0),
    "words": file_content(weights=np.array(["a", "b"]), bias=1.0),
    "objects": file_content(weights=np.array([object()], object), bias=1.0),
    "not finite": file_content(weights=floats(1, np.nan), bias=1.0),
    "an endless bias": file_content(weights=np.ones(9), bias=np.inf),
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_a_file_that_is_no_judge_is_an_error_that_names_the_folder(tmp_path: Path, content: bytes) -> None:
    (tmp_path / JUDGE).write_bytes(content)
    with pytest.raises(EmbeddingError, match=r"'judge\.npz' (cannot be read|must hold)") as caught:
        read_judge(tmp_path)
    assert repr(str(tmp_path)) in str(caught.value)


# In a search


def test_the_judge_of_the_model_decides_how_far_a_result_is_trusted() -> None:
    certain = hybrid(Judging(RelevanceClassifier(np.zeros(3 + 2 * DIMENSIONS, np.float32), 40.0)))
    assert {hit.confidence for hit in certain.search("send a message", limit=5)} == {1.0}
    doubting = hybrid(Judging(RelevanceClassifier(np.zeros(3 + 2 * DIMENSIONS, np.float32), 0.0)))
    assert {hit.confidence for hit in doubting.search("send a message", limit=5)} == {0.5}


def test_a_model_without_a_judge_is_trusted_by_words_and_cosines() -> None:
    plain, without = hybrid(WordEmbedder()), hybrid(Judging(None))
    for question in QUESTIONS:
        found = plain.search(question, limit=5)
        assert found
        assert found == without.search(question, limit=5)


def test_the_judge_orders_the_first_five_and_finds_nothing_else() -> None:
    for question in QUESTIONS:
        judged, plain = (
            hybrid(one).search(question, limit=10) for one in (Judging(some_judge()), WordEmbedder())
        )
        assert {hit.id for hit in judged[:5]} == {hit.id for hit in plain[:5]}
        assert [hit.id for hit in judged[5:]] == [hit.id for hit in plain[5:]]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("built_in", [True, False], ids=["the built-in table", "words"])
def test_a_tool_is_judged_by_itself_and_contradictions_are_averaged(question: str, built_in: bool) -> None:
    searcher = hybrid(load_embedder() if built_in else Judging(some_judge()))
    everything = searcher.search(question, limit=5)
    assert everything
    for count, hit in enumerate(everything):
        assert searcher.search(question, limit=count + 1)[-1] == hit
    alone = [searcher.search(question, limit=1, among={hit.id})[0] for hit in everything]
    assert [hit.id for hit in alone] == [hit.id for hit in everything]
    expected = order_confidences([hit.confidence for hit in alone])
    assert [hit.confidence for hit in everything] == expected


def test_evidence_of_chosen_tools_is_what_the_search_weighs() -> None:
    judge = some_judge()
    searcher = hybrid(Judging(judge))
    found = searcher.search(QUESTIONS[0], limit=5)
    evidence = searcher.compute_features(QUESTIONS[0], [hit.id for hit in found])
    assert evidence is not None
    assert order_confidences(judge.confidences(evidence)) == [hit.confidence for hit in found]
    assert searcher.compute_features("", ["send_mail"]) is None


def test_the_built_in_table_has_a_judge_of_its_size() -> None:
    embedder: Any = load_embedder()
    assert isinstance(embedder.judge, RelevanceClassifier)
    assert len(embedder.judge.weights) == 3 + 2 * embedder.dimensions


def test_a_table_without_a_judge_searches_on(folder: Path) -> None:
    with_judge = hybrid(StaticEmbedder(folder)).search("send a message", limit=5)
    (folder / JUDGE).unlink()
    without = hybrid(StaticEmbedder(folder)).search("send a message", limit=5)
    assert {hit.id for hit in without} == {hit.id for hit in with_judge}
    assert [hit.confidence for hit in without] != [hit.confidence for hit in with_judge]


@pytest.mark.parametrize(
    "content", [b"broken", file_content(weights=np.ones(9), bias=1.0)], ids=["broken", "other"]
)
def test_with_a_broken_judge_words_alone_decide(
    folder: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / JUDGE).write_bytes(content)
    words = Bm25Searcher()
    words.update(CATALOGUE)
    found = hybrid(StaticEmbedder(folder)).search("send a message", limit=5)
    assert found == words.search("send a message", limit=5)
    assert ["judge.npz" in record.getMessage() for record in caplog.records] == [True]
