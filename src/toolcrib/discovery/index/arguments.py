"""What may be asked of an index, checked before anything is looked up."""

from math import isnan
from typing import Any

from toolcrib.errors import InvalidBackendError, InvalidSchemaError, Problem, ValidationError
from toolcrib.model import LocalTool, SchemaValidator, Tool, ToolBackend

__all__ = ["MAX_LIMIT", "check_asked", "compile_schemas", "read_pair"]

MAX_LIMIT = 1_000
"""How many items a page holds at most; a larger limit gives a page of so many."""


def check_asked(*, limit: int, query: str = "", min_confidence: float = 0.0) -> int:
    """Return how many items the page may hold.

    Raises:
        ValidationError: with everything that is wrong with what was asked.
    """
    problems: list[Problem] = []
    if not isinstance(query, str):
        problems.append(Problem("/query", "type", f"must be text, not {type(query).__name__}"))
    if isinstance(limit, bool) or not isinstance(limit, int):
        problems.append(Problem("/limit", "type", f"must be a whole number, not {type(limit).__name__}"))
    elif limit < 1:
        problems.append(Problem("/limit", "minimum", f"must be at least 1, not {limit}"))
    if isinstance(min_confidence, bool) or not isinstance(min_confidence, int | float):
        problems.append(Problem("/min_confidence", "type", "must be a number from 0 to 1"))
    elif isnan(min_confidence) or not 0 <= min_confidence <= 1:
        problems.append(Problem("/min_confidence", "maximum", "must be from 0 to 1"))
    if problems:
        raise ValidationError(tuple(problems))
    return min(limit, MAX_LIMIT)


def read_pair(tool: Any, backend: Any) -> tuple[Tool, ToolBackend | None]:
    """Return a tool and where it runs: the backend given, or the one it names itself."""
    record = tool.tool if isinstance(tool, LocalTool) else tool
    if not isinstance(record, Tool):
        said = f"must be a Tool or a function made one with @tool, not {type(tool).__name__}"
        raise ValidationError((Problem("/tool", "type", said),))
    if backend is not None and not isinstance(backend, ToolBackend):
        raise InvalidBackendError(
            f"{type(backend).__name__} is not a backend; "
            "use McpBackend(server_name=...), ProviderBackend(...) or LocalBackend(name=...)"
        )
    return record, backend or record.backend


def compile_schemas(validator: SchemaValidator, tool: Tool) -> None:
    """Refuse a tool whose schemas cannot be used.

    Raises:
        InvalidSchemaError: or a leaf of it, naming the tool.
    """
    named = (("input", tool.input_schema), ("output", tool.output_schema))
    for part, schema in named:
        if schema is None:
            continue
        try:
            validator.validate(schema, {})
        except ValidationError:  # the schema can be used: it said no to an empty object
            continue
        except InvalidSchemaError as error:
            raise type(error)(f"{tool.id}, {part} schema: {error.reason}", error.problems) from error
