"""The ONNX embedder, with a real model and with graphs of every shape that it may meet."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from contracts.embedder import TEXTS, LocalEmbedderContract
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from toolcrib.discovery import OnnxEmbedder
from toolcrib.errors import EmbeddingError

VOCABULARY = ["[PAD]", "[UNK]", "a", "b", "c"]
TABLE = np.array([[9, 9], [1, 1], [1, 0], [0, 2], [-3, 0]], np.float32)
# Of the tokens a, c and b: the direction of the mean, and of the largest numbers, which tests take for a sentence.
MEAN = [-(0.5**0.5), 0.5**0.5]
MOST = [1 / 5**0.5, 2 / 5**0.5]
A = [1.0, 0.0]
B = [0.0, 1.0]
AB = [1 / 5**0.5, 2 / 5**0.5]


@pytest.fixture(scope="session")
def real(minilm: Path) -> OnnxEmbedder:
    return OnnxEmbedder(minilm)


@pytest.fixture(scope="session")
def real_in_batches(minilm: Path) -> OnnxEmbedder:
    return OnnxEmbedder(minilm, batch=3, threads=1)


class TestContract(LocalEmbedderContract):
    @pytest.fixture
    def embedder(self, real: OnnxEmbedder) -> OnnxEmbedder:
        return real


@pytest.mark.proof
class TestContractInBatches(LocalEmbedderContract):
    tolerance = 0.05

    @pytest.fixture
    def embedder(self, real_in_batches: OnnxEmbedder) -> OnnxEmbedder:
        return real_in_batches


def test_texts_of_equal_meaning_are_near_and_others_far(real: OnnxEmbedder) -> None:
    question, near, far = real.encode(
        ["will it rain in Paris tomorrow?", "get the weather forecast for a city", "merge a pull request"]
    )
    assert question @ near > 0.3
    assert question @ far < 0.1


def test_the_real_model_has_the_dimensions_it_was_made_with(real: OnnxEmbedder) -> None:
    assert real.dimensions == 384
    assert real.encode(TEXTS).shape == (len(TEXTS), 384)


def test_a_text_is_the_same_to_the_last_bit_in_any_company(real: OnnxEmbedder) -> None:
    np.testing.assert_array_equal(real.encode(TEXTS)[1], real.encode([TEXTS[1]])[0])


def test_only_the_first_tokens_are_read(minilm: Path) -> None:
    short = OnnxEmbedder(minilm, max_tokens=8)
    np.testing.assert_array_equal(
        *short.encode(["one two three four five six", "one two three four five six seven"])
    )


def test_the_key_names_the_content_and_the_settings(minilm: Path, tmp_path: Path) -> None:
    key = OnnxEmbedder(minilm).key
    assert key.startswith("onnx-")
    assert key == OnnxEmbedder(minilm, threads=1).key
    assert key != OnnxEmbedder(minilm, max_tokens=8).key
    model = save(tmp_path)
    first = model.key
    assert first == model.key == OnnxEmbedder(tmp_path).key
    (tmp_path / "model.onnx_data").write_bytes(b"weights")
    assert first != OnnxEmbedder(tmp_path).key


def save(
    folder: Path,
    *,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    kind: int = TensorProto.INT64,
    outputs: tuple[str, ...] = ("last_hidden_state",),
    table: Any = TABLE,
    **settings: Any,
) -> OnnxEmbedder:
    """Write a model that looks tokens up in a table, with a choice of inputs and outputs."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"]),
        helper.make_node("ReduceMax", ["last_hidden_state"], ["sentence_embedding"], axes=[1], keepdims=0),
        helper.make_node("Neg", ["sentence_embedding"], ["pooler_output"]),
        helper.make_node("ReduceMax", ["sentence_embedding"], ["flat"], axes=[1], keepdims=0),
        helper.make_node("ReduceMax", ["last_hidden_state"], ["merged"], axes=[0], keepdims=0),
    ]
    # Every other input is used, or the checker would have nothing to type it by.
    nodes += [helper.make_node("Identity", [name], [f"{name}_seen"]) for name in inputs]
    shapes: dict[str, list[Any]] = {
        "last_hidden_state": ["batch", "length", "width"],
        "sentence_embedding": ["batch", "width"],
        "pooler_output": ["batch", "width"],
        "flat": ["batch"],
        "merged": ["one", "width"],
    }
    graph = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info(name, kind, ["batch", "length"]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in outputs],
        [numpy_helper.from_array(np.asarray(table, np.float32), "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    numbered = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(WordLevel(numbered, unk_token="[UNK]"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return OnnxEmbedder(folder, **settings)


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32], ids=["int64", "int32"])
@pytest.mark.parametrize(
    "inputs",
    [
        ("input_ids",),
        ("input_ids", "attention_mask"),
        ("input_ids", "attention_mask", "token_type_ids"),
        ("token_type_ids", "input_ids"),
    ],
    ids="+".join,
)
def test_a_graph_is_given_what_it_wants(tmp_path: Path, inputs: tuple[str, ...], kind: int) -> None:
    embedder = save(tmp_path, inputs=inputs, kind=kind)
    np.testing.assert_allclose(embedder.encode(["a", "b b", "a b"]), [A, B, AB], atol=1e-6)
    assert embedder.dimensions == 2


