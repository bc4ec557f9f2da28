"""Search by meaning: embedding models, and the searcher that compares their vectors.

Importing this package loads no extra; each is imported when it is first used.
"""

from toolcrib.discovery.search.semantic.http import HttpEmbedder
from toolcrib.discovery.search.semantic.joined import JoinedEmbedder
from toolcrib.discovery.search.semantic.named import load_embedder
from toolcrib.discovery.search.semantic.onnx import OnnxEmbedder
from toolcrib.discovery.search.semantic.searcher import EmbeddingSearcher
from toolcrib.discovery.search.semantic.static import StaticEmbedder
from toolcrib.discovery.search.semantic.text import DocumentText

__all__ = [
    "DocumentText",
    "EmbeddingSearcher",
    "HttpEmbedder",
    "JoinedEmbedder",
    "OnnxEmbedder",
    "StaticEmbedder",
    "load_embedder",
]
