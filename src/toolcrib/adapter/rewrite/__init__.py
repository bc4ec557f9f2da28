"""Schemas rewritten for a provider: one walk, the rules as data, and the way back for every value."""

from typing import Any, Final, NamedTuple

from toolcrib.adapter.loss import Losses
from toolcrib.adapter.rewrite.codec import Codec, CodecError, decode, encode
from toolcrib.adapter.rewrite.root import rewrite_root
from toolcrib.adapter.rewrite.source import Source
from toolcrib.adapter.rewrite.walk import SchemaTooLargeError, Walk
from toolcrib.adapter.rules import MCP, SchemaRules

__all__ = ["Codec", "CodecError", "Rewritten", "SchemaTooLargeError", "decode", "encode", "rewrite"]


class Rewritten(NamedTuple):
    """A schema in the form that a provider takes."""

    schema: dict[str, Any]
    codec: Codec | None
    """How values go there and back; None where they look the same."""
    obstacle: str
    """Why the provider would still refuse it, or nothing."""


def rewrite(schema: dict[str, Any], rules: SchemaRules, losses: Losses) -> Rewritten:
    """Return a schema as the rules want it; what that takes away is noted in `losses`.

    The schema is not changed, and the time taken is bounded by its size.

    Raises:
        SchemaTooLargeError: it has too many subschemas, its references expand to too many, or it is too deep.
    """
    walk = Walk(Source(schema, modern=rules is not MCP), rules, losses)
    found, codec = rewrite_root(walk)
    if walk.alternatives is not None:
        walk.alternatives.keep()
    return Rewritten(found, codec, _obstacle(walk))


def _obstacle(walk: Walk) -> str:
    """Return which limit of the provider a converted schema exceeds."""
    if walk.recursive and not walk.rules.recursion:
        return "it refers back to itself"
    for name, limit in walk.rules.limits.bounds:
        if (found := getattr(walk, name)) > limit:
            return f"it has {found:,} {_WORDS[name]}, and {limit:,} may be"
    return ""


_WORDS: Final = {
    "properties": "properties",
    "depth": "levels of objects",
    "enum_values": "enum values",
    "enum_chars": "characters in one long enum",
    "name_chars": "characters of names and enum values",
    "optional": "optional properties",
    "unions": "unions",
}
