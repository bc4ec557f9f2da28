"""Reads, validates and fills the arguments of a call."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import InputValidationError, Op, Problem, ToolcribError, ToolError, ValidationError
from toolcrib.execution.kept import KEPT, KeptHandle
from toolcrib.model.plain import copy_json, copy_unless_large, parse_json
from toolcrib.model.schema.validator import SchemaValidator
from toolcrib.model.shape import ShapedTool
from toolcrib.model.tool import Tool
from toolcrib.redaction import error_text

READ_FROM_TEXT = "the arguments came as JSON text and were parsed"
_MAX_DEPTH = 32
"""The deepest level of a schema at which defaults are filled in."""


def read_arguments(args: Any, tool_id: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return arguments as an object, and notes for the caller.

    Models and their clients often send an object as JSON text, so that is parsed.

    >>> read_arguments('{"city": "Oslo"}', "weather:now")
    ({'city': 'Oslo'}, ('the arguments came as JSON text and were parsed',))

    Raises:
        InputValidationError: they are neither an object nor the JSON text of one.
    """
    if type(args) is dict:
        return args, ()
    if args is None:
        return {}, ()
    if isinstance(args, Mapping):
        return dict(args), ()
    if isinstance(args, KeptHandle):
        problem = (
            f"a handle stands for one argument and not for all; give {{NAME: {{'{KEPT}': ...}}}} for each"
        )
        raise _input_error(tool_id, problem)
    if not isinstance(args, str | bytes | bytearray):
        raise _input_error(tool_id, f"the arguments must be a JSON object, not {type(args).__name__}")
    if not args.strip():
        return {}, (READ_FROM_TEXT,)
    try:
        read = parse_json(args)
    except ValueError as error:
        raise _input_error(tool_id, f"the arguments are text that is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise _input_error(
            tool_id, f"the arguments must be a JSON object, not the text of {_type_name(read)}"
        )
    return read, (READ_FROM_TEXT,)


async def validate_arguments(validator: SchemaValidator, tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """Return a validated copy of arguments; large ones are validated in a thread.

    The copy is what runs and what is audited, even if the caller changes its own object meanwhile.

    Raises:
        InputValidationError: they are invalid.
    """
    copied = copy_unless_large(args)
    try:
        if copied is None:
            return await in_thread(_copy_and_check, validator, tool, args)
        check_value(validator.validate_input, tool, copied, "validate_input")
    except ValidationError as error:
        raise InputValidationError(error.problems, error.text, tool_id=str(tool.id)) from error
    return copied


async def validate_shaped_arguments(
    validator: SchemaValidator, shaped: ShapedTool, args: dict[str, Any]
) -> dict[str, Any]:
    """Return a validated copy of the arguments that the original of a shaped tool gets.

    They are validated as the caller gives them, so that problems have the names that the caller knows, and
    once more as the original gets them.

    Raises:
        InputValidationError: they are invalid.
    """
    tool_id = str(shaped.id)
    try:
        shaped.check_names(args)
    except ValidationError as error:
        raise InputValidationError(error.problems, error.text, tool_id=tool_id) from error
    given = await validate_arguments(validator, shaped, args)
    try:
        return await validate_arguments(validator, shaped.origin, shaped.original_args(given))
    except InputValidationError:
        reason = "the arguments do not fit the tool in the shape that it has here; tell its operator"
        raise _input_error(tool_id, reason) from None


def _copy_and_check(validator: SchemaValidator, tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """Copy large arguments, then validate the copy; the caller may change its object meanwhile."""
    try:
        copied: dict[str, Any] = copy_json(args)
    except ValueError as error:
        raise ValidationError((Problem("", "size", f"the value: {error}; send a smaller one"),)) from error
    check_value(validator.validate_input, tool, copied, "validate_input")
    return copied


def check_value(validate: Callable[[Tool, Any], object], tool: Tool, value: Any, op: Op) -> None:
    """Check a value with a validator; a validator that fails, or does not return None, rejects the value.

    Raises:
        ValidationError: the value is invalid.
        ToolError: the validator failed, or is asynchronous.
    """
    try:
        verdict = validate(tool, value)
    except ToolcribError:
        raise
    except Exception as error:  # validators may be user code, which can raise anything
        reason = f"the validator failed: {error_text(error)}"
        raise ToolError(tool_id=str(tool.id), op=op, reason=reason) from error
    if verdict is not None:
        if inspect.iscoroutine(verdict):
            verdict.close()
        reason = f"a validator returns None or raises, and this one returned {type(verdict).__name__}"
        raise ToolError(tool_id=str(tool.id), op=op, reason=reason)


def fill_defaults(tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with missing properties set to the defaults of the input schema.

    This includes the properties of nested objects that are present or have a default themselves; `$ref`,
    `allOf` and conditions are not followed.
    """
    return _fill_defaults(tool.shared("input_schema"), args, _MAX_DEPTH)


def _fill_defaults(schema: Any, value: dict[str, Any], depth: int) -> dict[str, Any]:
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
            filled[name] = _fill_defaults(inner, filled[name], depth - 1)
    return filled


def _type_name(value: Any) -> str:
    return "null" if value is None else f"a {type(value).__name__}"


def _input_error(tool_id: str, message: str) -> InputValidationError:
    return InputValidationError((Problem("", "type", message[:500]),), tool_id=tool_id)
