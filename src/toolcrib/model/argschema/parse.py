"""Reading a schema, in either shape, into one record."""

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from toolcrib.errors import InvalidSchemaError, Problem
from toolcrib.model.argschema.fields import PropertyReader
from toolcrib.model.argschema.findings import Findings
from toolcrib.model.argschema.plain import copy_schema
from toolcrib.model.argschema.schema import SCHEMA_VERSION, ArgSchema
from toolcrib.model.argschema.shape import Shape, take_apart
from toolcrib.model.argschema.wording import shown

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_arg_schema(
    schema: Mapping[str, Any], *, shape: Shape = "auto", strict: bool = False, extended: bool = False
) -> ArgSchema:
    """Return the schema that a dict, in either shape, describes.

    >>> parse_arg_schema({"q": {"type": "string", "required": True}}).properties["q"].required
    True
    >>> parse_arg_schema({"properties": {"q": {"type": "string"}}, "required": ["q"]}).required
    ('q',)

    Args:
        schema: A direct map from names to properties, or an object with `properties` and `required`.
        shape: Which of the two it is; `auto` looks.
        strict: Refuse unknown types and later versions, and have `validate_args` refuse unknown arguments
            and fractions where an integer is due.
        extended: Also enforce `pattern`, `minItems`, `maxItems` and nested `properties`, check that each
            `default` fits, and warn of what is `deprecated`.

    Raises:
        InvalidSchemaError: the schema cannot be used; every problem is listed.
    """
    if shape not in get_args(Shape):
        raise InvalidSchemaError(f"shape must be 'auto', 'map' or 'json-schema', not {str(shape)[:40]!r}")
    if type(schema) is not dict:
        kind = type(schema).__name__[:40]
        problem = Problem("", "type", f"an argument schema must be a dict, not {kind}")
        raise InvalidSchemaError("invalid argument schema", (problem,))
    findings = Findings(strict=strict, extended=extended)
    parts = take_apart(copy_schema(schema, findings), shape, findings)
    version = _read_version(parts.version, findings)
    at = ("properties",) if parts.nested else ()
    members = PropertyReader(findings).members(parts.properties, parts.required, at)
    findings.raise_problems()
    return ArgSchema(
        properties=members.properties,
        required=members.required,
        version=version,
        warnings=tuple(findings.warnings),
        strict=strict,
        extended=extended,
        doubts=tuple(findings.doubts),
    )


def _read_version(version: Any, findings: Findings) -> str:
    if version is None:
        return SCHEMA_VERSION
    at = ("schemaVersion",)
    if type(version) is not str:
        findings.refuse(at, "schemaVersion", f"schemaVersion must be a date such as '{SCHEMA_VERSION}'")
        return SCHEMA_VERSION
    written = version.strip()
    if not written:
        return SCHEMA_VERSION
    if not _DATE.fullmatch(written):
        text = f"schemaVersion '{shown(written)}' is not a date such as '{SCHEMA_VERSION}'"
        findings.doubt(at, "schemaVersion", text, f"read as {SCHEMA_VERSION}")
    elif written > SCHEMA_VERSION:
        text = f"schemaVersion '{written}' is later than '{SCHEMA_VERSION}', the latest known here"
        findings.doubt(at, "schemaVersion", text, f"read as {SCHEMA_VERSION}")
    return written
