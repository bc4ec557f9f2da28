"""Filling in the defaults of absent arguments."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from toolcrib.errors import Problem, ValidationError
from toolcrib.model.argschema.meter import Meter, SpentError
from toolcrib.model.argschema.property import ArgSchemaProperty, Members
from toolcrib.model.argschema.schema import ArgSchema
from toolcrib.model.argschema.validate import args_of, ready


def apply_defaults(schema: ArgSchema | Mapping[str, Any], args: Any) -> dict[str, Any]:
    """Return the arguments with the defaults of absent ones; the input stays as it is.

    Members of a nested object that is present are filled in too. The arguments are not checked.

    >>> apply_defaults({"q": {"type": "string"}, "limit": {"type": "integer", "default": 10}}, {"q": "cats"})
    {'q': 'cats', 'limit': 10}

    Raises:
        InvalidSchemaError: the schema cannot be used, a default does not fit its own property, or the
            schema was parsed without `extended=True`.
        ValidationError: the arguments are not an object with string keys, or are too many.
    """
    parsed = ready(schema, strict=False, extended=True)
    try:
        return _filled(parsed.members, args_of(args), Meter())
    except SpentError:
        raise _refusal("the arguments hold too many values to fill in") from None


def _refusal(message: str) -> ValidationError:
    return ValidationError((Problem("", "type", message),), text=message)


def _filled(members: Members, value: dict[Any, Any], meter: Meter) -> dict[str, Any]:
    meter.spend(len(value) + len(members.properties))
    # A key that is not a string may compare as it likes, so it never meets a look-up.
    if any(type(key) is not str for key in value):
        raise _refusal("argument names must be strings")
    filled = dict(value)
    for name, prop in members.properties.items():
        if name not in filled:
            if prop.has_default:
                filled[name] = deepcopy(prop.default)
        elif prop.members is not None:
            filled[name] = _inside(prop, prop.members, filled[name], meter)
    return filled


def _inside(prop: ArgSchemaProperty, members: Members, value: Any, meter: Meter) -> Any:
    if prop.is_array and type(value) is list:
        meter.spend(len(value))
        return [_filled(members, item, meter) if type(item) is dict else item for item in value]
    return _filled(members, value, meter) if type(value) is dict and not prop.is_array else value