@pytest.mark.parametrize("batch", [1, 2, 32])
def test_the_mean_of_token_embeddings_leaves_padding_out(tmp_path: Path, batch: int) -> None:
    embedder = save(tmp_path, batch=batch)
    np.testing.assert_allclose(embedder.encode(["a b", "a", "b b b b", "a"]), [AB, A, B, A], atol=1e-6)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (("last_hidden_state",), MEAN),
        (("sentence_embedding",), MOST),
        (("last_hidden_state", "sentence_embedding"), MOST),
        (("last_hidden_state", "pooler_output"), MEAN),
        (("pooler_output", "last_hidden_state"), MEAN),
        (("flat", "last_hidden_state"), MEAN),
    ],
    ids=str,
)
def test_sentence_embeddings_are_taken_before_token_embeddings_and_never_the_pooler(
    tmp_path: Path, outputs: tuple[str, ...], expected: list[float]
) -> None:
    np.testing.assert_allclose(save(tmp_path, outputs=outputs).encode(["a c b"]), [expected], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"outputs": ("flat",)}, "must give sentence embeddings .* not flat of rank 1"),
        ({"outputs": ("pooler_output",)}, "must give sentence embeddings .* not pooler_output of rank 2"),
        ({"inputs": ("input_ids", "position_ids")}, "must take integer input_ids, .* position_ids"),
        ({"table": np.zeros((2, 2))}, "the model could not be run"),
        ({"table": np.full((5, 2), np.nan)}, "'last_hidden_state' is not a row of finite numbers"),
        (
            {"table": np.zeros((5, 0))},
            r"'last_hidden_state' is not a row of finite numbers .* shape \(1, 0\)",
        ),
    ],
    ids=["flat", "pooler", "position", "small table", "nan", "no dimensions"],
)
def test_a_graph_that_gives_no_vectors_is_refused(tmp_path: Path, options: Any, text: str) -> None:
    embedder = save(tmp_path, **options)
    with pytest.raises(EmbeddingError, match=text) as caught:
        embedder.encode(["a"])
    assert caught.value.model == repr(str(tmp_path))


def test_a_graph_that_merges_texts_is_refused(tmp_path: Path) -> None:
    embedder = save(tmp_path, outputs=("merged",), batch=2)
    with pytest.raises(EmbeddingError, match="is not a row of finite numbers for each of 2 texts"):
        embedder.encode(["a b c", "b c a"])


