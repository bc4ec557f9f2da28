"""The light argument schema: a small, hand-writable description of a tool's arguments.

This package reads both shapes of the schema, checks arguments against it, and translates it to JSON Schema.
It is not a JSON Schema engine: fields that this version of the format does not enforce are ignored, with a
warning.

>>> schema = parse_arg_schema({"q": {"type": "string", "required": True, "minLength": 3}})
>>> validate_args(schema, {"q": "cats"})
>>> validate_args(schema, {})
Traceback (most recent call last):
toolcrib.errors.ValidationError: missing required argument 'q'
"""

from toolcrib.model.argschema.parse import parse_arg_schema
from toolcrib.model.argschema.records import ArgSchemaProperty
from toolcrib.model.argschema.schema import SCHEMA_VERSION, ArgSchema
from toolcrib.model.argschema.validate import apply_defaults, validate_args

__all__ = [
    "SCHEMA_VERSION",
    "ArgSchema",
    "ArgSchemaProperty",
    "apply_defaults",
    "parse_arg_schema",
    "validate_args",
]
