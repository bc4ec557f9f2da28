"""Validation of the arguments of index methods."""

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
from toolcrib.errors.base import short_repr
from toolcrib.model import (
    DefaultValidator,
    LocalBackend,
    LocalTool,
    McpBackend,
    ProviderBackend,
    SchemaValidator,
    Tool,
    ToolBackend,
)
from toolcrib.model.argschema.parse import light_field
from toolcrib.model.plain import copy_json
from toolcrib.model.record import Record
from toolcrib.redaction import error_text

AnyTool = Tool | LocalTool[..., Any] | BaseModel
"""A tool to register: a `Tool`, a function decorated with `@tool`, or the MCP SDK's `Tool`."""
_MAX_COUNT = 2**31 - 1
_PAIR = 2


def check_parts(searcher: Any, store: Any, validator: Any) -> None:
    """Check the types of the searcher, the store and the validator of an index.

    Raises:
        ValidationError: with a problem for each that has the wrong type.
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
            f"must be a {kind.__name__}, not {type(given).__name__}{_suggest_instead(name, given)}",
        )
        for name, kind, given in parts
        if given is not None and not isinstance(given, kind)
    ]
    if problems:
        raise ValidationError(tuple(problems))


def _suggest_instead(name: str, given: Any) -> str:
    if name == "searcher" and isinstance(given, Embedder):
        return "; an embedder goes into HybridSearcher(Bm25Searcher(), EmbeddingSearcher(...))"
    return "; SqliteStore opens a file" if name == "store" and isinstance(given, str | PathLike) else ""


def check_count(times: Any) -> int:
    """Check a count of uses, and return it.

    Raises:
        ValidationError: it is not a whole number in range.
    """
    if isinstance(times, bool) or not isinstance(times, int) or not 0 <= times <= _MAX_COUNT:
        message = f"must be a whole number from 0 to {_MAX_COUNT}, not {short_repr(times)}"
        raise ValidationError((Problem("/times", "type", message),))
    return times


def check_texts(questions: Any) -> tuple[str, ...]:
    """Check example questions, and return them as a tuple.

    Raises:
        ValidationError: they are not a collection of texts.
    """
    given = None if isinstance(questions, str) or not isinstance(questions, Iterable) else tuple(questions)
    if given is None or not all(isinstance(text, str) for text in given):
        raise ValidationError((Problem("/questions", "type", "must be a list of strings"),))
    return given


def read_pairs(tools: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of a tool and a backend that `register_many` was given.

    Raises:
        ValidationError: the argument is not a series of pairs.
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
    """Return a checked tool and its backend.

    The backend is the one given, else the one in the definition, else, for a function, this process.
    """
    record = tool.tool if isinstance(tool, LocalTool) else tool
    if isinstance(record, BaseModel) and not isinstance(record, Record):  # the MCP SDK's `Tool`
        record = Tool.from_json(record)
    if not isinstance(record, Tool):
        message = f"must be a Tool or a function decorated with @tool, not {type(tool).__name__}"
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


def check_schemas(validator: SchemaValidator, tool: Tool) -> None:
    """Check that the schemas of a tool can be used.

    Raises:
        InvalidSchemaError: a schema cannot be used; the error, which may be a subclass, names the tool.
    """
    for part, schema in (("input", tool.shared("input_schema")), ("output", tool.shared("output_schema"))):
        if schema is None:
            continue
        try:
            if isinstance(validator, DefaultValidator):
                validator.check(schema)
            else:
                validator.validate(copy_json(schema), {})
        except ValidationError:  # the schema compiled; it only does not accept the empty object
            continue
        except InvalidSchemaError as error:
            kind = " (a light argument schema, which ArgSchema reads)" if light_field(schema) else ""
            reason = f"{tool.id}, {part} schema{kind}: {error.reason}"
            raise type(error)(reason, error.problems) from error
        except ToolcribError:
            raise
        except Exception as error:  # a validator of the program may raise anything
            reason = f"{tool.id}, {part} schema: the validator failed: {error_text(error)}"
            raise InvalidSchemaError(reason) from error
