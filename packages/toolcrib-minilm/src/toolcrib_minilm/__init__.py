"""A small embedding model that was tuned on tools; toolcrib finds it under the name `minilm`."""

from pathlib import Path
from typing import Final

from toolcrib.discovery import JoinedEmbedder, OnnxEmbedder, load_embedder

__all__ = ["MODEL", "embedder"]

MODEL: Final = Path(__file__).parent / "model"
"""The folder with `model.onnx` and `tokenizer.json`."""


def embedder() -> JoinedEmbedder:
    """Return an embedder with this model and toolcrib's own table beside it; they are read at first use.

    >>> embedder().dimensions
    640

    Raises:
        MissingExtraError: onnxruntime or tokenizers is not installed.
    """
    return JoinedEmbedder(OnnxEmbedder(MODEL), load_embedder(), folder=MODEL.parent)
