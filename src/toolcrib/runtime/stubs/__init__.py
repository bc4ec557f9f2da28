"""Typed Python stubs of tools, which models read and the type checker checks code against."""

from toolcrib.runtime.stubs.guest import GUEST, GUIDE
from toolcrib.runtime.stubs.naming import TOP_RESERVED, identifier, names_of
from toolcrib.runtime.stubs.render import DETAIL_LEVELS, StubCache, paths_of, render
from toolcrib.runtime.stubs.signature import parameters

__all__ = [
    "DETAIL_LEVELS",
    "GUEST",
    "GUIDE",
    "TOP_RESERVED",
    "StubCache",
    "identifier",
    "names_of",
    "parameters",
    "paths_of",
    "render",
]
