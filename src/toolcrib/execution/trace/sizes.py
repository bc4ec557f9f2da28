"""How large a value is as JSON, measured without keeping the text."""

from typing import Any

from pydantic_core import to_json

from toolcrib.errors import OutputValidationError, ToolExecutionError
from toolcrib.execution.records import Outcome

__all__ = ["args_of", "json_size", "json_text", "result_of"]


def json_text(value: Any) -> bytes | None:
    """Return a value as JSON; None if it is None, or no JSON can be made of it."""
    if value is None:
        return None
    try:
        return to_json(value)
    except ValueError:  # pydantic's own error for a type it does not know, or a value that holds itself
        return None


def json_size(value: Any) -> int | None:
    """Return how many bytes of JSON a value is; None if it is None, or no JSON can be made of it.

    >>> json_size({"a": [1, 2]}), json_size(object())
    (11, None)
    """
    text = json_text(value)
    return None if text is None else len(text)


def args_of(outcome: Outcome) -> Any:
    """Return the arguments of a call: as they were read, or else as they came."""
    return outcome.raw_args if outcome.request is None else outcome.request.args


def result_of(outcome: Outcome) -> Any:
    """Return what a tool gave back: its value, or the raw result where there is none, or that of an error."""
    if outcome.answer is None:
        error = outcome.error
        return error.result if isinstance(error, OutputValidationError | ToolExecutionError) else None
    value = outcome.answer.structured
    return outcome.answer.mcp_result if value is None else value