def test_a_graph_without_tokens_is_refused(tmp_path: Path) -> None:
    save(tmp_path)
    identity = helper.make_graph(
        [helper.make_node("Identity", ["pixels"], ["embedding"])],
        "identity",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", "width"])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", "width"])],
    )
    onnx.save(
        helper.make_model(identity, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
        tmp_path / "model.onnx",
    )
    with pytest.raises(EmbeddingError, match=r"must take integer input_ids, .* not pixels tensor\(float\)"):
        _ = OnnxEmbedder(tmp_path).dimensions


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x08\x08"], ids=["empty", "garbage", "no graph"])
def test_a_broken_model_is_told_when_it_is_used_and_can_be_mended(tmp_path: Path, content: bytes) -> None:
    embedder = save(tmp_path)
    whole = (tmp_path / "model.onnx").read_bytes()
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(EmbeddingError, match=r"'model.onnx' is not a model that can be run: "):
        embedder.encode(["a"])
    (tmp_path / "model.onnx").write_bytes(whole)
    np.testing.assert_allclose(embedder.encode(["a"]), [A], atol=1e-6)


@pytest.mark.parametrize("content", ["", "{}", "[", '{"model": 5}'])
def test_a_broken_tokenizer_is_told_when_it_is_used(tmp_path: Path, content: str) -> None:
    embedder = save(tmp_path)
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(EmbeddingError, match=r"'tokenizer.json' is not a tokenizer: "):
        embedder.encode(["a"])


def test_a_text_that_becomes_no_tokens_gets_a_row(tmp_path: Path) -> None:
    assert save(tmp_path).encode(["", "a"]).shape == (2, 2)


def test_a_model_that_cannot_take_so_many_tokens_says_so(minilm: Path) -> None:
    embedder = OnnxEmbedder(minilm, max_tokens=1_000)
    with pytest.raises(EmbeddingError, match="a smaller max_tokens may help"):
        embedder.encode(["word " * 1_000])


def test_a_folder_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="there is no such folder") as caught:
        OnnxEmbedder(tmp_path / "none")
    assert str(tmp_path / "none") in str(caught.value)
    with pytest.raises(EmbeddingError, match=r"the folder has no 'model.onnx' and no 'tokenizer.json'"):
        OnnxEmbedder(tmp_path)
    save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(EmbeddingError, match=r"the folder has no 'tokenizer.json'"):
        OnnxEmbedder(tmp_path)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_tokens": 7}, "max_tokens must be at least 8, not 7"),
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"threads": 0}, "threads must be at least 1, not 0"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, settings: Any, text: str) -> None:
    with pytest.raises(EmbeddingError, match=text):
        save(tmp_path, **settings)


def test_repr_has_the_folder(tmp_path: Path) -> None:
    assert repr(save(tmp_path)) == f"OnnxEmbedder({str(tmp_path)!r}, max_tokens=256)"


@pytest.mark.proof
@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_without_its_extra_it_says_what_to_install(tmp_path: Path, package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from toolcrib.discovery.search.semantic import OnnxEmbedder\n"
        "from toolcrib.errors import MissingExtraError\n"
        "try: OnnxEmbedder('.')\n"
        "except MissingExtraError as error: print(error)"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=tmp_path)
    assert said == "an ONNX embedding model needs the 'semantic' extra: pip install 'toolcrib[semantic]'\n"


@pytest.mark.proof
def test_the_extras_are_loaded_at_first_use_and_not_before(minilm: Path) -> None:
    code = (
        "import sys\n"
        "from toolcrib.discovery.search.semantic import HttpEmbedder, OnnxEmbedder, StaticEmbedder\n"
        "extras = {'onnxruntime', 'tokenizers', 'usearch', 'httpx'}\n"
        "embedder = OnnxEmbedder(sys.argv[1]); embedder.key\n"
        "HttpEmbedder('http://localhost', model='m').key\n"
        "print(sorted(extras & set(sys.modules)))\n"
        "embedder.encode(['a'])\n"
        "print(sorted(extras & set(sys.modules)))"
    )
    said = subprocess.check_output([sys.executable, "-c", code, minilm], text=True)
    assert said == "[]\n['onnxruntime', 'tokenizers']\n"
