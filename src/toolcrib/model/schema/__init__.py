"""JSON Schema: validation that no schema and no value can hang or crash."""

from toolcrib.model.schema.source import schema_of
from toolcrib.model.schema.validator import DefaultValidator, SchemaValidator

__all__ = ["DefaultValidator", "SchemaValidator", "schema_of"]
