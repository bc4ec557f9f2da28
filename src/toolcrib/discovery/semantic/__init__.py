"""Search by meaning: the models that turn texts into vectors, and the searcher that compares them.

Importing it loads none of the extras; each is imported where it is first used.
"""

from toolcrib.discovery.semantic.http import HttpEmbedder
from toolcrib.discovery.semantic.joined import JoinedEmbedder
from toolcrib.discovery.semantic.named import load_embedder
from toolcrib.discovery.semantic.onnx import OnnxEmbedder
from toolcrib.discovery.semantic.searcher import EmbeddingSearcher
from toolcrib.discovery.semantic.static import StaticEmbedder
from toolcrib.discovery.semantic.text import DocumentText

__all__ = [
    "DocumentText",
    "EmbeddingSearcher",
    "HttpEmbedder",
    "JoinedEmbedder",
    "OnnxEmbedder",
    "StaticEmbedder",
    "load_embedder",
]
