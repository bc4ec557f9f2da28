"""Rewriting of JSON Schemas for a provider, with codecs that translate values between the two schemas.

The rules of a provider are data (`SchemaRules`), and one walk applies them (`SchemaConverter`). For a
provider that takes nearly all of JSON Schema, keywords that it does not take are moved into the description
or left out (`keyword_filter`). For a provider with *structured* rules, such as OpenAI's strict mode, every
subschema must be an object, an array, a union or a scalar of a fixed form, and is converted to one.

Where the form of values changes, a codec is built beside the subschema. Examples: an optional property
becomes required and nullable, an open map becomes a list of pairs, and a value of any type becomes JSON text.
`encode` translates a value to the converted schema, `decode` translates the arguments of a model's call back.

Three things make it hard. A `$ref` may lead anywhere, even to itself, so definitions are converted once and
have codecs that are looked up by name. `allOf` and what stands beside a `$ref` must be merged into one
subschema, which is not always possible (`merge`). And the alternatives of a union must still be
distinguishable when a value comes back; if they are not, the value is passed as JSON text (`unions`).
Everything that the converted schema does not say any more is reported in `losses`.
"""

from typing import Any, Final, NamedTuple

from toolcrib.adapter.loss import Losses
from toolcrib.adapter.rewrite.codec import Codec, CodecError, decode, encode
from toolcrib.adapter.rewrite.converter import SchemaConverter
from toolcrib.adapter.rewrite.root import rewrite_root
from toolcrib.adapter.rewrite.source import Source
from toolcrib.adapter.rewrite.walk import SchemaTooLargeError
from toolcrib.adapter.rules import MCP, SchemaRules

__all__ = ["Codec", "CodecError", "Rewritten", "SchemaTooLargeError", "decode", "encode", "rewrite"]


class Rewritten(NamedTuple):
    """A schema in a provider's form."""

    schema: dict[str, Any]
    codec: Codec | None
    """Translates values between the two schemas; None if they are the same in both."""
    obstacle: str
    """The reason why the provider would still refuse the schema; empty if there is none."""


def rewrite(schema: dict[str, Any], rules: SchemaRules, losses: Losses) -> Rewritten:
    """Convert a schema to the form that the rules allow; everything lost is noted in `losses`.

    The schema is not modified, and the time is bounded by its size.

    Raises:
        SchemaTooLargeError: it has, or its references expand to, too many subschemas, or is nested too deep.
    """
    walk = SchemaConverter(Source(schema, modern=rules is not MCP), rules, losses)
    found, codec = rewrite_root(walk)
    if walk.alternatives is not None:
        walk.alternatives.copy_originals()
    return Rewritten(found, codec, _obstacle(walk))


def _obstacle(walk: SchemaConverter) -> str:
    """Return the first limit of the provider that a converted schema exceeds; empty if there is none."""
    if walk.recursive and not walk.rules.recursion:
        return "it refers back to itself"
    for name, limit in walk.rules.limits.bounds:
        if (found := getattr(walk, name)) > limit:
            return f"it has {found:,} {_WORDS[name]}, and at most {limit:,} are allowed"
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
