"""Validates the arguments of index queries."""

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

from pydantic import BaseModel

from toolcrib.discovery.protocols import Embedder, Searcher
from toolcrib.discovery.store import Store
from toolcrib.errors import (
    InvalidBackendError,
    InvalidSchemaError,
    Problem,
    ToolcribError,
    ValidationError,
)
from toolcrib.errors.base import shown
from toolcrib.model import (
    LocalBackend,
    LocalTool,
    McpBackend,
    ProviderBackend,
    SchemaValidator,
    Tool,
    ToolBackend,
)
from toolcrib.model.argschema.parse import light_field
from toolcrib.model.record import Record
from toolcrib.redaction import error_text

AnyTool = Tool | LocalTool[..., Any] | BaseModel
"""What can be registered: our own record, a function made a tool, or the MCP SDK's `Tool`."""
_MAX_COUNT = 2**31 - 1
_PAIR = 2


def check_parts(searcher: Any, store: Any, validator: Any) -> None:
    """Refuse to build an index of what is no searcher, no store or no validator.

    Raises:
        ValidationError: with every one that is wrong.
    """
    parts = (
        ("searcher", Searcher, searcher),
        ("store", Store, store),
        ("validator", SchemaValidator, validator),
    )
    problems = [
        Problem(
            f"/{name}",
            "type",
            f"must be a {kind.__name__}, not {type(given).__name__}{_instead(name, given)}",
        )
        for name, kind, given in parts
        if given is not None and not isinstance(given, kind)
    ]
    if problems:
        raise ValidationError(tuple(problems))


def _instead(name: str, given: Any) -> str:
    if name == "searcher" and isinstance(given, Embedder):
        return "; an embedder goes into HybridSearcher(Bm25Searcher(), EmbeddingSearcher(...))"
    return "; SqliteStore opens a file" if name == "store" and isinstance(given, str | PathLike) else ""


def check_count(times: Any) -> int:
    """Return how often a tool was used.

    Raises:
        ValidationError: that is no number of times.
    """
    if isinstance(times, bool) or not isinstance(times, int) or not 0 <= times <= _MAX_COUNT:
        message = f"must be a whole number from 0 to {_MAX_COUNT}, not {shown(times)}"
        raise ValidationError((Problem("/times", "type", message),))
    return times


def check_texts(questions: Any) -> tuple[str, ...]:
    """Return questions that a tool answers.

    Raises:
        ValidationError: they are not several texts.
    """
    given = None if isinstance(questions, str) or not isinstance(questions, Iterable) else tuple(questions)
    if given is None or not all(isinstance(text, str) for text in given):
        raise ValidationError((Problem("/questions", "type", "must be a list of texts"),))
    return given


def pairs(tools: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what is to be registered, and where it is to run.

    Raises:
        ValidationError: it is no series of pairs.
    """
    if not isinstance(tools, Iterable) or isinstance(tools, Tool):
        message = f"must be pairs of a tool and a backend or None, not {type(tools).__name__}"
        raise ValidationError((Problem("/tools", "type", message),))
    for place, pair in enumerate(tools):
        if not isinstance(pair, tuple | list) or len(pair) != _PAIR:
            message = f"must be a pair of a tool and a backend or None, not {type(pair).__name__}"
            raise ValidationError((Problem(f"/tools/{place}", "type", message),))
        yield pair[0], pair[1]


def read_pair(tool: Any, backend: Any) -> tuple[Tool, ToolBackend | None]:
    """Return a tool and where it runs: as given, as it says itself, or, for a function, in this process."""
    record = tool.tool if isinstance(tool, LocalTool) else tool
    if isinstance(record, BaseModel) and not isinstance(record, Record):  # the MCP SDK's
        record = Tool.from_json(record)
    if not isinstance(record, Tool):
        message = f"must be a Tool or a function made one with @tool, not {type(tool).__name__}"
        if isinstance(tool, Mapping | str | bytes):
            message += "; Tool.from_json(...) reads one from JSON"
        raise ValidationError((Problem("/tool", "type", message),))
    if backend is not None and not isinstance(backend, McpBackend | ProviderBackend | LocalBackend):
        raise InvalidBackendError(
            f"{type(backend).__name__} is not a backend; "
            "use McpBackend(server_name=...), ProviderBackend(...) or LocalBackend(name=...)"
        )
    here = LocalBackend(name=str(record.id)) if isinstance(tool, LocalTool) else None
    return record, backend or record.backend or here


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
        except ValidationError:  # the schema can be used: it refused an empty object
            continue
        except InvalidSchemaError as error:
            kind = " (a light argument schema, which ArgSchema reads)" if light_field(schema) else ""
            reason = f"{tool.id}, {part} schema{kind}: {error.reason}"
            raise type(error)(reason, error.problems) from error
        except ToolcribError:
            raise
        except Exception as error:  # anybody's validator
            reason = f"{tool.id}, {part} schema: the validator failed: {error_text(error)}"
            raise InvalidSchemaError(reason) from error
