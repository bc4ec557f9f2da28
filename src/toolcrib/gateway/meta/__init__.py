"""The meta face: eight tools that find, explain and run all others."""

from toolcrib.gateway.meta.confirm import policy
from toolcrib.gateway.meta.face import TOKENS, MetaFace
from toolcrib.gateway.results import KeptResult, KeptResults

__all__ = ["TOKENS", "KeptResult", "KeptResults", "MetaFace", "policy"]
