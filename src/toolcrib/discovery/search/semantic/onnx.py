"""Embeddings from a local ONNX model: a folder with `tokenizer.json` and `model.onnx`."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.concurrency.loop import in_thread, stop_if_abandoned
from toolcrib.discovery.search.confidence import RelevanceClassifier, read_judge
from toolcrib.discovery.search.semantic.folder import (
    CHARACTERS_PER_TOKEN,
    check_at_least,
    check_folder,
    content_key,
)
from toolcrib.discovery.search.semantic.languages import ForeignQuestions, read_languages
from toolcrib.discovery.search.semantic.text import clean
from toolcrib.discovery.search.semantic.units import unit_vectors
from toolcrib.errors import EmbeddingError, MissingExtraError

_FILES = _MODEL, _TOKENIZER = ("model.onnx", "tokenizer.json")
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_INTEGERS: Mapping[str, type[np.integer[Any]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_POOLER_OUTPUT = "pooler_output"
"""An output of BERT models that was trained for next-sentence prediction, and is no sentence embedding."""
_SENTENCE_RANK = 2
_TOKEN_RANK = 3
_LEAST_MAX_TOKENS = 8
"""The least value of `max_tokens`: room for the special tokens around a text, and some text."""


class OnnxEmbedder:
    """Embeds texts with an ONNX model in this process; nothing is downloaded.

    The graph must take `input_ids`, and may take `attention_mask` and `token_type_ids`. Its output is either
    sentence embeddings, or token embeddings, which are averaged. It needs the extra `semantic`. The model is
    loaded once, at first use.

    Raises:
        MissingExtraError: onnxruntime or tokenizers is not installed.
        EmbeddingError: the folder or a file in it is missing; or, when it is used, the model does not fit.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        max_tokens: int = 256,
        threads: int | None = None,
        batch: int = 1,
    ) -> None:
        """Embed with the model in a folder.

        Args:
            folder: the folder of the model.
            max_tokens: the maximum number of tokens of a text that are read; models have a limit too, often
                512.
            threads: the number of threads that compute one batch; by default one for each core.
            batch: the number of texts of similar length computed at once. On a CPU this hardly saves time,
                and in most int8 models it makes the vector of a text depend on the others in its batch.
        """
        if not (find_spec("onnxruntime") and find_spec("tokenizers")):
            raise MissingExtraError("an ONNX embedding model", "semantic")
        self._folder = check_folder(folder, *_FILES)
        self._name = repr(str(self._folder))
        check_at_least(_LEAST_MAX_TOKENS, self._name, max_tokens=max_tokens)
        check_at_least(1, self._name, batch=batch, threads=1 if threads is None else threads)
        self._max_tokens, self._threads, self._batch = max_tokens, threads, batch
        self._lock = threading.Lock()
        self._model: _Model | None = None
        self._key: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name}, max_tokens={self._max_tokens})"

    @property
    def key(self) -> str:
        """The cache key of the vectors: the content of the files, and the settings that change them."""
        with self._lock:
            if self._key is None:
                # Large models have their weights in separate files, named after the graph.
                files = [self._folder / _TOKENIZER, *self._folder.glob(f"{_MODEL}*")]
                self._key = content_key("onnx", files, (self._max_tokens, self._batch))
            return self._key

    @cached_property
    def judge(self) -> RelevanceClassifier | None:
        """The relevance classifier in the folder; None if there is none."""
        return read_judge(self._folder)

    @cached_property
    def languages(self) -> ForeignQuestions | None:
        """Embeds questions in languages other than English; None if the model or the machine cannot."""
        return read_languages(self._folder, lambda: self.dimensions)

    @property
    def dimensions(self) -> int:
        """The length of a vector; the first access loads the model."""
        return self._load_once().dimensions

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return a row of unit length for each text.

        Raises:
            EmbeddingError: the model cannot be read or run, or returns something other than vectors.
        """
        model = self._load_once()
        tokens = []
        for text in texts:
            stop_if_abandoned()
            tokens.append(model.ids(clean(text, self._max_tokens * CHARACTERS_PER_TOKEN)))
        rows = np.zeros((len(texts), model.dimensions), np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(tokens[place]))
        for start in range(0, len(order), self._batch):
            stop_if_abandoned()
            places = order[start : start + self._batch]
            rows[places] = model.run([tokens[place] for place in places])
        return rows

    async def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Do the same as `encode` in a worker thread, which stops when the caller is cancelled."""
        return await in_thread(self.encode, texts)

    def _load_once(self) -> "_Model":
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model

    def _load(self) -> "_Model":
        onnxruntime, tokenizers = import_module("onnxruntime"), import_module("tokenizers")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads or 0
        options.log_severity_level = 4  # errors are raised; onnxruntime would print them as well
        # Spinning threads take twice the CPU time and are no faster.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        with _wrap_errors(self._name, f"{_TOKENIZER!r} is not a tokenizer"):
            tokenizer = tokenizers.Tokenizer.from_file(str(self._folder / _TOKENIZER))
            tokenizer.no_padding()
            tokenizer.enable_truncation(self._max_tokens)
        with _wrap_errors(self._name, f"{_MODEL!r} is not a model that can be run"):
            session = onnxruntime.InferenceSession(
                self._folder / _MODEL, options, providers=["CPUExecutionProvider"]
            )
        inputs = {one.name: one.type for one in session.get_inputs()}
        if (
            "input_ids" not in inputs
            or not inputs.keys() <= _INPUTS
            or not set(inputs.values()) <= set(_INTEGERS)
        ):
            listed = ", ".join(f"{name} {kind}" for name, kind in inputs.items())
            reason = f"the graph must take integer input_ids, attention_mask and token_type_ids, not {listed}"
            raise EmbeddingError(reason, self._name)
        output = _choose_output({one.name: len(one.shape or ()) for one in session.get_outputs()}, self._name)
        kinds = {name: _INTEGERS[kind] for name, kind in inputs.items()}
        model = _Model(self._name, tokenizer, session, kinds, output)
        model.dimensions = model.run([model.ids("text")]).shape[1]
        return model


