"""The table of token vectors: its contents, refused files, and its cost."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contracts.embedder import TEXTS, LocalEmbedderContract
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery import StaticEmbedder
from toolcrib.errors import EmbeddingError

WORDS = sorted({word.strip(",") for text in TEXTS for word in text.lower().split()})
VOCABULARY = ["[UNK]", *WORDS, "!", ","]
VECTORS = (
    np.random.default_rng(7).normal(size=(len(VOCABULARY), 32))
    * np.geomspace(1e-3, 1e3, len(VOCABULARY))[:, None]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "static"
    StaticEmbedder.save(folder, VOCABULARY, VECTORS)
    return folder


@pytest.fixture
def embedder(folder: Path) -> StaticEmbedder:
    return StaticEmbedder(folder)


class TestContract(LocalEmbedderContract):
    burden = 20_000


def direction(*words: str) -> Any:
    total = sum(VECTORS[VOCABULARY.index(word)] for word in words)
    return total / np.linalg.norm(total)


def test_a_text_is_the_direction_of_the_sum_of_its_tokens(embedder: StaticEmbedder) -> None:
    rows = embedder.encode(["Send mail!", "send", "send send send", "send zzz"])
    np.testing.assert_allclose(rows[0], direction("send", "mail", "!"), atol=0.02)
    np.testing.assert_allclose(rows[1], direction("send"), atol=0.02)
    np.testing.assert_allclose(rows[1], rows[2], atol=1e-6)
    np.testing.assert_allclose(rows[3], direction("send", "[UNK]"), atol=0.02)


def test_a_text_without_tokens_becomes_zeros(embedder: StaticEmbedder) -> None:
    assert not embedder.encode(["", "\x00"]).any()


@given(
    rows=st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=4, max_size=4), min_size=1, max_size=8)
)
def test_a_row_comes_back_to_within_a_half_of_its_unit(
    tmp_path_factory: Any, rows: list[list[float]]
) -> None:
    folder = tmp_path_factory.mktemp("table")
    StaticEmbedder.save(folder, [f"w{number}" for number in range(len(rows))], rows)
    table, scales = np.load(folder / "table.npy"), np.load(folder / "scales.npy")
    assert table.dtype == np.int8
    error = np.abs(table * scales[:, None].astype(float) - np.asarray(rows))
    assert np.all(error <= np.maximum(0.51 * scales[:, None], 1e-36))


def test_only_the_first_tokens_are_read(folder: Path) -> None:
    short = StaticEmbedder(folder, max_tokens=2)
    np.testing.assert_array_equal(*short.encode(["send mail", "send mail weather weather"]))
    assert short.key != StaticEmbedder(folder).key


def test_the_key_names_the_content_wherever_it_lies(folder: Path, tmp_path: Path) -> None:
    twin = StaticEmbedder.save(tmp_path / "twin", VOCABULARY, VECTORS)
    other = StaticEmbedder.save(tmp_path / "other", VOCABULARY, VECTORS[::-1])
    key = StaticEmbedder(folder).key
    assert key == twin.key != other.key
    assert key.startswith("static-")


def test_saving_anew_leaves_a_table_in_use_whole(tmp_path: Path) -> None:
    used = StaticEmbedder.save(tmp_path, VOCABULARY, VECTORS)
    before = used.encode(TEXTS)
    again = StaticEmbedder.save(tmp_path, VOCABULARY, VECTORS[::-1])
    np.testing.assert_array_equal(used.encode(TEXTS), before)
    assert np.abs(again.encode(TEXTS) - before).max() > 0.1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["scales.npy", "table.npy", "vocab.txt"]


def test_a_vocabulary_may_have_lines_of_any_system(folder: Path, tmp_path: Path) -> None:
    twin = StaticEmbedder.save(tmp_path, VOCABULARY, VECTORS)
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(VOCABULARY).encode())
    np.testing.assert_array_equal(twin.encode(TEXTS), StaticEmbedder(folder).encode(TEXTS))


@pytest.mark.parametrize(
    ("vocabulary", "vectors", "text"),
    [
        (["a"], [[1.0], [2.0]], r"1 pieces need as many vectors, not an array of shape \(2, 1\)"),
        (["a"], [1.0], r"not an array of shape \(1,\)"),
        ([], np.zeros((0, 3)), r"not an array of shape \(0, 3\)"),
        (["a"], [[np.nan]], "every number of a vector must be finite"),
        (["a", "a"], [[1.0], [2.0]], "every piece must be one word, and occur once"),
        (["a\nb"], [[1.0]], "every piece must be one word"),
        ([""], [[1.0]], "every piece must be one word"),
    ],
)
def test_malformed_table_is_not_saved(tmp_path: Path, vocabulary: list[str], vectors: Any, text: str) -> None:
    with pytest.raises(EmbeddingError, match=text) as caught:
        StaticEmbedder.save(tmp_path / "new", vocabulary, vectors)
    assert caught.value.model == repr(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="there is no such folder"):
        StaticEmbedder(tmp_path / "none")
    with pytest.raises(
        EmbeddingError, match=r"the folder has no 'vocab.txt' and no 'table.npy' and no 'scales.npy'"
    ):
        StaticEmbedder(tmp_path)


def test_a_limit_below_one_token_is_refused(folder: Path) -> None:
    with pytest.raises(EmbeddingError, match="max_tokens must be at least 1, not 0"):
        StaticEmbedder(folder, max_tokens=0)


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("table.npy", b"", "cannot be read"),
        ("table.npy", b"garbage", "cannot be read"),
        (
            "table.npy",
            np.zeros((3, 2), np.float32),
            r"must be a matrix of int8, not of shape \(3, 2\) and float32",
        ),
        ("table.npy", np.zeros(3, np.int8), r"must be a matrix of int8, not of shape \(3,\)"),
        ("table.npy", np.zeros((2, 2), np.int8), "has 3 pieces, 'table.npy' 2 rows"),
        ("table.npy", np.array([["a"]], object), "cannot be read"),
        ("scales.npy", np.zeros(2, np.float32), r"'scales.npy' the shape \(2,\)"),
        ("scales.npy", np.zeros(3, np.int64), "'scales.npy' must hold finite floats"),
        ("scales.npy", np.full(3, np.inf), "'scales.npy' must hold finite floats"),
        ("vocab.txt", b"a\nb\n", "'vocab.txt' has 2 pieces"),
        ("vocab.txt", b"\xff", "cannot be read"),
    ],
)
def test_files_that_do_not_fit_are_told_when_they_are_read(
    tmp_path: Path, file: str, content: Any, text: str
) -> None:
    embedder = StaticEmbedder.save(tmp_path, ["a", "b", "c"], np.eye(3))
    if isinstance(content, bytes):
        (tmp_path / file).write_bytes(content)
    else:
        np.save(tmp_path / file, content, allow_pickle=True)
    with pytest.raises(EmbeddingError, match=text):
        embedder.encode(["a"])


def test_a_file_that_went_away_is_told_by_the_key(tmp_path: Path) -> None:
    embedder = StaticEmbedder.save(tmp_path, ["a", "b", "c"], np.eye(3))
    (tmp_path / "table.npy").unlink()
    with pytest.raises(EmbeddingError, match=r"'table.npy' cannot be read: No such file"):
        _ = embedder.key


def test_repr_has_the_folder(embedder: StaticEmbedder, folder: Path) -> None:
    assert repr(embedder) == f"StaticEmbedder({str(folder)!r}, max_tokens=512)"


@pytest.mark.proof
def test_static_embedder_needs_no_extra(folder: Path) -> None:
    code = (
        "import sys\n"
        "for extra in ('onnxruntime', 'tokenizers', 'usearch', 'httpx'): sys.modules[extra] = None\n"
        "from toolcrib.discovery.search.semantic import StaticEmbedder\n"
        "print(StaticEmbedder(sys.argv[1]).encode(['send mail']).shape)"
    )
    assert subprocess.check_output([sys.executable, "-c", code, folder], text=True) == "(1, 32)\n"
