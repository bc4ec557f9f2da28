"""A parsed argument schema."""

from dataclasses import dataclass
from typing import Any, Final

from toolcrib.errors import Problem
from toolcrib.model.argschema.json_schema import json_schema_of
from toolcrib.model.argschema.property import ArgSchemaProperty, Members

SCHEMA_VERSION: Final = "2025-10-09"
"""The date of the schema this package implements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgSchema:
    """What `parse_arg_schema` read: both shapes give the same record, which shares nothing with the input."""

    properties: dict[str, ArgSchemaProperty]
    required: tuple[str, ...] = ()
    """Every required name in schema order; names without a property come last."""
    version: str = SCHEMA_VERSION
    """The date the schema says it was written for."""
    warnings: tuple[str, ...] = ()
    """What the schema says and nothing enforces, and what was read permissively."""
    strict: bool = False
    extended: bool = False
    doubts: tuple[Problem, ...] = ()
    """What a strict reader would have refused."""

    @property
    def members(self) -> Members:
        """The arguments as the members of one object."""
        return Members(self.properties, self.required)

    def to_json_schema(self) -> dict[str, Any]:
        """Return a JSON Schema (2020-12) that accepts the same arguments.

        >>> schema = ArgSchema(properties={}, required=("q",))
        >>> schema.to_json_schema()["required"]
        ['q']
        """
        dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        return dialect | json_schema_of(self.members, strict=self.strict)