@dataclass(slots=True)
class _Model:
    """A loaded model with its tokenizer."""

    name: str
    tokenizer: Any
    session: Any
    inputs: dict[str, type[np.integer[Any]]]
    output: str
    dimensions: int = 0

    def ids(self, text: str) -> list[int]:
        """Return the tokens of a text, at least one."""
        with _wrap_errors(self.name, "a text could not be split into tokens"):
            return list(self.tokenizer.encode(text).ids) or [0]

    def run(self, batch: list[list[int]]) -> NDArray[np.float32]:
        """Return a row of unit length for the tokens of each text."""
        lengths = np.array([len(tokens) for tokens in batch])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = np.concatenate(batch)
        whole_input = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        given = {name: whole_input[name].astype(kind) for name, kind in self.inputs.items()}
        with _wrap_errors(self.name, "the model could not be run; a smaller max_tokens may help"):
            rows = np.asarray(self.session.run([self.output], given)[0], np.float32)
        if rows.ndim == _TOKEN_RANK and rows.shape[:2] == mask.shape:
            rows = (rows * mask[:, :, None]).sum(axis=1)
        if (
            rows.ndim != _SENTENCE_RANK
            or len(rows) != len(batch)
            or not rows.size
            or not np.isfinite(rows).all()
        ):
            reason = f"{self.output!r} is not a row of finite numbers for each of {len(batch)} texts"
            raise EmbeddingError(f"{reason}, but has the shape {rows.shape}", self.name)
        return unit_vectors(rows, count=len(batch))


def _choose_output(ranks: dict[str, int], name: str) -> str:
    """Return the name of the output to use: sentence embeddings if there are any, else token embeddings."""
    for rank in (_SENTENCE_RANK, _TOKEN_RANK):
        for output, found in ranks.items():
            if found == rank and output != _POOLER_OUTPUT:
                return output
    listed = ", ".join(f"{output} of rank {rank}" for output, rank in ranks.items())
    reason = f"the graph must give sentence embeddings (rank 2) or token embeddings (rank 3), not {listed}"
    raise EmbeddingError(reason, name)


@contextmanager
def _wrap_errors(name: str, what: str) -> Iterator[None]:
    """Turn exceptions of onnxruntime and tokenizers, which have no common base, into `EmbeddingError`."""
    try:
        yield
    except Exception as error:
        raise EmbeddingError(f"{what}: {error}", name) from error
