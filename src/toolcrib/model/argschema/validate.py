"""Validation of arguments against argument schemas, and filling in of defaults."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from toolcrib.errors import InvalidSchemaError, Problem, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.model.argschema.check import ValueChecker
from toolcrib.model.argschema.parse import parse_arg_schema
from toolcrib.model.argschema.records import ArgSchemaProperty, Members, Place, label
from toolcrib.model.argschema.schema import ArgSchema
from toolcrib.model.plain import MAX_NODES, copy_json, measure
from toolcrib.model.schema.references import parse_pointer

_LONGEST_INDEX = len(str(MAX_NODES))
_MAX_FILLED = 2_000_000
"""The maximum number of properties visited, and of values added, to fill in defaults."""


def validate_args(
    schema: ArgSchema | Mapping[str, Any], args: Any, *, strict: bool = False, extended: bool = False
) -> None:
    """Validate arguments against a schema, which may be parsed already; None means no arguments.

    >>> validate_args({"limit": {"type": "integer", "maximum": 100}}, {"limit": 500})
    Traceback (most recent call last):
    toolcrib.errors.ValidationError: argument 'limit' value must be <= 100

    Raises:
        ValidationError: the arguments do not fit; its message is the first of its `problems` (up to 32).
        InvalidSchemaError: the schema itself cannot be used.
    """
    parsed = _parse_if_needed(schema, strict=strict, extended=extended)
    found = ValueChecker(strict=strict or parsed.strict).members(parsed.members, _check_args(args))
    problems = tuple(islice(found, MAX_PROBLEMS))
    if problems:
        raise ValidationError(problems, text=problems[0].message)


def apply_defaults(schema: ArgSchema | Mapping[str, Any], args: Any) -> dict[str, Any]:
    """Return a copy of the arguments with defaults filled in.

    Members of a nested object that is present are filled in too. The arguments are not checked.

    >>> apply_defaults({"q": {"type": "string"}, "limit": {"type": "integer", "default": 10}}, {"q": "cats"})
    {'q': 'cats', 'limit': 10}

    Raises:
        InvalidSchemaError: the schema cannot be used, a default does not fit its own property, or the
            schema was parsed without `extended=True`.
        ValidationError: the arguments are not a plain JSON object, or are too many.
    """
    parsed = _parse_if_needed(schema, strict=False, extended=True)
    return _Filler().members(parsed.members, _check_args(args))


def _parse_if_needed(schema: ArgSchema | Mapping[str, Any], *, strict: bool, extended: bool) -> ArgSchema:
    """Parse a schema, or check that a parsed one has the wanted strictness and fields."""
    if not isinstance(schema, ArgSchema):
        return parse_arg_schema(schema, strict=strict, extended=extended)
    if extended and not schema.extended:
        raise InvalidSchemaError("the argument schema was parsed without extended=True; parse it with that")
    if strict and schema.doubts:
        raise InvalidSchemaError("invalid argument schema", schema.doubts)
    return schema


def _check_args(args: Any) -> dict[str, Any]:
    """Check that the arguments are an object of plain JSON, and return them."""
    if args is None:
        return {}
    if type(args) is not dict:
        raise _refusal("", "type", f"arguments must be an object, not {type(args).__name__[:40]}")
    try:
        measure(args)
    except ValidationError as error:
        flaw = error.problems[0]
        culprit = f"argument {label(_place_at(flaw.path))}" if flaw.path else "the object of arguments"
        message = flaw.message.replace("the value", culprit, 1)
        raise _refusal(flaw.path, flaw.keyword, message) from None
    return args


def _place_at(path: str) -> Place:
    """Convert a JSON Pointer to a place; a key of digits is read as an index."""
    return tuple(
        int(step) if step.isdecimal() and len(step) <= _LONGEST_INDEX else step
        for step in parse_pointer(path)
    )


def _refusal(path: str, keyword: str, message: str) -> ValidationError:
    return ValidationError((Problem(path, keyword, message[:500]),), text=message[:500])


class _Filler:
    """Fills in defaults, up to a limit."""

    def __init__(self) -> None:
        self._left = _MAX_FILLED

    def members(self, members: Members, value: dict[str, Any]) -> dict[str, Any]:
        """Return an object with the defaults of its absent members."""
        self._count_work(len(members.properties))
        filled = dict(value)
        for name, prop in members.properties.items():
            if name in value:
                filled[name] = self._inside(prop, value[name])
            elif prop.has_default:
                self._count_work(measure(prop.default)[0])
                filled[name] = copy_json(prop.default)
        return filled

    def _inside(self, prop: ArgSchemaProperty, value: Any) -> Any:
        if prop.members is None:
            return value
        if prop.is_array:
            return [self._object(prop.members, item) for item in value] if type(value) is list else value
        return self._object(prop.members, value)

    def _object(self, members: Members, value: Any) -> Any:
        return self.members(members, value) if type(value) is dict else value

    def _count_work(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise _refusal("", "size", "the arguments hold too many objects to fill in; send fewer")
