"""The arguments of a call, in whatever form they came."""

from collections.abc import Mapping
from typing import Any

from toolcrib.errors import InputValidationError, Problem
from toolcrib.model.plain import copy_json, parse_json
from toolcrib.model.tool import Tool

__all__ = ["READ_FROM_TEXT", "read_arguments", "with_defaults"]

READ_FROM_TEXT = "the arguments came as JSON text and were read"
_MAX_DEPTH = 32


def read_arguments(args: Any, tool_id: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return arguments as an object, and what there is to note about it.

    Models, and the clients that carry their calls, often send an object as the text of one.

    >>> read_arguments('{"city": "Oslo"}', "weather:now")
    ({'city': 'Oslo'}, ('the arguments came as JSON text and were read',))

    Raises:
        InputValidationError: they are neither an object nor the text of one.
    """
    if type(args) is dict:
        return args, ()
    if args is None:
        return {}, ()
    if isinstance(args, Mapping):
        return dict(args), ()
    if not isinstance(args, str | bytes | bytearray):
        raise _refusal(tool_id, f"the arguments must be a JSON object, not {type(args).__name__}")
    if not args.strip():
        return {}, (READ_FROM_TEXT,)
    try:
        read = parse_json(args)
    except ValueError as error:
        raise _refusal(tool_id, f"the arguments are text that is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise _refusal(tool_id, f"the arguments must be a JSON object, not the text of {_kind(read)}")
    return read, (READ_FROM_TEXT,)


def with_defaults(tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the defaults that the input schema declares for what is missing.

    Properties of the schema, and of the objects that are present or have a default themselves, are filled;
    `$ref`, `allOf` and conditions are not followed.
    """
    return _filled(tool.input_schema, args, _MAX_DEPTH)


def _filled(schema: Any, value: dict[str, Any], depth: int) -> dict[str, Any]:
    declared = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(declared, dict) or depth == 0:
        return value
    filled = dict(value)
    for name, inner in declared.items():
        if not isinstance(inner, dict):
            continue
        if name not in filled and "default" in inner:
            filled[name] = copy_json(inner["default"])
        if isinstance(filled.get(name), dict):
            filled[name] = _filled(inner, filled[name], depth - 1)
    return filled


def _kind(value: Any) -> str:
    return "null" if value is None else f"a {type(value).__name__}"


def _refusal(tool_id: str, message: str) -> InputValidationError:
    return InputValidationError((Problem("", "type", message[:500]),), tool_id=tool_id)
