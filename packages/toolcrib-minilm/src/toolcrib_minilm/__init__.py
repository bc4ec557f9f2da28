"""A small embedding model that was tuned on tools; toolcrib finds it under the name `minilm`."""

from pathlib import Path
from typing import Final

from toolcrib.discovery import OnnxEmbedder

__all__ = ["MODEL", "embedder"]

MODEL: Final = Path(__file__).parent / "model"
"""The folder with `model.onnx` and `tokenizer.json`."""


def embedder() -> OnnxEmbedder:
    """Return an embedder with this model, which is read at first use.

    >>> embedder().dimensions
    384

    Raises:
        MissingExtraError: onnxruntime or tokenizers is not installed.
    """
    return OnnxEmbedder(MODEL)
