"""Checking a tool's arguments."""

from collections.abc import Mapping
from typing import Any

from toolcrib.errors import InvalidSchemaError, Problem, ValidationError
from toolcrib.model.argschema.check import Check
from toolcrib.model.argschema.parse import parse_arg_schema
from toolcrib.model.argschema.schema import ArgSchema


def validate_args(
    schema: ArgSchema | Mapping[str, Any], args: Any, *, strict: bool = False, extended: bool = False
) -> None:
    """Check arguments against a schema, which may be parsed already; `None` stands for no arguments.

    >>> validate_args({"limit": {"type": "integer", "maximum": 100}}, {"limit": 500})
    Traceback (most recent call last):
    toolcrib.errors.ValidationError: argument 'limit' value must be <= 100

    Raises:
        ValidationError: the arguments do not fit; its text is the first problem, `problems` all, up to 32.
        InvalidSchemaError: the schema itself cannot be used.
    """
    parsed = ready(schema, strict=strict, extended=extended)
    problems = Check(strict=strict or parsed.strict).run(parsed.members, args_of(args))
    if problems:
        raise ValidationError(problems, text=problems[0].message)


def ready(schema: ArgSchema | Mapping[str, Any], *, strict: bool, extended: bool) -> ArgSchema:
    """Return a parsed schema that can be used as strictly, and with as many fields, as asked.

    Raises:
        InvalidSchemaError: it is not a usable schema, or was parsed more permissively than it is to be used.
    """
    if not isinstance(schema, ArgSchema):
        return parse_arg_schema(schema, strict=strict, extended=extended)
    if extended and not schema.extended:
        raise InvalidSchemaError("the argument schema was parsed without extended=True; parse it with that")
    if strict and schema.doubts:
        raise InvalidSchemaError("invalid argument schema", schema.doubts)
    return schema


def args_of(args: Any) -> dict[Any, Any]:
    """Return the arguments as a dict.

    Raises:
        ValidationError: they are something else.
    """
    if args is None:
        return {}
    if type(args) is not dict:
        message = f"arguments must be an object, not {type(args).__name__[:40]}"
        raise ValidationError((Problem("", "type", message),), text=message)
    return args
